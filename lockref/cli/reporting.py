"""From run folders to a page: one pass of the Spark pipeline over their histories, one section each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.console import Console
from lockref.cli.run_folder import HISTORIES, RunFolder
from lockref.errors import CapabilityMissing
from reports.formats.results import Results, load_results
from reports.html import render
from reports.pipeline import analyse_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JUDGED = (
    "verdict", "liveness", "statement", "reasons", "runs", "events", "clauses", "classes", "reach", "capabilities",
)  # fmt: skip
"""What the run itself knows better than an analysis of the histories that it kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One section of a page: a run folder and its title."""

    folder: Path
    title: str


def parts_of(folder: RunFolder) -> list[Part]:
    """The histories in a run folder: its own, or those of its parts."""
    own = [folder.path] if any((folder.path / name).exists() for name in HISTORIES) else []
    inner = sorted({path.parent for name in HISTORIES for path in folder.path.glob(f"*/{name}")})
    return [Part(folder=path, title=_title(path)) for path in own + inner]


def _title(folder: Path) -> str:
    results = folder / "results.json"
    return load_results(results).title if results.exists() else folder.name


def write_report(
    parts: Sequence[Part],
    out: Path,
    *,
    title: str,
    spark: SparkSession | None,
    console: Console,
    without_spark: str = "",
) -> Path:
    """Analyse every part on Spark, join what only the run itself knows, and render the page.

    Without Java the page is made from what the run judged in-process: the
    verdicts are the same, latencies and fairness are missing, and it says so.

    spark: a session to use; default one of its own.
    without_spark: why the page is to be made without it, if it is.
    Returns the path of `report.html`.
    """
    console.progress(f"report: {', '.join(part.title for part in parts)}", force=True)
    files = [part.folder / "results.json" for part in parts]
    judged = [load_results(file) if file.exists() else None for file in files]
    try:
        if without_spark:
            raise CapabilityMissing(without_spark)
        sections = _analysed(parts, judged, out / "analysis", spark)
    except CapabilityMissing as error:
        sections = [one for one in judged if one is not None]
        if len(sections) < len(parts):
            raise
        for section in sections:
            section.notices.append(f"without Spark: no latencies, no fairness, no timeline ({error})")
    return render(sections, out, title=title)


def _analysed(
    parts: Sequence[Part], judged: Sequence[Results | None], out: Path, spark: SparkSession | None
) -> list[Results]:
    analysed = analyse_each(
        [part.folder for part in parts],
        out,
        spark,
        titles=[part.title for part in parts],
        provenance=[known.provenance if known else {} for known in judged],
    )
    models = [Results.model_validate(one) for one in analysed]
    return [_joined(one, known) if known else one for one, known in zip(models, judged, strict=True)]


_JUDGED = ("verdict", "liveness", "statement", "speed", "reasons", "runs", "events", "clauses", "classes", "reach")


def _joined(analysed: Results, judged: Results) -> Results:
    """The pipeline sees the kept histories; the run itself judged all of its seeds and named its failures."""
    if judged.runs > analysed.runs:
        analysed.notices.append(
            f"verdicts over {judged.runs:,} runs; latencies, fairness and figures over the {analysed.runs:,} kept ones"
        )
    seen = {(failure.clause, failure.run): failure for failure in analysed.failures}
    for failure in judged.failures:
        if (drawn := seen.get((failure.clause, failure.run))) is not None:
            failure.timeline, failure.begin_ns = drawn.timeline, drawn.begin_ns
    for name in _JUDGED:
        setattr(analysed, name, getattr(judged, name))
    analysed.failures = judged.failures
    analysed.notices = [*judged.notices, *analysed.notices]
    return analysed
