"""`lockref evaluate`: what an architect asks of a store before a lock is put on it."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import AS_JSON, PROVIDER, ROUNDS, Crowds, duration_option

FAULTS = ("e11", "e12", "e13", "e14", "e15", "e16", "e17")


@click.command(name="evaluate")
@click.argument("stores", nargs=-1, required=True, metavar="URI|NAME...")
@PROVIDER
@click.option(
    "--contenders",
    "crowds",
    type=Crowds(),
    default="1,8,64,256",
    show_default=True,
    help="Numbers of clients; each gets a run of its own.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Contention runs of each number of clients, the stores in turn. Six tell a factor of two if runs of one store "
    "vary by up to 20 %.",
)
@duration_option("--for", "for_ns", default="20s", about="Duration of each contention run.")
@duration_option("--probe-for", "probe_ns", default="25s", about="Duration of the probe.")
@ROUNDS
@click.option(
    "--faults", multiple=True, default=FAULTS, metavar="SCENARIO", help="Scenario with faults; default e11 to e17."
)
@click.option("--no-faults", is_flag=True, help="No runs with faults on the wire.")
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    as_json: bool,
    stores: tuple[str, ...],
    faults: tuple[str, ...],
    no_faults: bool,
    **asked: Any,
) -> int:
    """Probe each store, contend on it with more and more clients, strike its wire with faults, and write one page.

    \b
    lockref evaluate 's3://bucket/prefix?endpoint=http://127.0.0.1:9000'
    lockref evaluate ministack moto --contenders 1,64 --for 10s --no-faults

    It takes about five minutes per store. A store that the probe finds unsafe gets no contention runs. Several stores
    are compared with the first one. One run of each cannot say which store is faster, since the same store differs
    from run to run: use --repeats. What was measured before a Ctrl-C stays, and the page says how often each was run.
    The exit codes are those of `probe` and `bench`; the worst one counts.
    """
    from lockref.cli.jobs.console import Console
    from lockref.cli.jobs.evaluation import evaluate

    return evaluate(Console(ctx.obj, as_json=as_json), stores, faults=() if no_faults else faults, **asked)
