"""From run folders to a page: one pass of the Spark pipeline over their histories, one section each.

Only the runner knows how the run of a folder ended. It says so in `Part`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lockref.errors import CapabilityMissing
from lockref.temporary_folders import owned_folder
from lockref.words import counted
from reports.account import judged_history
from reports.checks.verdicts import THRESHOLD
from reports.formats.results import Results, load_results, troubles
from reports.history_files import is_unfinished, load_history, write_history
from reports.html import render
from reports.pipeline.analysis import analyse_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ANALYSIS = "analysis"
"""The folder, beside the page, of what Spark finds and of its own folder while it works."""


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
    provenance: Mapping[str, object] = MappingProxyType({}),
    without_spark: str = "",
    damaged: Mapping[Path, Results] = MappingProxyType({}),
) -> Path:
    """Analyse every part on Spark, join what only the run itself knows, and render the page.

    Without Java the page is made from what the run judged in-process: the
    verdicts are the same, latencies and fairness are missing, and the page says so.
    A run that was killed before it judged anything is judged here, as far as
    it recorded.

    spark: a session to use; by default the page starts its own.
    provenance: where results come from that are judged here.
    without_spark: the reason for not using Spark; empty to use it.
    damaged: what the judge says now of each folder whose record is not what was recorded (`account.judged_if_damaged`).
        It stands there in the place of what the run said, and nothing is measured in it.
    Returns the path of `report.html`.
    """
    files = [part.folder / "results.json" for part in parts]
    judged = [load_results(file) if file.exists() else None for file in files]
    try:
        if without_spark:
            raise CapabilityMissing(without_spark)
        whole = [pair for pair in zip(parts, judged, strict=True) if pair[0].folder not in damaged]
        analysed = _analysed([part for part, _ in whole], [known for _, known in whole], out / ANALYSIS, spark)
        sections = {part.folder: section for (part, _), section in zip(whole, analysed, strict=True)}
    except CapabilityMissing as error:
        sections = {}
        for part, known in zip(parts, judged, strict=True):
            if part.folder not in damaged:
                section = sections[part.folder] = known or _judged_here(part, provenance)
                section.notices.append(f"without Spark: no latencies, no fairness, no timeline ({error})")
    for part, known in zip(parts, judged, strict=True):
        if part.folder in damaged:
            sections[part.folder] = _damaged(damaged[part.folder], part, known)
    return render([sections[part.folder] for part in parts], out, title=title)


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


def _analysed(
    parts: Sequence[Part], judged: Sequence[Results | None], out: Path, spark: SparkSession | None
) -> list[Results]:
    if not parts:
        return []
    # Imported here, as reports that use no Spark need none of it.
    from reports.spark.session import ended_by_signals

    with _histories(parts) as folders, ended_by_signals():
        analysed = analyse_each(
            folders,
            out,
            spark,
            titles=[part.title for part in parts],
            provenance=[known.provenance if known else {} for known in judged],
        )
    models = [Results.model_validate(one) for one in analysed]
    for part, model in zip(parts, models, strict=True):
        if part.ended:
            model.notices.insert(0, f"{part.ended}; what it recorded is judged")
    return [_joined(one, known) if known else one for one, known in zip(models, judged, strict=True)]


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
