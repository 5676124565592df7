"""`lockref cluster`: run the locks of a cluster file on a real ZooKeeper, as Helix' recipe does."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from lockref.cli.console import Console

CHANGES = click.Choice(["leave", "return", "none", "fourth"])


@click.group(name="cluster")
def command() -> None:
    """Locks that a controller assigns, as in Apache Helix, on ZooKeeper."""


@command.command(name="run")
@click.argument("file", type=click.Path())
@click.option("--zookeeper", metavar="HOST:PORT,…", help="A ZooKeeper that runs; default: one is started here.")
@click.option("--rebalancer", metavar="NAME", default="", help="In the place of the file's: mod, sticky, hrw, ring, …")
@click.option("--live-order", type=click.Choice(["ascending", "descending"]), default="ascending", show_default=True)
@click.option(
    "--semantics",
    type=click.Choice(["ours", "first", "0.7.1", "current"]),
    default="ours",
    show_default=True,
    help="Whose controller decides: Helix' first version printed the README.",
)
@click.option("--then", "changes", type=CHANGES, multiple=True, help="What happens; default: leave, then return.")
@click.option("--session-timeout", default="4s", show_default=True, metavar="DURATION")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def run_command(
    ctx: click.Context,
    file: str,
    zookeeper: str | None,
    rebalancer: str,
    live_order: str,
    semantics: str,
    changes: tuple[str, ...],
    session_timeout: str,
    as_json: bool,
) -> int:
    """Start the instances and a controller, print who holds what, stop the first instance, print again.

    \b
    lockref cluster run lock-manager.yaml
    lockref cluster run lock-manager.yaml --rebalancer sticky --then leave --then return
    lockref cluster run lock-manager.yaml --live-order descending --semantics first   # what the README printed
    """
    from lockref.cli.options import duration_ns
    from lockref.coordination.place import credentials
    from lockref.helix import rebalancers
    from lockref.helix.cluster_file import load_cluster
    from lockref.helix.controller import ControllerSettings
    from lockref.helix.pipeline import Semantics
    from scenarios.backends.zookeeper import started_zookeeper
    from scenarios.helix.program import Change, ClusterProgram, table
    from scenarios.helix.shown import finding, shown

    cluster = load_cluster(file)
    if rebalancer:
        rebalancers.load(rebalancer)
    console = Console(ctx.obj, as_json=as_json)
    settings = ControllerSettings(
        semantics=Semantics(semantics), rebalancer=rebalancer, is_descending=live_order == "descending"
    )
    phases = []
    with contextlib.ExitStack() as stack:
        hosts = zookeeper or stack.enter_context(started_zookeeper()).hosts
        told = stack.enter_context(shown(console.say, is_live=console.is_live))
        program = ClusterProgram(
            hosts.removeprefix("zookeeper://"),
            cluster,
            told=told,
            controller=settings,
            session_timeout_ns=duration_ns(session_timeout, option="--session-timeout"),
            auth=credentials(os.environ),
        )
        stack.callback(program.close)
        program.configure()
        for change in (Change.START, *map(Change, changes or ("leave", "return"))):
            phase = program.phase(change)
            phases.append(phase)
            told.say(table(phase))
            told.say(finding(phase))
    if as_json:
        console.document({"cluster": cluster.name, "phases": [phase.document() for phase in phases]})
    return 0 if all(phase.is_decided for phase in phases) else 2


@command.command(name="figures")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path(".lockref/figures"))
@click.pass_context
def figures_command(ctx: click.Context, out: Path) -> int:
    """Count and draw what each rebalancer costs when an instance leaves: a page, `helix.html`, and each as PNG."""
    from markupsafe import Markup

    from reports.figures.helix import dot_rows
    from reports.html.pictures import DrawnPicture, write_page
    from scenarios.helix.pictures import pictures
    from scenarios.helix.rebalancing import rows

    drawn = []
    for picture in pictures(rows()):
        svg, png = dot_rows(picture.rows, marks=picture.marks, across=picture.across)
        drawn.append(DrawnPicture(picture.name, picture.title, picture.caption, svg, png, picture.head, picture.table))
    title = "What a change of instances costs under each rebalancer"
    origin = Markup("Counted on the controller's pipeline, without a server, by <code>lockref cluster figures</code>.")
    Console(ctx.obj).say(f"page  {write_page(drawn, out, name='helix', title=title, origin=origin)}")
    return 0
