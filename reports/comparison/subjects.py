"""The subjects of a comparison: recorded runs, each with its account, its distinguishing facts, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import ConfigError, Location
from lockref.stores.probe.fingerprint import ClauseAnswer, Fingerprint
from lockref.words import Kind, Op, counted
from reports.account import judged_history
from reports.checks.facts.case import Case, open_case
from reports.checks.facts.columns import Ints
from reports.checks.facts.surroundings.host import NOTICED_NS
from reports.checks.measures.handoff import handoffs_table
from reports.checks.verdicts import joint_verdict
from reports.comparison.differences import Drawn, Stretches, known, once, quantile_of, ratio_of
from reports.formats.results import Results, load_results
from reports.history_files import load_history

UNSERVED: Final = "clients never served"
STRETCHES: Final = 24
"""A run of twelve seconds has stretches of half a second: longer than what one slow answer does to its neighbours."""
SAMPLES_MIN: Final = {0.5: 20, 0.99: 200}
"""With fewer samples a quantile is told without an interval: the 99th percentile of fifty is their maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a real run. unit: `ns`, `1/s` or `1`. is_less_better: of two, the smaller one is the better.

    has_interval: False where one run has no interval. has_samples: False where there were too few samples. runs: of a
    subject that was run several times, the figure of the run in each block; None where it was undefined there.
    """

    name: str
    unit: str
    drawn: Drawn
    is_less_better: bool = True
    has_interval: bool = True
    has_samples: bool = True
    runs: Mapping[int, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """In how many of the judged runs (of a store: rounds of a race) a clause broke, and what was decided about it.

    is_asked_once: a question to a store that is no race: the verdict is the answer, and no share stands behind it.
    runs: of a subject that was run several times, the share of the run in each block. Clients of one run are not
    independent, nor are the rounds of a race.
    """

    verdict: str
    broken: int = 0
    judged: int = 0
    text: str = ""
    is_asked_once: bool = False
    runs: Mapping[int, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One column of a comparison.

    verdict: of the whole. statement: the same in a sentence. facts: what a reader must know to judge a difference,
    such as scenario, lock, server and number of clients. shares: by clause. figures: of a real run, and empty for
    virtual time, whose latencies are the scenario's. digest: of what was recorded. blocks: of a subject that was run
    several times, the number of each block that has a run of it; else empty.
    """

    title: str
    path: Path
    verdict: str
    statement: str
    facts: dict[str, str]
    shares: dict[str, Share]
    figures: list[Figure] = field(default_factory=list)
    digest: str = ""
    blocks: tuple[int, ...] = ()


_REPEATED: Final = (
    "world", "scenario", "provider", "clients", "processes", "backend", "backend_version", "client", "commit",
    "store", "endpoint", "servers", "probe version",
)  # fmt: skip
"""Facts in which the repeats of one subject must be alike."""
_LATE: Final = "machine late by up to"


def repeated_subject(runs: Mapping[int, Subject]) -> Subject:
    """Several runs of one thing as one subject: the figures of each run, and the clauses over all of them.

    runs: by the number of the block. Raises ConfigError where two of them are one run, or were asked different things.
    """
    parts = list(runs.values())
    first = parts[0]
    for part in parts[1:]:
        # How late the machine was may differ: that is what repeats are for.
        differing = [name for name in _REPEATED if part.facts.get(name) != first.facts.get(name)]
        if differing:
            raise ConfigError(
                f"is no repeat of {first.path}: they differ in {', '.join(differing)}",
                location=Location(str(part.path)),
            )
    late = [part.facts[_LATE] for part in parts if _LATE in part.facts]
    facts = {name: value for name, value in first.facts.items() if name in _REPEATED}
    if late:
        facts[_LATE] = f"{', '.join(dict.fromkeys(late))} in {len(late)} of {len(parts)} runs"
    return Subject(
        title=first.title,
        path=first.path,
        verdict=_joint_word([part.verdict for part in parts]),
        statement=f"{counted(len(parts), 'run')}: {'; '.join(dict.fromkeys(part.statement for part in parts))}",
        facts={**facts, "runs": str(len(parts))},
        shares={
            name: _joint_share({block: part.shares[name] for block, part in runs.items() if name in part.shares})
            for name in dict.fromkeys(name for part in parts for name in part.shares)
        },
        figures=[
            _joint_figure(
                {block: next((one for one in part.figures if one.name == name), None) for block, part in runs.items()}
            )
            for name in dict.fromkeys(figure.name for part in parts for figure in part.figures)
        ],
        blocks=tuple(runs),
    )


def require_different(subjects: Sequence[Subject]) -> None:
    """Raises ConfigError where one run stands twice, or a copy of it: nothing new was measured by it."""
    seen: dict[object, Subject] = {}
    for subject in subjects:
        place = subject.path.resolve()
        # Virtual time repeats itself, too: equal seeds record equal runs, which say nothing of how runs differ.
        recorded = (subject.digest, *(subject.facts.get(name) for name in _REPEATED)) if subject.digest else place
        for mark in dict.fromkeys((place, recorded)):
            if mark in seen:
                same = "stands twice" if seen[mark].path == subject.path else f"is the same run as {seen[mark].path}"
                raise ConfigError(f"{same}: a repeat must be run anew", location=Location(str(subject.path)))
            seen[mark] = subject


_FROM_WORST: Final = ("unsafe", "not_answered", "unsupported", "usable", "conforming")


def _joint_word(verdicts: Sequence[str]) -> str:
    """One verdict for several, of runs or of stores; a store's is the worst, since what was seen once is there."""
    for word in _FROM_WORST:
        if word in verdicts:
            return word
    return joint_verdict(verdicts) if any(verdicts) else ""


def _joint_share(shares: Mapping[int, Share]) -> Share:
    parts = list(shares.values())
    return Share(
        verdict=_joint_word([part.verdict for part in parts]),
        broken=sum(part.broken for part in parts),
        judged=sum(part.judged for part in parts),
        text=parts[0].text,
        is_asked_once=all(part.is_asked_once for part in parts),
        runs={block: part.broken / part.judged if part.judged else None for block, part in shares.items()},
    )


def _joint_figure(figures: Mapping[int, Figure | None]) -> Figure:
    """The median of all runs. Of some of them it would be of a selection, such as of the runs that had a hand-off."""
    runs = {block: None if figure is None else once(figure.drawn, STRETCHES) for block, figure in figures.items()}
    values = [value for value in runs.values() if value is not None]
    parts = [figure for figure in figures.values() if figure is not None]
    return replace(
        parts[0],
        drawn=known(float(np.median(values)) if len(values) == len(runs) else float("nan")),
        has_interval=False,
        has_samples=all(part.has_samples for part in parts),
        runs=runs,
    )


def open_subject(folder: Path) -> Subject:
    """One recorded run of a folder, judged here if nobody has judged it.

    Raises ConfigError where it has no history, HistoryUnreadable where that cannot be read.
    """
    file = folder / "results.json"
    results = load_results(file) if file.exists() else judged_history(folder)
    events, runs, _ = load_history(folder)
    if not len(events):
        raise ConfigError("nothing was recorded, so there is nothing to compare", location=Location(str(folder)))
    worlds = set(runs["world"].to_pylist())
    case = open_case(events, runs) if worlds == {"real"} else None
    return Subject(
        title=results.title or folder.name,
        path=folder,
        verdict=results.worst,
        statement=results.statement,
        facts=_facts(runs, results),
        shares={
            name: Share(verdict=clause.verdict, broken=clause.violated, judged=clause.runs, text=clause.text)
            for name, clause in results.clauses.items()
        }
        | _unserved(results),
        figures=[] if case is None or len(case.runs.number) != 1 else _figures(case),
        digest=str(results.provenance.get("digest") or ""),
    )


def fingerprint_subject(found: Fingerprint, path: Path) -> Subject:
    """A store, by the fingerprint that `lockref probe` wrote of it: its clauses, and the latency of its requests."""
    store = found.store
    facts = {
        "store": f"{store.scheme}://{store.container}",
        "endpoint": store.endpoint or "",
        "servers": ", ".join(store.servers),
        "probe version": str(found.probe_version),
    }
    return Subject(
        title=facts["store"],
        path=path,
        verdict=found.verdict,
        statement="; ".join(f"{one.title}: {one.verdict}" for one in found.designs.values()),
        facts={name: value for name, value in facts.items() if value},
        shares={clause: _asked(answer) for clause, answer in found.clauses.items()},
        figures=[
            Figure(name=f"{kind}, {words}", unit="ns", drawn=known(getattr(latency, quantile)), has_interval=False)
            for kind, latency in found.latency.items()
            for quantile, words, share in (("p50_ns", "median", 0.5), ("p99_ns", "99 %", 0.99))
            if latency.requests >= SAMPLES_MIN[share]
        ],
    )


def _asked(answer: ClauseAnswer) -> Share:
    rate = answer.rate
    if rate is None or not rate.rounds:
        return Share(verdict=answer.verdict, text=answer.asks, is_asked_once=True)
    return Share(verdict=answer.verdict, broken=rate.faulty, judged=rate.rounds, text=answer.asks)


def _facts(runs: pa.Table, results: Results) -> dict[str, str]:
    facts: dict[str, str] = {}
    for name in ("world", "scenario", "provider", "clients", "processes"):
        values = pc.unique(runs[name]).drop_null().to_pylist() if name in runs.column_names else []
        facts[name] = ", ".join(str(value) for value in sorted(values)) if len(values) < 4 else f"{len(values)} of them"
    late_ns = max(pc.max(runs["host_late_ns"]).as_py() or 0, 0) if "host_late_ns" in runs.column_names else 0
    if late_ns >= NOTICED_NS:
        facts[_LATE] = f"{late_ns / 1e9:.1f} s"
    facts |= {
        name: str(results.provenance.get(name, "")) for name in ("backend", "backend_version", "client", "commit")
    }
    return {name: value for name, value in facts.items() if value}


def _unserved(results: Results) -> dict[str, Share]:
    """The number of clients that asked and were never granted the lock. The figures of waits leave them out."""
    if results.speed is None:
        return {}
    asked, served = results.speed.clients_asked, results.speed.clients_served
    return {UNSERVED: Share(verdict="", broken=asked - served, judged=asked)}


def _figures(case: Case) -> list[Figure]:
    """The figures of the one run of a case, each with what it was in every stretch of the run's time."""
    operations = case.operations
    begin_ns, end_ns = case.span_of(0)
    width_ns = max((end_ns - begin_ns) / STRETCHES, 1.0)

    def stretch(at_ns: Ints) -> Ints:
        return np.clip(((at_ns - begin_ns) / width_ns).astype(np.int64), 0, STRETCHES - 1)

    granted = np.flatnonzero((operations.op == Op.ACQUIRE) & operations.is_granted)
    answered_ns = operations.return_at_ns[granted]
    waits = _stretches(answered_ns - operations.call_at_ns[granted], stretch(answered_ns))
    released = handoffs_table(case)
    released = released.filter(pc.equal(released["after"], "release"))
    handoffs = _stretches(released["handoff_ns"].to_numpy(), stretch(released["at_ns"].to_numpy()))
    sent_ns = case.events.integers("at_ns")[case.events.rows(Kind.SENT)]
    grants = np.bincount(stretch(answered_ns), minlength=STRETCHES).astype(np.float64)
    requests = np.bincount(stretch(sent_ns), minlength=STRETCHES).astype(np.float64)
    seconds = _answered_s(case, begin_ns, width_ns)
    return [
        Figure(name="grants per second", unit="1/s", drawn=ratio_of(grants, seconds), is_less_better=False),
        *_quantiles("wait", waits),
        *_quantiles("hand-off after release", handoffs),
        Figure(name="requests per grant", unit="1", drawn=ratio_of(requests, grants)),
    ]


def _answered_s(case: Case, begin_ns: int, width_ns: float) -> npt.NDArray[np.float64]:
    """The seconds of each stretch in which the store was there: rates are per answered time."""
    edges = begin_ns + width_ns * np.arange(STRETCHES + 1)
    answered = np.full(STRETCHES, width_ns)
    for answers in case.store_answers:
        for silence in answers.silences:
            inside = np.clip(edges, silence.begin_ns, silence.end_ns)
            answered -= np.diff(inside)
    assert bool((answered >= -1.0).all()), "silences of one run do not overlap"
    seconds: npt.NDArray[np.float64] = np.maximum(answered, 0.0) / 1e9
    return seconds


def _stretches(values: Ints, stretch: Ints) -> Stretches:
    return Stretches(values.astype(np.float64), stretch, STRETCHES)


def _quantiles(name: str, samples: Stretches) -> list[Figure]:
    return [
        Figure(
            name=f"{name}, {words}",
            unit="ns",
            drawn=quantile_of(samples, share),
            has_interval=len(samples.values) >= SAMPLES_MIN[share],
            has_samples=len(samples.values) >= SAMPLES_MIN[share],
        )
        for share, words in ((0.5, "median"), (0.99, "99 %"))
    ]
