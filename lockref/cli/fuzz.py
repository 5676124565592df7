"""`lockref fuzz`: change what showed something new, until the lock breaks or the time is over."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import ALLOWED, AS_JSON, FLEET, NEW_FOLDER, Duration, Processes, scenario_names
from lockref.seeds import SEED_MAX


@click.command(name="fuzz")
@click.argument("scenario", required=False, metavar="[SCENARIO]", shell_complete=scenario_names)
@FLEET
@click.option("--max-time", "max_time_ns", type=Duration(), help="How long; default 60s where --runs is not given.")
@click.option("--runs", type=click.IntRange(1, 100_000_000), help="So many runs: the same ones each time.")
@click.option("--seed", type=click.IntRange(0, SEED_MAX), default=1, show_default=True, help="Of the first run.")
@click.option(
    "--jobs", "-j", "processes", type=Processes(), default="auto", show_default=True, metavar="TEXT",
    help="Processes; auto: one for each core.",
)  # fmt: skip
@click.option("--out", type=NEW_FOLDER, help="Folder of the corpus; default one in the run's folder.")
@click.option("--resume", is_flag=True, help="Go on with the corpus in --out.")
@click.option(
    "--shrink-for", type=Duration(zero=True), default="60s", show_default=True,
    help="Time for shrinking failures, in all; 0s: none is shrunk.",
)  # fmt: skip
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, scenario: str | None, **asked: Any) -> int:
    """Fuzz a lock: faults, instants, workload and crowd of the runs that showed something new are changed.

    \b
    lockref fuzz --provider ./my_lock.py:MyLock --max-time 10m --out corpus
    lockref fuzz e08 --provider hudi --runs 2000
    lockref fuzz --provider ./my_lock.py:MyLock --max-time 1h --out corpus --resume
    """
    from lockref.cli.jobs.search.fuzzing import fuzz_lock
    from lockref.cli.jobs.shown.console import Console

    return fuzz_lock(Console(ctx.obj, as_json=as_json), scenario, **asked)
