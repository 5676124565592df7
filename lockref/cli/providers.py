"""`lockref providers`: the locks that can be put to the test."""

from __future__ import annotations

import click

from lockref.cli.jobs.shown.console import Console, printable
from lockref.cli.options import AS_JSON


@click.command(name="providers")
@AS_JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the locks that are known by name; any other is named as module:Class or file.py:Class."""
    from lockref.lab.loading import description_of, registered

    console = Console(ctx.obj, as_json=as_json)
    rows = [description_of(name, home) for name, home in sorted(registered().items())]
    if as_json:
        console.document({"providers": rows})
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        problem = f"  does not load: {printable(row['error'], limit=400)}" if "error" in row else ""
        worlds = "; real servers only" if row.get("worlds") == "real" else ""
        console.say(
            f"{row['name']:<{width}} {row['class']} ({row['origin']}{worlds}){problem}", style="bad" if problem else ""
        )
    console.say("bring your own: --provider module:Class or --provider path/file.py:Class", style="dim")
