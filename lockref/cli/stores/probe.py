"""`lockref probe`: can this store carry a lock, and a lock of which design?"""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import AS_JSON, NEW_FILE, ROUNDS, duration_option


@click.command(name="probe")
@click.argument("stores", nargs=-1, required=True, metavar="URI|NAME...")
@click.option(
    "--endpoint", "endpoints", multiple=True, metavar="URL", help="Another endpoint of the store; repeatable."
)
@duration_option("--for", "for_ns", default="25s", about="Approximate duration for each store.")
@ROUNDS
@click.option(
    "--require",
    default="",
    metavar="LIST",
    help="Pass only with these: create, cas, delete, fencing, or clauses (C13).",
)
@click.option("--output", type=NEW_FILE, help="Write the fingerprint as JSON.")
@click.option("--markdown", type=NEW_FILE, help="Write the fingerprint as Markdown.")
@click.option("--page", type=NEW_FILE, help="Write the fingerprint as one HTML file.")
@click.option("--stop-node", default="", metavar="COMMAND", help="Command that stops a node of the store, for C17.")
@click.option("--start-node", default="", metavar="COMMAND", help="Command that starts this node again.")
@click.option("--dry-run", is_flag=True, help="Tell how many requests it may take, and send none.")
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, stores: tuple[str, ...], **asked: Any) -> int:
    """Ask a store every question that a lock depends on. The probe writes small objects and removes them afterwards.

    \b
    lockref probe 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --output store.json
    lockref probe gs://bucket --require cas,create
    lockref probe ministack

    Exit code 0: the store is conforming or usable; 1: unsafe; 3: some questions have no answer, or the store has no
    conditional writes; 5: the store cannot be reached, or refuses us. With --require: 0 if everything required was
    shown, 1 if some of it is unsafe, 3 if some of it has no answer.
    """
    from lockref.cli.jobs.probing import probe_stores
    from lockref.cli.jobs.shown.console import Console

    return probe_stores(Console(ctx.obj, as_json=as_json), stores, **asked)
