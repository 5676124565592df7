"""`lockref watch`: follow a run from beside, until it ends."""

import click

from lockref.cli.options import ALLOWED, AS_JSON_LINES, duration_option


@click.command(name="watch")
@click.argument("folder", metavar="[DIR]", default="latest")
@duration_option("--every", "every_ns", default="1s", about="How often the folder is looked at.")
@ALLOWED
@AS_JSON_LINES
@click.pass_context
def command(ctx: click.Context, folder: str, every_ns: int, allowed: list[int], as_json: bool) -> int:
    """Follow the run in DIR (a folder, the name of a run, or `latest`), which is not touched, until it ends.

    Ends with the verdict and the exit code of `lockref check`. A run whose process is gone is told of.
    """
    from lockref.cli.jobs.shown.console import Console
    from lockref.cli.jobs.watch.following import follow

    return follow(Console(ctx.obj, as_json=as_json), folder, every_ns=every_ns, allowed=allowed)
