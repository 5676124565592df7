"""`lockref delta`: how many writers, which queue, how many adds in a version; the figures of Delta's commits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource

from lockref.cli.options import WRITER_RANGE, duration_ns

CLOSED_LOOP = "closed-loop"
PROTOCOLS = click.Choice(["lock", "shared-key", "rename-only", "optimistic"])


@click.group(name="delta")
def command() -> None:
    """Delta Lake's commits under one lock per table, as numbers."""


@command.command(name="plan")
@click.option("--tables", type=click.IntRange(1, 1_000), default=3, show_default=True)
@click.option("--versions", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Of each table.")
@click.option("--writers", type=WRITER_RANGE, default="1..20", show_default=True, help="One row for each number.")
@click.option("--commit", default="1s", show_default=True, metavar="DURATION", help="One commit under the lock.")
@click.option("--from-run", metavar="RUN", help="Times under the lock from a run, instead of --commit.")
@click.option("--deadline", default="10s", show_default=True, metavar="DURATION", help="From the queue to the commit.")
@click.option("--order", default="fair", show_default=True, metavar="fair|unfair|closed-loop|FILE", help="The queue.")
@click.option("--coalesce", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="Versions made one.")
@click.option(
    "--protocol", type=PROTOCOLS, default="lock", show_default=True, help="rename-only: load before the lock."
)
@click.option("--poll", metavar="DURATION", help="Attempts of who waits; default: waiters queue.")
@click.option("--gap", metavar="DURATION", help="From the end of a commit until the lock is free; default none.")
@click.option("--get", metavar="DURATION", help="One GET of loading the table, under the lock; default none.")
@click.option("--think", metavar="DURATION", help="Work on a version before the lock; default none.")
@click.option("--from-version", type=click.IntRange(0, 1_000_000), default=0, show_default=True, help="Of every table.")
@click.option(
    "--attempts",
    type=click.IntRange(0),
    default=16,
    show_default=True,
    help="Of a version whose load is not under the lock; 0: no bound.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of poll phases and think times.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def plan_command(
    ctx: click.Context,
    tables: int,
    versions: int,
    writers: range,
    commit: str,
    from_run: str | None,
    deadline: str,
    order: str,
    coalesce: int,
    protocol: str,
    poll: str | None,
    gap: str | None,
    get: str | None,
    think: str | None,
    from_version: int,
    attempts: int,
    seed: int,
    as_json: bool,
) -> int:
    """Simulate writers that share a queue of versions: throughput, waits, missed deadlines, wasted time.

    \b
    lockref delta plan --tables 3 --versions 100 --writers 1..20 --commit 1s --deadline 10s
    lockref delta plan --order queue.txt --writers 3         # queue.txt: 1n 2n 3n 1a 1c

    With `closed-loop` each writer has always another version for its table. A FILE says tables and versions itself.
    """
    from lockref.cli.console import Console
    from scenarios.delta.orders import coalesced, named_order
    from scenarios.delta.planning import as_text, plan
    from scenarios.delta.queueing import Fleet, Grants, Protocol

    if from_run:
        if ctx.get_parameter_source("commit") is not ParameterSource.DEFAULT:
            raise click.UsageError("--from-run takes the times of commits from the run; leave --commit away")
        from scenarios.delta.measured import hold_times_ns

        commit_ns = hold_times_ns(from_run)
    else:
        commit_ns = (duration_ns(commit, "--commit"),)

    def optional_ns(text: str | None, option: str) -> int:
        return duration_ns(text, option) if text else 0

    is_closed_loop = order == CLOSED_LOOP
    queue = named_order("fair" if is_closed_loop else order, tables=tables, versions=versions)
    poll_ns = optional_ns(poll, "--poll")
    fleet = Fleet(
        writers=1,
        commit_ns=commit_ns,
        get_ns=optional_ns(get, "--get"),
        gap_ns=optional_ns(gap, "--gap"),
        think_ns=optional_ns(think, "--think"),
        is_think_random=is_closed_loop,
        protocol=Protocol(protocol),
        grants=Grants.POLLING if poll_ns else Grants.FIRST,
        poll_ns=poll_ns,
        are_phases_random=bool(poll_ns),
        attempts=attempts or None,
        first_version=from_version,
        seed=seed,
    )
    deadline_ns = duration_ns(deadline, "--deadline")
    answer = plan(fleet, coalesced(queue, coalesce), writers, deadline_ns=deadline_ns, is_closed_loop=is_closed_loop)
    console = Console(ctx.obj, as_json=as_json)
    console.say(as_text(answer))
    if as_json:
        console.document(asdict(answer))
    return 0


@command.command(name="figures")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path(".lockref/figures"))
@click.pass_context
def figures_command(ctx: click.Context, out: Path) -> int:
    """Compute and draw the pictures of docs/delta.md: a page, `delta.html`, and each as PNG."""
    from markupsafe import Markup

    from lockref.cli.console import Console
    from reports.figures.delta import line_chart
    from reports.html.pictures import DrawnPicture, write_page
    from scenarios.delta.pictures import pictures

    drawn = []
    for picture in pictures():
        lines = {series.label: series.points for series in picture.series}
        svg, png = line_chart(lines, across=picture.across, up=picture.up, limit=picture.limit, is_log=picture.is_log)
        drawn.append(DrawnPicture(picture.name, picture.title, picture.caption, svg, png, picture.head, picture.rows))
    title = "Delta Lake's commits under one lock per table"
    origin = Markup(
        "Simulated in virtual time by <code>lockref delta figures</code>. <code>lockref delta plan</code> answers for "
        "other numbers."
    )
    Console(ctx.obj).say(f"page  {write_page(drawn, out, name='delta', title=title, origin=origin)}")
    return 0
