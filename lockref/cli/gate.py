"""`lockref gate`: the command of a CI job."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from lockref.cli.options import (
    ALLOWED,
    AS_JSON,
    FLEET,
    NEW_FILE,
    SEED_RANGE,
    Declaration,
    Demand,
    Duration,
    Expression,
    on_executors,
)


@click.command(name="gate")
@click.argument("files", nargs=-1)
@FLEET
@click.option("--only-mine", "is_only_mine", is_flag=True, help="Only the FILES, and not the catalogue.")
@click.option(
    "--declare", "declared", type=Declaration(), multiple=True, metavar="WORD",
    help="What the lock can do, such as renews or one-task, also if its runs do not show it; may be repeated.",
)  # fmt: skip
@click.option(
    "--seeds", "--seed", type=SEED_RANGE, help="Seeds of each scenario, A..B; default as many as the gate plans."
)
@on_executors
@click.option(
    "-k", "selected", type=Expression(),
    help="Only scenarios that match, in pytest's grammar: words of names, ids, kinds of faults, clauses.",
)  # fmt: skip
@click.option(
    "--exclude", "excluded", type=Expression(), multiple=True, help="Leave out scenarios that match; may be repeated."
)
@click.option(
    "--last-failed", "--lf", "is_last_failed", is_flag=True,
    help="Only scenarios that stopped the last gate of the same lock here; all, if none did.",
)  # fmt: skip
@click.option("--fail-fast", "is_fail_fast", is_flag=True, help="End after the first scenario that breaks.")
@click.option(
    "--for", "budget_ns", type=Duration(), metavar="DURATION",
    help="Time of the whole gate. What is left after the planned runs goes to further seeds.",
)  # fmt: skip
@click.option("--known", type=NEW_FILE, help="Accepted failures: a YAML file of causes, reasons and last days.")
@click.option(
    "--require", "required", type=Demand(), multiple=True,
    help="Limit that all runs together must keep, such as 'handoff.p99 < 2s'; may be repeated.",
)  # fmt: skip
@click.option("--junit", type=NEW_FILE, help="Write one JUnit file, with a test case for each scenario.")
@click.option("--markdown", type=NEW_FILE, help="Write the account as Markdown.")
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **given: Any) -> int:
    """Put a lock through the whole catalogue, and tell the causes of what broke on one screen.

    The lock is first run to see what it can do: whether it renews, shows tokens, has a lease. Each scenario then
    demands what such a lock can keep. FILES are scenarios of your own, run beside the catalogue.

    \b
    lockref gate --provider ./my_lock.py:MyLock
    lockref gate --provider ./my_lock.py:MyLock -k "pause and not swarm" --fail-fast
    lockref gate --provider ./my_lock.py:MyLock my.lock.yaml --for 10m --known known-failures.yaml --junit gate.xml

    Under GitHub Actions the summary of the job and its annotations are written without being asked for.
    """
    from lockref.cli.jobs.gate.gating import run_gate
    from lockref.cli.jobs.gate.options import GateOptions
    from lockref.cli.jobs.shown.console import Console

    options = GateOptions(**{each.name: given.pop(each.name) for each in fields(GateOptions)})
    return run_gate(Console(ctx.obj, as_json=as_json), options, **given)
