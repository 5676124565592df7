"""`lockref delta`: how many writers, which queue, how many adds in a version; the figures of Delta's commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from lockref.cli.options import AS_JSON, NEW_FOLDER, WRITER_NUMBERS, Group, Number, NumberList, Word, duration_option

PROTOCOLS = Word(["lock", "shared-key", "rename-only", "optimistic"])


@click.group(cls=Group, name="delta")
def command() -> None:
    """Delta Lake's commits under one lock per table, as numbers."""


@command.command(name="plan")
@click.option("--tables", type=click.IntRange(1, 1_000), default=3, show_default=True, help="Tables in all.")
@click.option(
    "--versions", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Versions of each table."
)
@click.option(
    "--writers", type=WRITER_NUMBERS, default="1..20", show_default=True,
    help="One row for each number; 2,10 is a list.",
)  # fmt: skip
@duration_option("--commit", "commit_ns", default="1s", about="Duration of one commit under the lock.")
@click.option("--from-run", metavar="RUN", help="Take the durations of commits from a run, instead of --commit.")
@duration_option("--deadline", "deadline_ns", default="10s", about="Longest time from the queue to the commit.")
@click.option(
    "--order", default="fair", show_default=True, metavar="fair|unfair|closed-loop|random-winner|FILE",
    help="Order of versions in the queue.",
)  # fmt: skip
@click.option(
    "--coalesce", type=click.IntRange(1, 1_000_000), default=1, show_default=True,
    help="Versions merged into one commit.",
)  # fmt: skip
@click.option(
    "--protocol", type=PROTOCOLS, default="lock", show_default=True, help="rename-only: load before the lock."
)
@duration_option("--poll", "poll_ns", about="Time between two attempts of a waiter; default: waiters queue.")
@duration_option("--gap", "gap_ns", about="From the end of a commit until the lock is free; default none.")
@duration_option("--get", "get_ns", about="One GET of loading the table, under the lock; default none.")
@duration_option("--think", "think_ns", about="Work on a version before the lock; default none.")
@duration_option(
    "--every", "every_ns", about="From one version's arrival in the queue to the next; default all at once."
)
@click.option(
    "--workers", type=NumberList("workers", least=1, most=1_000, count_max=100),
    help="Compare with a queue for each table, owned by one of so many workers at a time.",
)  # fmt: skip
@click.option(
    "--batch", type=click.IntRange(1, 1_000_000), default=100, show_default=True,
    help="Most items of a worker's version.",
)  # fmt: skip
@duration_option(
    "--linger", "linger_ns", about="Longest time that an item waits for others, unless the batch is full; default none."
)
@duration_option(
    "--visibility", "visibility_ns", default="30s", about="An item that was not deleted is delivered again after it."
)
@duration_option("--lease", "lease_ns", default="20s", about="Lease by which a worker owns a queue.")
@click.option(
    "--crash-share", type=Number(0, 0.99), default=0.0, show_default=True,
    help="Share of commits in which a worker crashes.",
)  # fmt: skip
@duration_option("--query-every", "query_every_ns", default="10s", about="Time between two queries of a reader.")
@click.option(
    "--from-version", type=click.IntRange(0, 1_000_000), default=0, show_default=True,
    help="First version of every table.",
)  # fmt: skip
@click.option(
    "--attempts", type=click.IntRange(0), default=16, show_default=True,
    help="Attempts per version, where the load is not under the lock; 0: no bound.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of poll phases and think times."
)
@AS_JSON
@click.pass_context
def plan_command(ctx: click.Context, /, as_json: bool, from_run: str | None, **asked: Any) -> int:
    """Simulate writers that share a queue of versions: throughput, waits, missed deadlines, wasted time.

    \b
    lockref delta plan --tables 3 --versions 100 --writers 1..20 --commit 1s --deadline 10s
    lockref delta plan --order queue.txt --writers 3         # queue.txt: 1n 2n 3n 1a 1c
    lockref delta plan --every 200ms --linger 5s --workers 1..3

    With `closed-loop` and `random-winner` each writer always has a next version for its table. With `random-winner` the
    lock goes to any of the writers that wait. A FILE names tables and versions itself.

    never: writers that ask and get no version through until the run ends. Such a number of writers is not recommended,
    nor one with a writer that others overtake for more than ten rounds.

    Tables of Apache Hudi and Apache Iceberg have the same answer: one commit of a table at a time. `lockref plan` and
    `lockref delta plan` are one command.
    """
    from lockref.cli.jobs.planning import plan_writers
    from lockref.cli.jobs.shown.console import Console

    if from_run and ctx.get_parameter_source("commit_ns") is not ParameterSource.DEFAULT:
        raise click.UsageError("--from-run takes the durations of commits from the run; leave --commit out")
    return plan_writers(Console(ctx.obj, as_json=as_json), from_run=from_run, **asked)


@command.command(name="figures")
@click.option("--out", type=NEW_FOLDER, default=Path(".lockref/figures"), show_default=True, help="Folder.")
@click.pass_context
def figures_command(ctx: click.Context, out: Path) -> int:
    """Compute and draw the pictures of docs/delta.md: a page, `delta.html`, and each as PNG."""
    from lockref.cli.jobs.drawing import draw_delta
    from lockref.cli.jobs.shown.console import Console

    return draw_delta(Console(ctx.obj), out)
