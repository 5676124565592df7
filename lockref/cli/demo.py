"""`lockref demo`: the whole laboratory in under a minute."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import duration_option


@click.command(name="demo")
@click.option("--seeds", type=click.IntRange(1), default=2_000, show_default=True, help="Seeds for the hardened lock.")
@click.option("--contenders", type=click.IntRange(1, 1024), default=200, show_default=True, help="Contending threads.")
@duration_option("--for", "for_ns", default="10s", about="Duration of the contention run.")
@click.option("--no-spark", is_flag=True, help="Make the page without Spark: no latencies, no fairness.")
@click.option("--no-server", is_flag=True, help="No contention run.")
@click.pass_context
def command(ctx: click.Context, /, **asked: Any) -> int:
    """Break Hudi's lock, hold the hardened one, contend on a real S3 server, write a report."""
    from lockref.cli.jobs.demonstration import demonstrate
    from lockref.cli.jobs.shown.console import Console

    return demonstrate(Console(ctx.obj), **asked)
