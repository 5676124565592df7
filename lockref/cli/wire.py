"""`lockref wire`: any program, in any language, unmodified, watched and disturbed on the wire."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import ALLOWED, AS_JSON, NEW_FILE, NEW_FOLDER, duration_option


@click.command(name="wire")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGS]…")
@click.option(
    "--backend", "-b", default="ministack", show_default=True, metavar="NAME|URI", help="A server or a store."
)
@click.option("--clients", "-n", type=click.IntRange(1, 64), default=4, show_default=True, help="Processes to start.")
@click.option(
    "--plan", metavar="SCENARIO|FILE", help="Whose faults strike: a scenario by name, or a file of that form."
)
@click.option("--protects", multiple=True, metavar="GLOB", help="Keys of what the lock protects, such as 'state/*'.")
@click.option(
    "--decoder", default="auto", show_default=True, metavar="NAME|json:…|FILE.py:NAME",
    help="What lock records say: hudi, opentofu, litestream, s3-locks, gcslock, exists:GLOB, json:owner=$.ID,…",
)  # fmt: skip
@duration_option("--for", "lasting_ns", default="60s", about="What runs then is ended.")
@click.option("--template", "templates", multiple=True, type=NEW_FILE, help="A file for each client, places filled in.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="For the program; places filled in.")
@duration_option("--validity", "validity_ns", about="How long a record keeps others out, where it does not say so.")
@duration_option("--handover", "handover_ns", default="30s", about="When a free lock must be had.")
@duration_option("--clock-bound", "drift_bound_ns", default="500ms", about="How far clocks differ.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Draws what the plan leaves open.")
@click.option("--tls", "is_tls", is_flag=True, help="The endpoints speak TLS, under a certificate made for the run.")
@click.option(
    "--show-output", "is_shown", is_flag=True, help="The program's output on standard error; it is kept nowhere."
)
@click.option("--output", type=NEW_FOLDER, metavar="DIR", help="A copy of the run folder, for keeping.")
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, program: tuple[str, ...], **asked: Any) -> int:
    """Start PROGRAM once for each client, each with an endpoint of its own before the server; judge what passes there.

    \b
    lockref wire --clients 3 --protects 'state/*' -- python worker.py --endpoint {endpoint}
    lockref wire --plan pause.yaml --decoder json:owner=$.ID --template main.tf -- tofu apply

    In arguments, --env and templates {endpoint}, {port}, {client}, {number}, {bucket} and {folder} are filled in. The
    environment leads the SDKs of S3, GCS and Azure to the endpoint, too. docs/wire.md tells what the wire shows.
    """
    from lockref.jobs.console import Console
    from lockref.jobs.watching import watch

    return watch(Console(ctx.obj, as_json=as_json), program, **asked)
