"""From run folders to a page: one pass of the Spark pipeline over their histories, one section each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.console import Console
from lockref.cli.run_folder import RunFolder
from lockref.errors import CapabilityMissing
from reports.formats.results import Results, load_results
from reports.html import render
from reports.pipeline import analyse_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One section of a page: a run folder and its title."""

    folder: Path
    title: str


def parts_of(folder: RunFolder) -> list[Part]:
    """The histories in a run folder: its own, or those of its parts."""
    own = [folder.path] if (folder.path / "events.parquet").exists() else []
    inner = sorted(path.parent for path in folder.path.glob("*/events.parquet"))
    return [Part(folder=path, title=_title(path)) for path in own + inner]


def _title(folder: Path) -> str:
    results = folder / "results.json"
    return load_results(results).title if results.exists() else folder.name


def write_report(parts: Sequence[Part], out: Path, *, title: str, spark: SparkSession | None, console: Console) -> Path:
    """Analyse every part on Spark, join what only the run itself knows, and render the page.

    Without Java the page is made from what the run judged in-process: the
    verdicts are the same, latencies and fairness are missing, and it says so.
    Returns the path of `report.html`.
    """
    console.progress(f"report: {', '.join(part.title for part in parts)}", force=True)
    return render(_sections(parts, out / "analysis", spark), out, title=title)


def _sections(parts: Sequence[Part], out: Path, spark: SparkSession | None) -> list[Results]:
    files = [part.folder / "results.json" for part in parts]
    judged = [load_results(file) if file.exists() else None for file in files]
    try:
        analysed = analyse_each(
            [part.folder for part in parts],
            out,
            spark,
            titles=[part.title for part in parts],
            provenance=[one.provenance if one else {} for one in judged],
        )
    except CapabilityMissing as error:
        if not all(judged):
            raise
        known = [one for one in judged if one]
        for one in known:
            one.notices.append(f"without Spark: no latencies, no fairness, no timeline ({error})")
        return known
    models = [Results.model_validate(one) for one in analysed]
    return [_joined(one, known) if known else one for one, known in zip(models, judged, strict=True)]


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
    for name in ("verdict", "liveness", "statement", "reasons", "runs", "events", "clauses", "classes", "reach"):
        setattr(analysed, name, getattr(judged, name))
    analysed.failures = judged.failures
    analysed.notices = [*judged.notices, *analysed.notices]
    return analysed
