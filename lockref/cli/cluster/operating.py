"""`lockref cluster controller` and `status`: a controller that stays, and what an operator sees."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.cluster.places import place_options
from lockref.cli.options import AS_JSON, AS_JSON_LINES, duration_option

ZOMBIE_AFTER = duration_option(
    "--zombie-after", "zombie_after_ns", default="60s",
    about="Name an instance that lives and answers no message for so long.",
)  # fmt: skip


@click.command(name="controller")
@place_options
@click.option("--name", default="", help="Name in LEADER and HISTORY; default: host and process.")
@click.option("--rebalancer", metavar="NAME", default="", help="For all resources: mod, sticky, hrw, ring, file.py:f")
@duration_option("--session-timeout", "session_timeout_ns", default="30s", about="Timeout of the controller's session.")
@ZOMBIE_AFTER
@AS_JSON_LINES
@click.pass_context
def controller_command(ctx: click.Context, /, as_json: bool, place: str, **asked: Any) -> int:
    """Control a cluster until Ctrl-C or SIGTERM, and log what happens. A second one stands by.

    A cluster file is applied first; without --zookeeper a server is started here.

    \b
    lockref cluster controller lock-manager.yaml
    lockref cluster controller zookeeper://127.0.0.1:2181 --cluster my-locks
    """
    from lockref.cli.jobs.cluster.controlling import control
    from lockref.cli.jobs.shown.console import Console

    return control(Console(ctx.obj, as_json=as_json), place, **asked)


@click.command(name="status")
@place_options
@ZOMBIE_AFTER
@AS_JSON
@click.pass_context
def status_command(ctx: click.Context, /, as_json: bool, place: str, **asked: Any) -> int:
    """Show who leads, which instances live, who owns each lock, what waits, and what this controller cannot drive."""
    from lockref.cli.jobs.cluster.operating import show_status
    from lockref.cli.jobs.shown.console import Console

    return show_status(Console(ctx.obj, as_json=as_json), place, **asked)
