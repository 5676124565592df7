"""`lockref evaluate`: which store to take for a lock, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lockref.cli.options import AS_JSON, PROVIDER, ROUNDS, Crowds, Demand, backend_names, duration_option

FAULTS = ("e09", "e11", "e12", "e13", "e14", "e15", "e16", "e17")


@click.command(name="evaluate")
@click.argument("stores", nargs=-1, required=True, metavar="URI|NAME...", shell_complete=backend_names)
@PROVIDER
@click.option(
    "--contenders", "crowds", type=Crowds(), default="1,10,100", show_default=True,
    help="Numbers of clients; each gets a run of its own.",
)  # fmt: skip
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=1, show_default=True,
    help="Contention runs of each number of clients, the stores in turn. Six tell a factor of two if runs of one store "
    "vary by up to 20 %.",
)  # fmt: skip
@duration_option("--for", "for_ns", default="20s", about="Duration of each contention run.")
@duration_option("--probe-for", "probe_ns", default="25s", about="Duration of the probe.")
@ROUNDS
@click.option(
    "--require", "limits", type=Demand(), multiple=True,
    help="Limit on what is measured, such as 'handoff.p99 < 2s'. A store that misses it is not advised. Repeatable.",
)  # fmt: skip
@click.option(
    "--faults", multiple=True, default=FAULTS, metavar="SCENARIO", help="Scenario with faults; default e09, e11 to e17."
)
@click.option("--no-faults", is_flag=True, help="No runs with faults on the wire.")
@click.option("--no-baseline", is_flag=True, help="Do not run the faults with hudi beside the lock.")
@click.option(
    "--prices", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="List of prices, in the place of the one that comes with lockref.",
)  # fmt: skip
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context, /, as_json: bool, stores: tuple[str, ...], faults: tuple[str, ...], no_faults: bool,
    no_baseline: bool, **asked: Any,
) -> int:  # fmt: skip
    """Which of these stores to take for a lock: probe them, contend on them, strike them with faults, write one page.

    \b
    lockref evaluate ministack fake-gcs-server azurite --contenders 1,100 --require 'handoff.p99 < 2s'
    lockref evaluate 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --provider ./my_lock.py:MyLock
    lockref evaluate memory: --contenders 1,8 --for 10s --no-faults

    The lock is run first, to learn which requests it sends: a store must keep the conditions of these, and no others.
    It takes about ten minutes per store; --no-faults two. What was measured before a Ctrl-C stays.

    Exit code 0: a store is advised; 1: the lock broke on a store, or no store keeps what it needs; 3: too little was
    seen to advise one; 4: no store meets --require, or the lock left clients waiting; 5: no store could be reached.
    """
    from lockref.cli.jobs.evaluation.evaluating import evaluate
    from lockref.cli.jobs.shown.console import Console

    shown = () if no_faults else faults
    return evaluate(Console(ctx.obj, as_json=as_json), stores, faults=shown, has_baseline=not no_baseline, **asked)
