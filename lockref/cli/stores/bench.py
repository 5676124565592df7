"""`lockref bench`: hundreds of threads contend for one lock on a real server."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import (
    ALLOWED,
    AS_JSON,
    DEMANDS,
    FLEET,
    NEW_FILE,
    VIA,
    backend_names,
    duration_option,
    scenario_names,
)


@click.command(name="bench")
@click.argument("scenario", default="contention", shell_complete=scenario_names)
@click.option(
    "--backend", "-b", "backends", multiple=True, default=("ministack",), show_default=True, metavar="NAME|URI",
    shell_complete=backend_names,
    help="A server of `lockref backends`, or a store: memory:, file:///FOLDER, s3://…, gs://…, az://…, zookeeper://…",
)  # fmt: skip
@FLEET
@click.option("--contenders", type=click.IntRange(1, 1024), show_default="64", help="Threads in all.")
@duration_option("--for", "for_ns", about="How long clients begin new cycles; default 10s.")
@click.option(
    "--arrivals",
    type=click.FloatRange(0, 100_000, min_open=True),
    metavar="RATE",
    help="An open loop: so many lock calls per second are intended, over all clients, however slow the lock is.",
)
@click.option("--processes", type=click.IntRange(1, 64), show_default="1", help="Processes that share the threads.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of faults and clients.")
@VIA
@click.option("--fingerprint", type=NEW_FILE, help="Fingerprint of the store, which is then not measured.")
@click.option("--unsafe-store", is_flag=True, help="Use the store even if it ignores conditions.")
@DEMANDS
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **asked: Any) -> int:
    """Run SCENARIO on one or more real servers, and judge the histories.

    \b
    lockref bench contention --backend ministack --contenders 256 --for 20s
    lockref bench contention --backend 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --processes 2
    lockref bench contention --backend ministack --contenders 32 --arrivals 10
    lockref bench e11-create-reply-lost --backend ministack --provider hudi
    lockref bench z09-frozen-holder --backend zookeeper --provider helix-recipe

    A scenario's faults are carried out. Each client is then a process of its own, which can be stopped, killed and
    started again, and its requests pass a proxy. Some faults are possible in a simulation only, such as a clock that is
    set or a store that lies: a scenario with one of them is refused. A real run cannot be replayed; its history stays
    in the run folder for `lockref check`.
    """
    from lockref.cli.jobs.contention import contend
    from lockref.cli.jobs.shown.console import Console

    return contend(Console(ctx.obj, as_json=as_json), **asked)
