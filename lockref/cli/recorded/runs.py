"""`lockref runs`: the runs that this folder keeps, under `.lockref/runs`."""

from __future__ import annotations

from pathlib import Path

import click

from lockref.cli.options import AS_JSON, NEW_FILE, Group, Number

RUN = click.argument("run", default="latest", metavar="[RUN]")


@click.group(cls=Group, name="runs")
def command() -> None:
    """List, show, open, export and prune the runs that this folder keeps.

    RUN is the name of a run, a folder, or `latest`, which is the default.

    \b
    lockref runs list
    lockref runs show latest
    lockref runs export latest --out for-a-colleague.zip
    """


@command.command(name="list")
@click.option("--last", "count", type=click.IntRange(1), default=20, show_default=True, help="How many, newest first.")
@AS_JSON
@click.pass_context
def list_command(ctx: click.Context, count: int, as_json: bool) -> int:
    """List the newest runs.

    Each has its verdict, its size, its age and its command.
    """
    from lockref.cli.jobs.runs.kept import list_runs
    from lockref.cli.jobs.shown.console import Console

    return list_runs(Console(ctx.obj, as_json=as_json), count=count)


@command.command(name="show")
@RUN
@AS_JSON
@click.pass_context
def show_command(ctx: click.Context, run: str, as_json: bool) -> int:
    """Show what RUN did and found.

    That is its command, its verdict part by part, the failures that it stored, and its files.
    """
    from lockref.cli.jobs.runs.kept import show_run
    from lockref.cli.jobs.shown.console import Console

    return show_run(Console(ctx.obj, as_json=as_json), run)


@command.command(name="events")
@RUN
@click.option("--number", type=click.IntRange(0), help="Which run of a history of many: its seed or number.")
@click.option("--node", "nodes", multiple=True, help="Only events of this node; may be repeated.")
@click.pass_context
def events_command(ctx: click.Context, run: str, number: int | None, nodes: tuple[str, ...]) -> int:
    """Print the recorded events of RUN as text.

    Each event has a line: when, who, what, and what was answered.
    """
    from lockref.cli.jobs.runs.kept import print_events
    from lockref.cli.jobs.shown.console import Console

    return print_events(Console(ctx.obj), run, number=number, nodes=nodes)


@command.command(name="open")
@RUN
@click.pass_context
def open_command(ctx: click.Context, run: str) -> int:
    """Open the page of RUN in a browser.

    Where there is no page yet, it is made first.
    """
    from lockref.cli.jobs.runs.kept import open_page
    from lockref.cli.jobs.shown.console import Console

    return open_page(Console(ctx.obj), run)


@command.command(name="export")
@RUN
@click.option("--out", type=NEW_FILE, help="The file; default RUN.zip in this folder.")
@click.pass_context
def export_command(ctx: click.Context, run: str, out: Path | None) -> int:
    """Pack RUN into one ZIP file for a colleague.

    The file has the page, the history, the results and the stored failures of the run.
    """
    from lockref.cli.jobs.runs.kept import export_run
    from lockref.cli.jobs.shown.console import Console

    return export_run(Console(ctx.obj), run, out=out)


@command.command(name="prune")
@click.option("--days", type=click.IntRange(0), default=30, show_default=True, help="Keep runs no older than that.")
@click.option("--keep", type=click.IntRange(1), default=100, show_default=True, help="Keep so many, the newest.")
@click.option(
    "--gigabytes",
    type=Number(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Keep within that size.",
)
@click.option("--failures", "with_failures", is_flag=True, help="Also stored failures that no kept run names.")
@click.option("--dry-run", "is_dry", is_flag=True, help="List what would go, and remove nothing.")
@AS_JSON
@click.pass_context
def prune_command(
    ctx: click.Context, days: int, keep: int, gigabytes: float, with_failures: bool, is_dry: bool, as_json: bool
) -> int:
    """Remove runs that are beyond the limits.

    The latest run and a run that is not over are never removed. After a Ctrl-C each run is there whole, or gone.
    """
    from lockref.cli.jobs.runs.pruning import prune_runs
    from lockref.cli.jobs.runs.surplus import DAY_S, Limits
    from lockref.cli.jobs.shown.console import Console

    limits = Limits(age_s=days * DAY_S, runs_max=keep, bytes_max=round(gigabytes * 1e9))
    return prune_runs(Console(ctx.obj, as_json=as_json), limits, with_failures=with_failures, is_dry=is_dry)
