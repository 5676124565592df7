"""`lockref bench`: hundreds of threads contend for one lock on a real server."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import ALLOWED, AS_JSON, NEW_FILE, PROVIDER, duration_option


@click.command(name="bench")
@click.argument("scenario", default="contention")
@click.option(
    "--backend", "-b", "backends", multiple=True, default=("ministack",), show_default=True, metavar="NAME|URI",
    help="A server of `lockref backends`, or a store: memory:, file:///FOLDER, s3://…, gs://…, az://…, zookeeper://…",
)  # fmt: skip
@PROVIDER
@click.option("--contenders", type=click.IntRange(1, 1024), show_default="64", help="Threads in all.")
@duration_option("--for", "for_ns", about="Then no new cycle begins; default 10s.")
@click.option("--processes", type=click.IntRange(1, 64), show_default="1", help="They share the threads.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws faults and what clients do.")
@click.option("--via", type=click.Choice(["native", "docker"]), default="native", show_default=True)
@click.option("--fingerprint", type=NEW_FILE, help="Vouches for the store: no measuring.")
@click.option("--unsafe-store", is_flag=True, help="Use a store that ignores conditions all the same.")
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **asked: Any) -> int:
    """Run SCENARIO on one or more real servers, and judge the histories.

    \b
    lockref bench contention --backend ministack --contenders 256 --for 20s
    lockref bench contention --backend 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --processes 2
    lockref bench e11-create-reply-lost --backend ministack --provider hudi
    lockref bench z09-frozen-holder --backend zookeeper --provider helix-recipe

    A scenario's faults are carried out: each client is a process then, which is stopped, killed and started again, and
    its requests pass a proxy. Clocks cannot be set for one process, nor does a real store lie: a scenario that needs
    that is refused. A real run cannot be replayed; its history stays in the run folder for `lockref check`.
    """
    from lockref.jobs.console import Console
    from lockref.jobs.contention import contend

    return contend(Console(ctx.obj, as_json=as_json), **asked)
