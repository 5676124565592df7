"""`lockref wire`: any program, in any language, unmodified, watched and disturbed on the wire."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import ALLOWED, AS_JSON, DEMANDS, NEW_FILE, NEW_FOLDER, backend_names, duration_option


@click.command(name="wire", context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGS]…")
@click.option(
    "--backend",
    "-b",
    default="ministack",
    show_default=True,
    metavar="NAME|URI",
    help="A server or a store.",
    shell_complete=backend_names,
)
@click.option("--clients", "-n", type=click.IntRange(1, 64), default=4, show_default=True, help="Processes to start.")
@click.option(
    "--plan", metavar="SCENARIO|FILE", help="Scenario whose faults strike: a name of the catalogue, or a file."
)
@click.option("--protects", multiple=True, metavar="GLOB", help="Objects that the lock protects, such as 'state/*'.")
@click.option(
    "--decoder", default="auto", show_default=True, metavar="NAME|json:…|FILE.py:NAME",
    help="How to read lock records: hudi, opentofu, litestream, gcslock, exists:GLOB[,ttl=60s], json:owner=$.ID,…",
)  # fmt: skip
@duration_option("--for", "lasting_ns", default="60s", about="Time limit: programs that still run are ended.")
@click.option(
    "--template", "templates", multiple=True, type=NEW_FILE, help="File that each client gets, placeholders filled in."
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable for the program, placeholders filled in.",
)
@duration_option("--validity", "validity_ns", about="Duration of a lease, where its record names none.")
@duration_option("--handover", "handover_ns", default="30s", about="How soon a waiter must get a lock that is free.")
@duration_option("--clock-bound", "drift_bound_ns", default="500ms", about="How far two clocks may differ.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Seed of what the plan leaves to chance.")
@click.option("--tls", "is_tls", is_flag=True, help="The endpoints speak TLS, under a certificate made for the run.")
@click.option(
    "--show-output", "is_shown", is_flag=True, help="Show the program's output on standard error. No file keeps it."
)
@click.option("--output", type=NEW_FOLDER, metavar="DIR", help="Copy the run folder to there.")
@DEMANDS
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, program: tuple[str, ...], **asked: Any) -> int:
    """Start PROGRAM once for each client, record its requests to the store, and judge the lock.

    \b
    lockref wire --clients 3 --protects 'state/*' -- python worker.py --endpoint {endpoint}
    lockref wire --plan pause.yaml --decoder json:owner=$.ID --template main.tf -- tofu apply

    Each client has an endpoint of its own in front of the server. The placeholders {endpoint}, {port}, {client},
    {number}, {bucket} and {folder} are filled in, in arguments, --env and templates. The environment also leads the
    SDKs of S3, GCS and Azure to the endpoint. docs/wire.md explains what the wire shows.
    """
    from lockref.cli.jobs.shown.console import Console
    from lockref.cli.jobs.watching import watch

    return watch(Console(ctx.obj, as_json=as_json), program, **asked)
