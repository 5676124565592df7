"""`lockref report`: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from lockref.cli.options import NEW_FOLDER


@click.command(name="report")
@click.argument("run", default="latest")
@click.option("--out", type=NEW_FOLDER, help="Folder; default the run's own.")
@click.option("--title", default="", help="Headline of the page.")
@click.option("--spark", "is_on_spark", is_flag=True, help="Measure on Spark also what fits in this process.")
@click.pass_context
def command(ctx: click.Context, run: str, out: Path | None, title: str, is_on_spark: bool) -> int:
    """Write report.html, report.md and figures for RUN: a folder with a history, the name of a run, or `latest`.

    A history of up to 2,000,000 events is measured in this process, a larger one on Spark, with the same figures.
    """
    from lockref.cli.jobs.reporting import report
    from lockref.cli.jobs.shown.console import Console

    return report(Console(ctx.obj), run, out=out, title=title, is_on_spark=is_on_spark)
