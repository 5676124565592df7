"""`lockref report`: the page of a run, through Spark."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="report")
@click.argument("run", default="latest")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder; default the run's own.")
@click.option("--title", default="", help="Headline of the page.")
@click.pass_context
def command(ctx: click.Context, run: str, out: Path | None, title: str) -> int:
    """Write report.html, report.md and figures for RUN: a folder with a history, the name of a run, or `latest`."""
    from lockref.cli.console import Console
    from lockref.cli.reporting import parts_of, write_report
    from lockref.cli.run_folder import open_run, require_recorded
    from lockref.errors import ConfigError

    console = Console(ctx.obj)
    folder = open_run(run)
    require_recorded(folder.path)
    parts = parts_of(folder.path)
    if not parts:
        raise ConfigError(f"{folder.path} holds no history (events.parquet or events.jsonl): nothing to report on")
    target = out or folder.path
    page = write_report(parts, target, title=title or "lockref report", spark=None, console=console)
    console.say(f"report   {page}")
    console.say(f"figures  {target / 'figures'}")
    return 0
