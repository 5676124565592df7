"""`lockref soak`: does a lock leak? Many cycles on a real server, with the slope of each resource."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from lockref.cli.options import ALLOWED, AS_JSON, PROVIDER, VIA, backend_names, duration_option, scenario_names


@click.command(name="soak")
@click.argument("scenario", required=False, shell_complete=scenario_names)
@click.option(
    "--backend", "-b", default="ministack", show_default=True, metavar="NAME|URI", shell_complete=backend_names,
    help="A server of `lockref backends`, or a store: memory:, s3://…, gs://…, az://…, dynamodb://…, zookeeper://…",
)  # fmt: skip
@PROVIDER
@duration_option("--for", "lasting_ns", default="1h", about="How long the clients work, warm-up included.")
@click.option("--clients", type=click.IntRange(1, 1024), show_default="2", help="Threads that share the lock.")
@click.option("--processes", type=click.IntRange(1, 64), show_default="1", help="Processes that share the threads.")
@click.option("--faults", metavar="SCENARIO", shell_complete=scenario_names, help="Scenario whose faults strike, too.")
@duration_option("--every", "every_ns", default="1m", about="How often the faults of --faults strike.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of faults and clients.")
@click.option("--resume", metavar="DIR", help="Go on with a soak that was cut short; no other setting is taken then.")
@VIA
@click.option("--unsafe-store", is_flag=True, help="Use the store even if it ignores conditions.")
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, resume: str | None, allowed: list[int], **asked: Any) -> int:
    """Let a lock work for long, and tell whether it leaks: sockets, descriptors, threads, processes, memory.

    \b
    lockref soak --backend ministack --for 1h
    lockref soak --backend memory: --provider my_lock.py:MyLock --for 40s
    lockref soak --backend zookeeper --provider helix --for 30m --processes 2
    lockref soak --backend ministack --faults swarm-on-the-wire --every 2m --for 8h

    The clients run in processes of their own, which are sampled from outside. Each resource has a slope per 1,000
    cycles and per hour with its 95 % interval, and a verdict: flat, leaks or inconclusive. The history is judged as
    that of `lockref bench`. Exit code 0: the lock held and leaks nothing; 1: it leaks, or a safety clause broke; 3: the
    soak was too short to tell, and says how long it must be; 4: a liveness clause or a claim of
    fairness broke; 5: the server went away. What was measured is kept.
    """
    from lockref.cli.jobs.shown.console import Console
    from lockref.cli.jobs.soak import soaking
    from lockref.cli.jobs.soak.settings import Asked

    console = Console(ctx.obj, as_json=as_json)
    if resume is not None:
        given = [each for each in asked if ctx.get_parameter_source(each) is not ParameterSource.DEFAULT]
        if given:
            names = {each.name: max(each.opts, key=len) for each in ctx.command.params}
            raise click.UsageError(f"--resume goes on with the settings of that soak; leave {names[given[0]]} out")
        return soaking.resume(console, resume, allowed=allowed)
    return soaking.soak(console, Asked(**asked), allowed=allowed)
