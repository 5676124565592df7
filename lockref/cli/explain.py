"""`lockref explain`: the cause of a stored failure, in words, as a table, and as a picture."""

from __future__ import annotations

import click

from lockref.cli.options import AS_JSON


@click.command(name="explain")
@click.argument("name", metavar="ID|FILE")
@click.option("--provider", "-p", help="Another lock under the same plan.")
@click.option("--trust", is_flag=True, help="Import the code that a FILE names: you trust whoever wrote it.")
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    provider: str | None,
    trust: bool,
    as_json: bool,
) -> int:
    """Tell why a stored failure happened: the cause in words, the events in order, the line that shows it again.

    The failure is run once more in virtual time. Its file alone is enough, also in another folder.

    \b
    lockref explain LK-XXXXXX
    """
    from lockref.cli.jobs.console import Console
    from lockref.cli.jobs.explaining import explain

    console = Console(ctx.obj, as_json=as_json)
    return explain(console, name, provider=provider, trust=trust)
