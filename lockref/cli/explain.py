"""`lockref explain`: the cause of a stored failure, in words, as a table, and as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from lockref.cli.options import AS_JSON, NEW_FILE


@click.command(name="explain")
@click.argument("name", metavar="ID|FILE")
@click.option("--provider", "-p", help="Another lock under the same plan.")
@click.option("--svg", type=NEW_FILE, metavar="FILE", help="Write the space-time diagram.")
@click.option(
    "--html", type=NEW_FILE, metavar="FILE", help="Write one page: cause, diagram, events. It needs no other file."
)
@click.option("--yaml", "yaml_file", type=NEW_FILE, metavar="FILE", help="Write the shrunk case as a scenario file.")
@click.option("--trust", is_flag=True, help="Import the code that a FILE names: you trust whoever wrote it.")
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    provider: str | None,
    svg: Path | None,
    html: Path | None,
    yaml_file: Path | None,
    trust: bool,
    as_json: bool,
) -> int:
    """Tell why a stored failure happened: the cause in words, the events in order, the line that shows it again.

    The failure is run once more in virtual time. Its file alone is enough, also in another folder.

    \b
    lockref explain LK-XXXXXX --html cause.html
    """
    from lockref.cli.jobs.explaining import explain
    from lockref.cli.jobs.shown.console import Console

    console = Console(ctx.obj, as_json=as_json)
    return explain(console, name, provider=provider, svg=svg, html=html, yaml_file=yaml_file, trust=trust)
