"""`lockref gate`: the command of a CI job."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import ALLOWED, AS_JSON, PROVIDER, SEED_RANGE, Declaration, Processes


@click.command(name="gate")
@PROVIDER
@click.option(
    "--declare", "declared", type=Declaration(), multiple=True, metavar="WORD",
    help="What the lock can do, such as renews or one-task, whatever is seen; may be repeated.",
)  # fmt: skip
@click.option("--seeds", "--seed", type=SEED_RANGE, help="A..B of each scenario; default as many as the time allows.")
@click.option(
    "--jobs", "-j", "processes", type=Processes(), default="auto", show_default=True, metavar="TEXT",
    help="Processes; auto: one for each core.",
)  # fmt: skip
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **asked: Any) -> int:
    """Put a lock through the whole catalogue, and tell the causes of what broke on one screen.

    The lock is first run to see what it can do: whether it renews, shows tokens, has a lease. Each scenario then
    demands what such a lock can keep.

    \b
    lockref gate --provider ./my_lock.py:MyLock
    """
    from lockref.cli.jobs.console import Console
    from lockref.cli.jobs.gating import run_gate

    return run_gate(Console(ctx.obj, as_json=as_json), **asked)
