"""`lockref campaign`: scenarios over very many seeds, on processes or on Spark."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import (
    ALLOWED,
    AS_JSON,
    DEMANDS,
    FLEET,
    SEED_RANGE,
    Duration,
    Exploring,
    Word,
    on_executors,
    scenario_names,
)


@click.command(name="campaign")
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...", shell_complete=scenario_names)
@FLEET
@click.option("--seeds", type=SEED_RANGE, default="1..10000", show_default=True, help="A..B, at most ten million.")
@on_executors
@click.option("--out", help="Folder, or s3a://BUCKET/PREFIX, of chunks and results; default a run folder.")
@click.option("--resume", is_flag=True, help="Go on with the campaign in --out, or with the unfinished one.")
@click.option("--max-time", "max_time_ns", type=Duration(zero=True), help="After this time begin no further chunk.")
@click.option("--check-determinism", is_flag=True, help="Run every tenth seed twice and compare the traces.")
@click.option(
    "--keep", type=click.IntRange(0), default=200, show_default=True,
    help="Histories to keep of all runs, evenly over the seeds.",
)  # fmt: skip
@click.option(
    "--keep-failures", type=click.IntRange(0), default=1000, show_default=True,
    help="Histories to keep of runs that broke a clause, the first ones.",
)  # fmt: skip
@click.option(
    "--shrink-for", type=Duration(zero=True), default="60s", show_default=True,
    help="Time for shrinking failures, in all; 0s: none is shrunk.",
)  # fmt: skip
@click.option(
    "--explore", "policy", type=Exploring(with_faults=False),
    help="Draw the schedule of each seed: random, pct:D or pos (docs/search.md).",
)  # fmt: skip
@click.option("--tie-window", "window_ns", type=Duration(), help="With --explore, as of sim; default 50ms.")
@click.option("--preempt", type=Word(["waits", "calls", "statements"]), help="With --explore, as of sim.")
@DEMANDS
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, scenarios: tuple[str, ...], **asked: Any) -> int:
    """Run SCENARIO (a file, or a name of the catalogue) over very many seeds; `sim` is for fewer.

    \b
    lockref campaign swarm --provider hardened --seeds 1..1000000 --out swarm-1m
    lockref campaign swarm e08 --provider ./my_lock.py:MyLock --seeds 1..1000000 --master spark://host:7077 --out s3a://b/c
    lockref campaign swarm --provider hardened --seeds 1..1000000 --out swarm-1m --resume   # after a kill

    Verdict and digest are those of `lockref sim` for the same seeds, whatever the executors.
    """
    from lockref.cli.jobs.campaign.running import run_campaign
    from lockref.cli.jobs.shown.console import Console

    return run_campaign(Console(ctx.obj, as_json=as_json), scenarios, **asked)
