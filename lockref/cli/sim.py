"""`lockref sim`: scenarios over many seeds in virtual time."""

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
    Processes,
    Word,
    scenario_names,
)


@click.command(name="sim")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...", shell_complete=scenario_names)
@click.option(
    "--all", "take_all", is_flag=True, help="The whole catalogue. Each scenario demands what a lock can keep there."
)
@FLEET
@click.option("--seeds", "--seed", type=SEED_RANGE, help="A..B, or one seed; default the pinned one, else 1..200.")
@click.option(
    "--jobs", "-j", "processes", type=Processes(), default="auto", show_default=True, metavar="TEXT",
    help="Processes; auto: one for each core, where that is faster.",
)  # fmt: skip
@click.option("--max-time", "max_time_ns", type=Duration(zero=True), help="After this time begin no further batch.")
@click.option("--check-determinism", is_flag=True, help="Run every tenth seed twice and compare the traces.")
@click.option("--keep", "keep_runs", type=click.IntRange(0), default=200, show_default=True, help="Histories to keep.")
@click.option("--resume", is_flag=True, help="Go on with the unfinished run of this same command.")
@click.option(
    "--shrink-for", type=Duration(zero=True), default="60s", show_default=True,
    help="Time for shrinking failures, in all; 0s: none is shrunk.",
)  # fmt: skip
@click.option(
    "--explore",
    "policy",
    type=Exploring(),
    help="Search schedules: random, pct:D, pos, delay:N, exhaustive; or plans: faults (docs/search.md).",
)
@click.option(
    "--tie-window",
    "window_ns",
    type=Duration(),
    help="With --explore: what falls into one such window may run in any order; 50ms, for delay and exhaustive 1ms.",
)
@click.option(
    "--preempt",
    type=Word(["waits", "calls", "statements"]),
    help="With --explore: where a task may lose the processor; default calls, for delay and exhaustive waits.",
)
@click.option(
    "--schedules-max",
    type=click.IntRange(1, 10_000_000),
    help="With --explore delay:N or exhaustive: runs of one seed at most; default 10000.",
)
@click.option("--show-skipped", is_flag=True, help="With --all: tell each scenario that does not apply, and why.")
@DEMANDS
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, scenarios: tuple[str, ...], **asked: Any) -> int:
    """Run SCENARIO (a file, or a name of the catalogue such as e08) over many seeds and judge every run.

    \b
    lockref sim e08 --provider hudi --seeds 1..500
    lockref sim my.yaml --provider ./my_lock.py:MyLock --seeds 1..100 --json
    lockref sim e13 --explore exhaustive --seed 1  # all orders of what happens at one instant
    lockref sim h06 --explore faults               # one fault at each request, then a second one after it
    lockref sim swarm --seeds 1..20000 --resume    # after a kill or Ctrl-C: what was finished is not run again
    """
    from lockref.cli.jobs.shown.console import Console

    console = Console(ctx.obj, as_json=as_json)
    exploring = {name: asked.pop(name) for name in ("policy", "window_ns", "preempt", "schedules_max")}
    if exploring["policy"] is None:
        if any(value is not None for value in exploring.values()):
            raise click.UsageError("--tie-window, --preempt and --schedules-max belong to --explore", ctx)
        from lockref.cli.jobs.simulation import simulate

        return simulate(console, scenarios, **asked)
    refused = {name: asked.pop(name) for name in ("take_all", "check_determinism", "resume", "show_skipped")}
    if any(refused.values()):
        raise click.UsageError("--explore takes no --all, --check-determinism, --resume or --show-skipped", ctx)
    from scenarios.search.placing import FaultPlacing

    policy = exploring.pop("policy")
    if isinstance(policy, FaultPlacing):
        if policy.policy is None and any(value is not None for value in exploring.values()):
            raise click.UsageError("--tie-window, --preempt and --schedules-max are about schedules, not faults", ctx)
        from lockref.cli.jobs.search.placing import place_faults

        del asked["keep_runs"]
        return place_faults(console, scenarios, placing=policy, **exploring, **asked)
    from lockref.cli.jobs.exploration import explore

    return explore(console, scenarios, policy=policy, **exploring, **asked)
