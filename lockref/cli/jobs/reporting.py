"""The page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.gate.report import report_gate
from lockref.cli.jobs.shown.progress import Progress
from lockref.cli.jobs.shown.results import say_results
from lockref.errors import ConfigError
from lockref.temporary_folders import sweep
from lockref.words import counted
from reports.account import judged_if_damaged
from reports.formats.exit_codes import code_of
from reports.formats.gate_result import load_gate
from reports.history_files import history_folders
from reports.page import ANALYSIS, Part, title_of, write_report
from reports.pipeline.analysis import SPARK
from scenarios.campaigns.run_folders import seeds_in
from scenarios.runs import end_of, open_run, provenance, require_recorded

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

GATE: Final = "gate.json"
"""The file of a run folder in which a gate tells what it found."""


def report(console: Console, run: str, *, out: Path | None, title: str, is_on_spark: bool = False) -> int:
    """Write the page, its Markdown and its figures. out: folder; None for the run's own. title: headline, "" for ours.
    is_on_spark: measure on Spark also what fits in this process.

    Returns 0 whatever verdict a page shows, since the run's command has told it. Where a record is not what was
    recorded, the page shows what `lockref check` says of it, and so does the exit code.
    Errors: ConfigError for a run that is none, or recorded nothing; KeyboardInterrupt after Ctrl-C.
    """
    try:
        return _reported(console, run, out=out, title=title, is_on_spark=is_on_spark)
    except KeyboardInterrupt:
        console.say("interrupted: the page was not written anew; run it again", style="bad")
        raise


def _reported(console: Console, run: str, *, out: Path | None, title: str, is_on_spark: bool) -> int:
    folder = open_run(run)
    require_recorded(folder.path)
    about = provenance({"run": run})
    gate = folder.path / GATE
    if gate.is_file() and not is_on_spark:
        return report_gate(console, load_gate(gate), folder.path, out=out, title=title, about=about)
    parts = parts_of(folder.path)
    if not parts:
        raise ConfigError(f"{folder.path} holds no history (events.parquet or events.jsonl): nothing to report on")
    target = out or folder.path
    for line in sweep(target / ANALYSIS / SPARK).lines():
        console.say(line, style="dim")
    what = f"report: {parts[0].title if len(parts) == 1 else counted(len(parts), 'part')}"
    console.step(what)
    progress = Progress(console, f"{what}: reading", steps=len(parts))
    damaged = {}
    for part in parts:
        again = judged_if_damaged(part.folder, provenance=about, ended=part.ended, finished_seeds=part.finished_seeds)
        if again is not None:
            damaged[part.folder] = again
            say_results(console, again)
        progress.done()
    page = write_report(
        parts,
        target,
        title=title or "lockref report",
        is_on_spark=is_on_spark,
        provenance=about,
        damaged=damaged,
        on_step=lambda text, lasting_ns: console.step(f"{what}: {text}", lasting_ns=lasting_ns),
    )
    console.say(f"report   {page}")
    console.say(f"figures  {target / 'figures'}")
    return code_of([*damaged.values()])


def parts_of(folder: Path) -> list[Part]:
    """The sections of a run folder's page: its own history, or those of its parts, and how the run of each ended."""
    return [
        Part(folder=path, title=title_of(path), ended=end_of(path), finished_seeds=seeds_in(path))
        for path in history_folders(folder)
    ]
