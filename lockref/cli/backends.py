"""`lockref backends`: the servers that locks can stand on."""

from __future__ import annotations

import click

from lockref.cli.console import Console, printable


@click.command(name="backends")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the servers that can be started here, natively and in containers; a URI names any other store."""
    from scenarios.backends import BACKENDS
    from scenarios.backends.status import all_statuses

    console = Console(ctx.obj, as_json=as_json)
    rows = all_statuses()
    if as_json:
        console.document({"backends": rows})
        return
    width = max(len(name) for name in BACKENDS)
    for row in rows:
        mark, style = ("✓", "good") if row["available"] else ("–", "dim")
        line = f"{mark} {row['name']:<{width}} {row['via']:<7} {row['version']!s:<10} {printable(str(row['reason']))}"
        console.say(line.rstrip(), style=style)
    console.say(
        "or any store: memory:, file:///folder, s3://bucket/prefix?endpoint=URL, gs://bucket/prefix?endpoint=URL"
    )
