"""From judged runs to their one account, `Results`: of a campaign, of a real run, of a recorded history.

The runner stores failures and knows how a run ended. What it knows is handed in
here as values: this room imports nothing that runs anything.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lockref.atomic_files import write_atomically
from lockref.history import batch_digest, digests
from lockref.words import counted
from reports.checks import judge
from reports.checks.facts.surroundings.integrity import altered, inspect_records
from reports.checks.segments.histories import PiecewiseJudge
from reports.checks.segments.judging import EVENTS_OF_A_PIECE
from reports.checks.spec import CLAUSES
from reports.checks.summary import Finding, Summary
from reports.explanation.recorded import RecordedCauses
from reports.formats.block import failure_block
from reports.formats.exit_codes import gate
from reports.formats.junit import junit_xml
from reports.formats.results import Failure, Results, Timeline, judged, load_results
from reports.formats.text import readable
from reports.history_files import HistoryPieces, Notes, history_pieces, load_history, write_history
from reports.pipeline.timeline import KINDS_SHOWN, build_timeline

WHOLE_EVENTS_MAX: Final = 10_000_000
"""So many events of a history are judged at once, in about five gigabytes; a longer one is judged piece by piece."""


class ShownFailure(Protocol):
    """A failure as one run shows it: clause, witness and instant; the run's events and its grants."""

    @property
    def finding(self) -> Finding: ...

    @property
    def events(self) -> pa.Table: ...

    @property
    def grants(self) -> pa.Table: ...


class StoredFailure(Protocol):
    """A failure that the runner has stored: its id, its cause, the line that shows it again, its notes."""

    @property
    def id(self) -> str: ...

    @property
    def replay(self) -> str: ...

    @property
    def notes(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def seed(self) -> int: ...

    @property
    def shown(self) -> ShownFailure | None: ...

    @property
    def because(self) -> str: ...


def summarised_results(
    summary: Summary,
    *,
    title: str,
    scenario: str,
    provider: str,
    backend: str = "",
    provenance: Mapping[str, object],
    store_failure: Callable[[Finding], StoredFailure] | None = None,
    again: str = "",
    causes: RecordedCauses | None = None,
    seeds: Mapping[int, int] = MappingProxyType({}),
    is_sample: bool = True,
) -> Results:
    """The one account of judged runs.

    is_sample: False for runs that a search has chosen; they tell no rate.

    store_failure: keeps a failure for `lockref replay`. Without it failures are
    named by clause and run; `again` is the line that judges the history once
    more, `causes` tells causes from that history, and `seeds` knows the seeds of runs that had one.
    """
    results = judged(summary, title=title, classes=summary.classes, events=summary.events, is_sample=is_sample)
    for found in summary.findings:
        stored = store_failure(found) if store_failure else None
        shown = stored.shown if stored else None
        finding = shown.finding if shown else found
        failure = Failure(
            id=stored.id if stored else f"{found.clause}-{found.run}",
            clause=finding.clause,
            message=str(finding.witness.get("text") or CLAUSES[finding.clause]),
            run=finding.run,
            seed=stored.seed if stored else seeds.get(finding.run),
            scenario=scenario,
            provider=provider,
            backend=backend,
            begin_ns=finding.begin_ns,
            at_ns=finding.at_ns,
            similar=finding.similar,
            because=stored.because if stored else readable(causes.sentence_of(found)) if causes else "",
            replay=stored.replay if stored else again,
            notes=[(label, readable(text)) for label, text in stored.notes] if stored else [],
            witness=finding.witness,
            timeline=_picture(shown) if shown else None,
        ).in_run_time()
        failure.block = failure_block(failure)
        results.failures.append(failure)
    results.notices += sorted(
        {_store_notice(finding) for finding in summary.findings if finding.witness.get("blame") == "store"}
    )
    results.provenance = dict(provenance)
    return results


def _picture(shown: ShownFailure) -> Timeline:
    """The timeline around the failure."""
    rows = shown.events.filter(pc.is_in(shown.events["kind"], pa.array(KINDS_SHOWN)))
    return build_timeline(
        rows.to_pylist(),
        grants=shown.grants.to_pylist(),
        moment_ns=shown.finding.at_ns,
        witness=shown.finding.witness,
        origin_ns=shown.finding.begin_ns,
    )


def _store_notice(finding: Finding) -> str:
    """A verdict on a run in which the store broke its promise must not read as one on the lock."""
    advice = finding.witness.get("advice")
    return (
        f"{finding.witness['text']} ({finding.clause}): this is a fault of the store, and what broke after it in the "
        f"same run may be a consequence{f'; {advice}' if advice else ''}"
    )


def write_run(
    folder: Path, events: pa.Table, runs: pa.Table, results: Results, *, allowed: Collection[int] = ()
) -> None:
    """A history, its results and JUnit into a run folder. `allowed`: the exit codes that the gate takes for success."""
    write_history(folder, events, runs)
    results.sealed = {name: _digest(folder / name) for name in ("events.parquet", "runs.parquet")}
    write_results(folder, results, allowed=allowed)


def write_results(folder: Path, results: Results, *, allowed: Collection[int] = ()) -> None:
    """The results and JUnit into a run folder whose history is written already, as files or folders of part files."""
    results.files = {"events": "events.parquet", "runs": "runs.parquet", "junit": "junit.xml"}
    results.write(folder / "results.json")
    write_atomically(folder / "junit.xml", junit_xml([results], **gate(allowed)))


def _digest(file: Path) -> str:
    """BLAKE2b of a file's bytes; "" where there is no file."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return ""


def _is_as_written(history: Path) -> bool:
    """True where the files of a history have the very bytes that its run wrote, and told of in its results.

    So a page of many runs looks at the events of none of them. Whoever changes both has another record, which every
    other check would believe, too.
    """
    file = history / "results.json"
    sealed = load_results(file).sealed if file.is_file() else {}
    return bool(sealed) and all(_digest(history / name) == digest for name, digest in sealed.items())


def check_line(history: Path) -> str:
    """The line that judges a recorded history once more: what a real run has in the place of a replay."""
    return f"lockref check {shlex.quote(str(history))}"


def judged_history(
    history: Path,
    *,
    provenance: Mapping[str, object] = MappingProxyType({}),
    ended: str = "",
    finished_seeds: int = 0,
) -> Results:
    """The judge's account, made in this process, of one history: a folder or a file of events.

    ended: how the run of the folder ended, if it did not finish by itself. finished_seeds: how many seeds an unfinished
        campaign has finished; its folder may keep fewer histories.

    Raises HistoryUnreadable if there is no history, and NothingRecorded if the run ended before its first event.
    """
    pieces = history_pieces(history, size=EVENTS_OF_A_PIECE)
    if pieces is not None and pieces.count > WHOLE_EVENTS_MAX:
        results = judged_in_pieces(history, pieces, provenance=provenance)
        if results is not None:
            return results
    return _judged(history, _read(history), provenance, ended=ended, finished_seeds=finished_seeds)


def judged_if_damaged(
    history: Path,
    *,
    provenance: Mapping[str, object] = MappingProxyType({}),
    ended: str = "",
    finished_seeds: int = 0,
) -> Results | None:
    """The account of `judged_history` for a history that is not as its run recorded it; None where every run is whole.

    Where the files are those that the run wrote, it costs their digest; else a look at every event, and no judgement
    where all are whole. Raises what `judged_history` raises.
    """
    if _is_as_written(history):
        return None
    read = _read(history)
    if not (read.damage or read.notes.damaged or read.notes.nameless):
        return None
    return _judged(history, read, provenance, ended=ended, finished_seeds=finished_seeds)


def judged_in_pieces(
    history: Path,
    pieces: HistoryPieces,
    *,
    provenance: Mapping[str, object] = MappingProxyType({}),
    seen: Callable[[pa.Table], None] = lambda _piece: None,
) -> Results | None:
    """The account of a history that is too long for the memory, judged piece by piece.

    seen: told of each piece. None where a record names no run, so that any run may have lost it: that asks for the
    whole. Its digest, its speed, its thresholds and the causes of its failures are not in it, and a notice says so.
    Raises what `judged_history` raises.
    """
    known = history / "results.json" if history.is_dir() else None
    earlier = load_results(known) if known is not None and known.is_file() else None
    not_demanded = frozenset(earlier.not_demanded) if earlier else frozenset()
    judging = PiecewiseJudge(pieces.runs, damaged=pieces.notes.damaged, not_demanded=not_demanded)
    for piece in pieces:
        judging.add(piece)
        seen(piece)
    if pieces.notes.nameless:
        return None
    summary = judging.end()
    about = pieces.runs.select(["scenario", "provider"]).to_pylist()
    results = summarised_results(
        summary,
        title=str(history),
        scenario=", ".join(sorted({row["scenario"] for row in about})),
        provider=", ".join(sorted({row["provider"] for row in about})),
        provenance=provenance,
        again=check_line(history),
    )
    if judging.most:
        results.notices.append(
            f"judged in pieces of {pieces.size:,} events, at most {judging.most:,} at once, and "
            f"{counted(judging.split, 'run')} over several pieces: digests, speed, thresholds and causes were not "
            "looked at"
        )
    results.notices += pieces.notes.lines
    return results


_ROWLESS: Final = "its row in the table of runs is gone"
_SHORTENED: Final = "its end is gone"


@dataclass(frozen=True, slots=True)
class _Read:
    """A history as it was read.

    damage: run number to what is wrong with it. digest_of: of each run, as it is now.
    """

    events: pa.Table
    runs: pa.Table
    notes: Notes
    digest_of: Mapping[int, str]
    damage: dict[int, str]


def _read(history: Path) -> _Read:
    events, runs, notes = load_history(history)
    digest_of = digests(events)
    # An altered history does not show what happened, whether clauses hold in it or break. So each run is compared.
    records = inspect_records(events, runs)
    damage = {**records.damaged, **altered(records, set(digest_of), computed=digest_of)}
    told = runs["run"].filter(pc.fill_null(runs["is_cut_off"], fill_value=False)).to_pylist()
    shortened = frozenset(records.cut_off).difference(told) | frozenset(notes.cut_off)
    if (history / "results.json").is_file():
        # A run that judged itself wrote every event to its end, and a row for each run, which said what it demanded.
        rowless = runs.filter(pc.fill_null(runs["is_inferred"], fill_value=False))["run"].to_pylist()
        damage = {**dict.fromkeys(rowless, _ROWLESS), **dict.fromkeys(sorted(shortened), _SHORTENED), **damage}
    return _Read(events, runs, notes, digest_of, damage)


def _judged(
    history: Path, read: _Read, provenance: Mapping[str, object], *, ended: str, finished_seeds: int
) -> Results:
    events, runs, notes, digest_of, damage = read.events, read.runs, read.notes, read.digest_of, read.damage
    known = history / "results.json" if history.is_dir() else None
    earlier = load_results(known) if known is not None and known.is_file() else None
    judgement = judge(events, runs, known_damage=damage)
    counted = Summary.of(
        judgement,
        events,
        runs,
        damaged=len(notes.damaged),
        nameless=notes.nameless,
        # The clauses that the run itself did not demand, such as those of a gate over the whole catalogue.
        not_demanded=frozenset(earlier.not_demanded) if earlier else frozenset(),
    )
    about = runs.select(["run", "seed", "world", "scenario", "provider"]).to_pylist()
    results = summarised_results(
        counted,
        title=str(history),
        scenario=", ".join(sorted({row["scenario"] for row in about})),
        provider=", ".join(sorted({row["provider"] for row in about})),
        provenance={**provenance, "digest": batch_digest(digest_of[run] for run in sorted(digest_of))},
        again=check_line(history),
        causes=RecordedCauses(events, runs, grants=judgement.grants),
        seeds={row["run"]: row["seed"] for row in about if row["world"] == "simulated" and row["seed"] is not None},
    )
    is_simulated = {row["world"] for row in about} == {"simulated"}
    if ended:
        results.notices.append(ended if is_simulated else f"{ended}; it is judged as far as it recorded")
    if finished_seeds:
        results.notices.append(
            f"{finished_seeds:,} seeds were finished; the same command with --resume goes on after them"
        )
    all_runs = earlier.runs if earlier else finished_seeds
    if all_runs > len(runs):
        results.notices.append(
            f"{len(runs):,} of {all_runs:,} runs kept their history and are judged here; the run judged all of them"
        )
    results.notices += notes.lines
    return results
