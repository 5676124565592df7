"""`lockref backends`: the servers that locks can stand on."""

from __future__ import annotations

import contextlib
import dataclasses
import signal

import click

from lockref.cli.jobs.shown.console import Console, printable
from lockref.cli.options import AS_JSON, VIA, Group


@click.group(cls=Group, name="backends", invoke_without_command=True)
@AS_JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the servers that can be started here, natively and in containers; a URI names any other store."""
    if ctx.invoked_subcommand is not None:
        return
    from scenarios.backends.hosts import server_statuses

    console = Console(ctx.obj, as_json=as_json)
    rows = server_statuses()
    if as_json:
        console.document({"backends": [dataclasses.asdict(row) for row in rows]})
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        mark, style = ("✓", "good") if row.available else ("–", "dim")
        line = f"{mark} {row.name:<{width}} {row.via:<7} {row.version:<10} {printable(row.reason)}"
        console.say(line.rstrip(), style=style)
    console.say(
        "or any store: memory:, file:///folder, s3://bucket/prefix?endpoint=URL, gs://…, az://…, zookeeper://HOST:PORT"
    )


@command.command(name="up")
@click.argument("name")
@VIA
@click.pass_context
def up_command(ctx: click.Context, name: str, via: str) -> None:
    """Start a server, print its address, and keep it until Ctrl-C: `lockref backends up zookeeper`."""
    from scenarios.backends.hosts import started_server

    console = Console(ctx.obj)
    with started_server(name, via=via) as running:
        console.say(f"{running.name} {running.version} is ready: {running.uri}")
        console.say("Ctrl-C stops it, and what it holds is gone.", style="dim")
        # The server ends with this command, whatever ends it.
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
