"""`lockref watch`: follow a run from beside, until it ends."""

from __future__ import annotations

import click

from lockref.cli.options import ALLOWED, AS_JSON_LINES, duration_option


@click.command(name="watch")
@click.argument("folder", metavar="[DIR]", default="latest")
@duration_option("--every", "every_ns", default="1s", about="How often the folder is looked at.")
@duration_option("--quiet-for", "quiet_ns", default="10s", about="Without run.json: over after such a silence.")
@ALLOWED
@AS_JSON_LINES
@click.pass_context
def command(ctx: click.Context, folder: str, every_ns: int, quiet_ns: int, allowed: list[int], as_json: bool) -> int:
    """Follow the run in DIR: a run folder, the name of a run, or `latest`. The run is not touched.

    \b
    lockref watch                          # the newest run of this folder
    lockref watch .lockref/runs/latest --json

    Tells what runs, how far it is, how long the rest takes, what broke so far and how to see it again. Ends when the
    run ends, with the verdict and the exit code of `lockref check`. A run whose process is gone is told of. Ctrl-C
    ends the watching alone.
    """
    from lockref.cli.jobs.shown.console import Console
    from lockref.cli.jobs.watch.following import follow

    return follow(Console(ctx.obj, as_json=as_json), folder, every_ns=every_ns, quiet_ns=quiet_ns, allowed=allowed)
