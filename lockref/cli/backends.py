"""`lockref backends`: the servers that locks can stand on."""

from __future__ import annotations

import contextlib
import signal

import click

from lockref.cli.jobs.console import Console, printable
from lockref.cli.options import AS_JSON, VIA


@click.group(name="backends", invoke_without_command=True)
@AS_JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the servers that can be started here, natively and in containers; a URI names any other store."""
    if ctx.invoked_subcommand is not None:
        return
    from scenarios.backends.status import all_statuses

    console = Console(ctx.obj, as_json=as_json)
    rows = all_statuses()
    if as_json:
        console.document({"backends": rows})
        return
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        mark, style = ("✓", "good") if row["available"] else ("–", "dim")
        line = f"{mark} {row['name']:<{width}} {row['via']:<7} {row['version']!s:<10} {printable(str(row['reason']))}"
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
    from scenarios.backends import start_backend
    from scenarios.backends.start import started_ensemble
    from scenarios.backends.zookeeper import ZOOKEEPERS

    console = Console(ctx.obj)
    with contextlib.ExitStack() as stack:
        if name in ZOOKEEPERS:
            servers = stack.enter_context(started_ensemble(name, via=via))
            console.say(f"ZooKeeper {servers.version} is ready: {servers.uri}")
        else:
            running = stack.enter_context(start_backend(name, via=via))
            console.say(f"{running.name} {running.version} is ready: {running.uri}")
        console.say("Ctrl-C stops it, and what it holds is gone.", style="dim")
        # The server ends with this command, whatever ends it.
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
