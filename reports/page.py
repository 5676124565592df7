"""From run folders to a page: one pass over their histories, one section each.

What fits in memory is measured in this process, the rest on Spark; the figures are the same
(`reports.pipeline.local_analysis`). The cost follows what broke: on a page of many parts a simulated part in which
nothing broke is told from its own results, and its history is only looked at for damage.
Only the runner knows how the run of a folder ended. It says so in `Part`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from lockref.errors import CapabilityMissing
from lockref.temporary_folders import owned_folder
from lockref.words import counted
from reports.account import judged_history
from reports.checks.verdicts import THRESHOLD
from reports.formats.results import Results, load_results, troubles
from reports.history_files import find_history, is_unfinished, load_history, read_runs, write_history
from reports.html import render
from reports.html.sections import FULL_PARTS_MAX
from reports.pipeline.analysis import analyse_each
from reports.pipeline.local_analysis import LOCAL_EVENTS_MAX, analyse_locally, event_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ANALYSIS = "analysis"
"""The folder, beside the page, of what Spark finds and of its own folder while it works."""


OnStep: TypeAlias = Callable[[str, int], None]
DRAWING_NS: Final = 1_000_000_000
"""About what the figures of one part take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """About how long measuring takes; only for telling what is left."""

    begin_ns: int
    per_event_ns: int


LOCAL_COST: Final = Cost(begin_ns=500_000_000, per_event_ns=6_000)
SPARK_COST: Final = Cost(begin_ns=20_000_000_000, per_event_ns=15_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One section of a page: a run folder and its title.

    ended: how the run ended, if it did not finish by itself. finished_seeds: how many seeds an unfinished
        campaign has finished.
    """

    folder: Path
    title: str
    ended: str = ""
    finished_seeds: int = 0


def title_of(folder: Path) -> str:
    """The title of the results in a folder; its name where none have been written."""
    results = folder / "results.json"
    return load_results(results).title if results.exists() else folder.name


def write_report(
    parts: Sequence[Part],
    out: Path,
    *,
    title: str,
    spark: SparkSession | None = None,
    is_on_spark: bool = False,
    provenance: Mapping[str, object] = MappingProxyType({}),
    damaged: Mapping[Path, Results] = MappingProxyType({}),
    on_step: OnStep = lambda _text, _lasting_ns: None,
) -> Path:
    """Measure the parts, join what only the run itself knows, and render the page.

    Spark measures what is larger than `LOCAL_EVENTS_MAX`. Without Java the page of such a run is made from what the
    run judged: the verdicts are the same, latencies and fairness are missing, and the page says so.
    A run that was killed before it judged anything is judged here, as far as it recorded.

    spark: a session to use. is_on_spark: use Spark also for what is small, in a session of its own.
    provenance: where results come from that are judged here.
    damaged: what the judge says now of each folder whose record is not what was recorded (`account.judged_if_damaged`).
        It stands there in the place of what the run said, and nothing is measured in it.
    on_step: is told which step begins, and about how many nanoseconds it will take.
    Returns the path of `report.html`.
    """
    files = {part.folder: part.folder / "results.json" for part in parts}
    judged = {folder: load_results(file) if file.exists() else None for folder, file in files.items()}
    whole = [part for part in parts if part.folder not in damaged]
    chosen = whole if len(parts) <= FULL_PARTS_MAX else [part for part in whole if _is_measured(part, judged)]
    known = [judged[part.folder] for part in chosen]
    sections: dict[Path, Results] = {}
    events = sum(event_count(part.folder) for part in chosen)
    on_spark = is_on_spark or spark is not None or events > LOCAL_EVENTS_MAX
    cost = SPARK_COST if on_spark else LOCAL_COST
    on_step(f"measuring {counted(events, 'event')}", cost.begin_ns + events * cost.per_event_ns)
    try:
        if on_spark:
            measured = _on_spark(chosen, known, out / ANALYSIS, spark)
        else:
            measured = _in_process(chosen, known, out / ANALYSIS)
        sections = {part.folder: section for part, section in zip(chosen, measured, strict=True)}
    except CapabilityMissing as error:
        for part in chosen:
            section = sections[part.folder] = judged[part.folder] or _judged_here(part, provenance)
            section.notices.append(f"without Spark: no latencies, no fairness, no timeline ({error})")
    for part in parts:
        own = judged[part.folder]
        if part.folder in damaged:
            sections[part.folder] = _damaged(damaged[part.folder], part, own)
        elif part.folder not in sections:
            assert own is not None, "a part that nobody has judged is measured"
            sections[part.folder] = own
    pictures = min(len(chosen), FULL_PARTS_MAX)
    on_step(f"drawing {counted(pictures, 'part')}", pictures * DRAWING_NS)
    return render([sections[part.folder] for part in parts], out, title=title)


def _is_measured(part: Part, judged: Mapping[Path, Results | None]) -> bool:
    """Is this part measured on a page of many parts? In virtual time latencies are the scenario's, not the lock's."""
    if judged[part.folder] is None:
        return True
    runs = find_history(part.folder).runs
    return runs is None or "simulated" not in read_runs(runs)["world"].to_pylist()


def _damaged(again: Results, part: Part, judged: Results | None) -> Results:
    """The section of a part whose record is not what was recorded: what `lockref check` says of it, and why."""
    notices = [*again.notices, "no latencies, no fairness, no timeline: they would be those of a damaged record"]
    if judged is not None:
        notices.append(
            f"before its record was damaged, the run said {judged.worst.replace('_', ' ')}: {judged.statement}"
        )
    return again.model_copy(update={"title": part.title, "notices": notices})


def _judged_here(part: Part, provenance: Mapping[str, object]) -> Results:
    results = judged_history(part.folder, provenance=provenance, ended=part.ended, finished_seeds=part.finished_seeds)
    return results.model_copy(update={"title": part.title})


def _in_process(parts: Sequence[Part], judged: Sequence[Results | None], out: Path) -> list[Results]:
    found = analyse_locally(
        [part.folder for part in parts], out, titles=[part.title for part in parts], provenance=_origins(judged)
    )
    return _with_own(parts, judged, found)


def _on_spark(
    parts: Sequence[Part], judged: Sequence[Results | None], out: Path, spark: SparkSession | None
) -> list[Results]:
    if not parts:
        return []
    # Imported here, as reports that use no Spark need none of it.
    from reports.spark.session import ended_by_signals

    with _histories(parts) as folders, ended_by_signals():
        found = analyse_each(folders, out, spark, titles=[part.title for part in parts], provenance=_origins(judged))
    return _with_own(parts, judged, [Results.model_validate(one) for one in found])


def _origins(judged: Sequence[Results | None]) -> list[Mapping[str, object]]:
    return [known.provenance if known else {} for known in judged]


def _with_own(parts: Sequence[Part], judged: Sequence[Results | None], measured: Sequence[Results]) -> list[Results]:
    """The measured parts, each with how its run ended and what the run itself knows."""
    for part, model in zip(parts, measured, strict=True):
        if part.ended:
            model.notices.insert(0, f"{part.ended}; what it recorded is judged")
    return [
        _joined(_with_store_name(one, part, known), known) if known else one
        for part, one, known in zip(parts, measured, judged, strict=True)
    ]


def _with_store_name(measured: Results, part: Part, known: Results) -> Results:
    """The figures under the name of the store: a history knows its address alone, often a port of this machine."""
    runs = find_history(part.folder).runs
    name = str(known.provenance.get("backend") or "")
    addresses = [address for address in read_runs(runs)["backend"].unique().to_pylist() if address] if runs else []
    for address in addresses if name else ():
        for rows in (measured.latency, measured.outcomes, measured.fairness, measured.clients, measured.scatters):
            for row in rows:
                row.cell = row.cell.replace(f" · {address}", f" · {name}")
    return measured


@contextmanager
def _histories(parts: Sequence[Part]) -> Iterator[list[Path]]:
    """The folders to read; of an unfinished run a copy of what it recorded, so that its own folder stays as it is."""
    with owned_folder("report") as copies:
        folders = []
        for number, part in enumerate(parts):
            folder = part.folder
            if is_unfinished(folder):
                folder = copies / str(number)
                events, runs, _ = load_history(part.folder)
                write_history(folder, events, runs)
            folders.append(folder)
        yield folders


def _joined(analysed: Results, judged: Results) -> Results:
    """The results of the run, with the figures, timelines and notices that the analysis adds."""
    seen = {(failure.clause, failure.run): failure for failure in analysed.failures}
    for failure in judged.failures:
        # A simulated failure has its own timeline. It may be that of a shrunk run, whose history is not kept.
        drawn = seen.get((failure.clause, failure.run)) if failure.timeline is None else None
        if drawn is not None:
            failure.timeline, failure.begin_ns = drawn.timeline, drawn.begin_ns
    joined = judged.judged_again(analysed)
    # The run has counted its lost tenures and its errors in all runs, the analysis in those that were kept.
    counted_again = set(troubles({row.situation: (row.runs, row.count) for row in analysed.reach}))
    # So, too, its thresholds.
    is_limited = any(notice.startswith(THRESHOLD) for notice in judged.notices)
    added = [
        notice
        for notice in analysed.notices
        if notice not in counted_again and not (is_limited and notice.startswith(THRESHOLD))
    ]
    notices = list(dict.fromkeys([*judged.notices, *added, *_differences(analysed, judged, joined)]))
    return joined.model_copy(update={"notices": notices})


def _differences(analysed: Results, judged: Results, joined: Results) -> list[str]:
    """Notices where the kept histories are not all that the run judged, or say something else."""
    found = []
    if judged.runs > analysed.runs:
        found.append(
            f"verdicts over {judged.runs:,} runs; latencies, fairness and figures over the {analysed.runs:,} kept ones"
        )
    if analysed.damaged > judged.damaged:
        found.append(
            f"the kept record of {counted(analysed.damaged, 'run')} was damaged since it was judged: "
            "latencies, fairness and figures are without them"
        )
    if joined.verdict != judged.verdict:
        found.append(
            f"the kept history, judged again, is violated ({analysed.statement}); the run said {judged.verdict}"
        )
    return found
