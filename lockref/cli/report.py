"""`lockref report`: the page of a run, through Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reports.page import Part


@click.command(name="report")
@click.argument("run", default="latest")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder; default the run's own.")
@click.option("--title", default="", help="Headline of the page.")
@click.pass_context
def command(ctx: click.Context, run: str, out: Path | None, title: str) -> int:
    """Write report.html, report.md and figures for RUN: a folder with a history, the name of a run, or `latest`."""
    from lockref.cli.console import Console
    from lockref.errors import ConfigError
    from reports.page import write_report
    from scenarios.runs import open_run, provenance, require_recorded

    console = Console(ctx.obj)
    folder = open_run(run)
    require_recorded(folder.path)
    parts = parts_of(folder.path)
    if not parts:
        raise ConfigError(f"{folder.path} holds no history (events.parquet or events.jsonl): nothing to report on")
    target = out or folder.path
    console.step(f"report: {', '.join(part.title for part in parts)}")
    page = write_report(parts, target, title=title or "lockref report", provenance=provenance({"run": run}))
    console.say(f"report   {page}")
    console.say(f"figures  {target / 'figures'}")
    return 0


def parts_of(folder: Path) -> list[Part]:
    """The sections of a run folder's page: its own history, or those of its parts, and how the run of each ended."""
    from reports.page import Part, history_folders, title_of
    from scenarios.checkpoint import seeds_in
    from scenarios.runs import end_of

    return [
        Part(folder=path, title=title_of(path), ended=end_of(path), finished_seeds=seeds_in(path))
        for path in history_folders(folder)
    ]
