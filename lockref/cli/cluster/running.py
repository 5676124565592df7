"""`lockref cluster run` and `figures`: the recipe's program, and what each rebalancer costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lockref.cli.options import AS_JSON, NEW_FOLDER, Word, duration_option

PHASES = Word(["leave", "return", "none", "fourth"])


@click.command(name="run")
@click.argument("file", type=click.Path())
@click.option("--zookeeper", metavar="HOST:PORT,…", help="A running ZooKeeper; default: start one here.")
@click.option("--rebalancer", metavar="NAME", default="", help="Instead of the file's: mod, sticky, hrw, ring, …")
@click.option(
    "--live-order",
    type=Word(["ascending", "descending"]),
    default="ascending",
    show_default=True,
    help="Order in which the rebalancer is given the live instances.",
)
@click.option(
    "--semantics",
    type=Word(["ours", "first", "0.7.1", "current"]),
    default="ours",
    show_default=True,
    help="Which version's controller decides. The recipe's README shows `first`.",
)
@click.option(
    "--then",
    "changes",
    type=PHASES,
    multiple=True,
    help="Next change; repeatable. leave: the first instance stops; return: it comes back; none: all stop; fourth: one "
    "joins that the file does not list. Default: leave, return.",
)
@duration_option("--session-timeout", "session_timeout_ns", default="4s", about="Timeout of the instances' sessions.")
@AS_JSON
@click.pass_context
def run_command(ctx: click.Context, /, as_json: bool, file: str, **asked: Any) -> int:
    """Start the instances and a controller, print who holds what, stop the first instance, print again.

    \b
    lockref cluster run lock-manager.yaml
    lockref cluster run lock-manager.yaml --rebalancer sticky --then leave --then return
    lockref cluster run lock-manager.yaml --live-order descending --semantics first   # what the README printed
    """
    from lockref.cli.jobs.cluster.running import run_cluster
    from lockref.cli.jobs.shown.console import Console

    return run_cluster(Console(ctx.obj, as_json=as_json), file, **asked)


@click.command(name="figures")
@click.option("--out", type=NEW_FOLDER, default=Path(".lockref/figures"), show_default=True, help="Folder.")
@click.pass_context
def figures_command(ctx: click.Context, out: Path) -> int:
    """Count and draw what each rebalancer costs when an instance leaves: a page, `helix.html`, and each as PNG."""
    from lockref.cli.jobs.drawing import draw_helix
    from lockref.cli.jobs.shown.console import Console

    return draw_helix(Console(ctx.obj), out)
