"""The number of workers that own the queues of tables, beside writers under locks with the same work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lockref.runtime import NS_PER_S
from lockref.words import counted
from scenarios.delta.planning import Asked, Plan, Row, aligned, nearest_rank
from scenarios.delta.readers import cold_gets, refresh_gets
from scenarios.delta.table_queues import QueueFleet, simulate_queues

NS_PER_H = 3_600 * NS_PER_S


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRow:
    """The outcome of one number of workers. Seconds are virtual. An item is what a writer commits as one version."""

    workers: int
    items: int
    """Items that landed."""
    versions: int
    makespan_s: float
    versions_per_h: float
    latency_p50_s: float
    """From an item's arrival in the queue to the version that has it; the nearest rank."""
    latency_p99_s: float
    latency_max_s: float
    missed_deadline: int
    """Items whose latency is above the deadline, or that were older than that and had not landed at the end."""
    idle_share: float
    """The part of all workers' time in which they neither committed nor looked into the log."""
    crashes: int
    redelivered: int
    """Deliveries after an item's first one."""
    repeats: int
    """Redelivered items that had landed and were dropped (`QueueOutcome.repeats`)."""
    overdue: int
    """Items that were deleted too late: their commit took longer than the visibility timeout."""
    gets: int
    """GETs of the workers: a new owner's load, and looks into the log for repeats."""
    cold_gets: float
    refresh_gets: float
    """As in a plan's `Row`."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The answer for queues: a row for each number of workers, the best of them, and sentences."""

    rows: list[QueueRow]
    best_workers: int
    advice: list[str]


def plan_queues(
    fleet: QueueFleet, order: Sequence[str], workers: Iterable[int], beside: Plan, asked: Asked
) -> QueuePlan:
    """Simulate the fleet at every number of workers.

    order: the table of each item. beside: the plan of writers under locks with the same items, to compare with. In a
    closed loop there are as many writers as its last row has: a queue serves them all.

    The best number of workers misses the fewest deadlines; of those that miss equally many it has the smallest p99 of
    latency; of equal ones it is the smallest.
    """
    locked = _compared(beside, asked)
    if asked.is_closed_loop:
        fleet = replace(fleet, writers=locked.writers)
    rows = [_row(replace(fleet, workers=number), order, asked) for number in workers]
    best = min(rows, key=lambda row: (row.missed_deadline, row.latency_p99_s, row.workers))
    return QueuePlan(rows, best.workers, list(_advice(fleet, rows, best, locked, asked, len(set(order)))))


def _compared(beside: Plan, asked: Asked) -> Row:
    """The row of writers under locks that queues are compared with: the best, or all writers of a closed loop."""
    if asked.is_closed_loop:
        return beside.rows[-1]
    return next((row for row in beside.rows if row.writers == beside.best_writers), beside.rows[-1])


def _row(fleet: QueueFleet, order: Sequence[str], asked: Asked) -> QueueRow:
    outcome = simulate_queues(fleet, order, is_closed_loop=asked.is_closed_loop)
    end_ns = outcome.makespan_ns
    landed = [item for item in outcome.items if item.landed_ns is not None]
    latencies = sorted(item.age_ns(end_ns) for item in landed)
    return QueueRow(
        workers=fleet.workers,
        items=len(landed),
        versions=outcome.versions,
        makespan_s=end_ns / NS_PER_S,
        versions_per_h=outcome.versions * NS_PER_H / end_ns if end_ns else 0.0,
        latency_p50_s=nearest_rank(latencies, 50) / NS_PER_S,
        latency_p99_s=nearest_rank(latencies, 99) / NS_PER_S,
        latency_max_s=nearest_rank(latencies, 100) / NS_PER_S,
        missed_deadline=sum(item.age_ns(end_ns) > asked.deadline_ns for item in outcome.items),
        idle_share=max(0.0, 1 - outcome.busy_ns / (fleet.workers * end_ns)) if end_ns else 0.0,
        crashes=outcome.crashes,
        redelivered=outcome.redelivered,
        repeats=outcome.repeats,
        overdue=outcome.overdue,
        gets=outcome.gets,
        cold_gets=cold_gets(outcome.landings, first_version=fleet.first_version, until_ns=end_ns),
        refresh_gets=refresh_gets(
            outcome.landings, first_version=fleet.first_version, until_ns=end_ns, every_ns=asked.query_every_ns
        ),
    )


def _advice(
    fleet: QueueFleet, rows: list[QueueRow], best: QueueRow, locked: Row, asked: Asked, tables: int
) -> Iterable[str]:
    yield (
        f"With a queue for each table, use {counted(best.workers, 'worker')}: {counted(best.items, 'item')} in "
        f"{counted(best.versions, 'version')}, {best.versions_per_h:,.0f} an hour; half of the items land within "
        f"{best.latency_p50_s:.2f} s, 99% within {best.latency_p99_s:.2f} s."
    )
    yield (
        f"Under locks, without crashes, {counted(locked.writers, 'writer')}: {counted(locked.versions, 'version')}, "
        f"{counted(locked.starved, 'writer')} starved; half of them land "
        f"within {locked.latency_p50_s:.2f} s of their arrival, 99% within {locked.latency_p99_s:.2f} s."
    )
    yield (
        f"A reader that refreshes reads {best.refresh_gets:.1f} log objects in a query instead of "
        f"{locked.refresh_gets:.1f}; one that knows nothing reads {best.cold_gets:.1f} instead of "
        f"{locked.cold_gets:.1f}."
    )
    if best.missed_deadline:
        yield (
            f"No number of workers among these keeps the deadline of {asked.deadline_ns / NS_PER_S:g} s: with "
            f"{best.workers}, {counted(best.missed_deadline, 'item')} landed too late."
        )
    if max(row.workers for row in rows) > tables:
        yield f"One worker at a time owns a queue, so workers beyond the number of tables ({tables}) stand by."
    if best.overdue:
        yield (
            f"{counted(best.overdue, 'deletion')} came after the visibility timeout of "
            f"{fleet.visibility_ns / NS_PER_S:g} s, so the items were delivered again: a timeout has to be longer than "
            "a commit."
        )
    if best.redelivered:
        yield (
            f"{counted(best.redelivered, 'item')} came again; {best.repeats:,} of them had landed and would be in the "
            "table twice if the log did not tell the position of the newest item."
        )


def as_text(plan: QueuePlan) -> str:
    """The plan as a table for a terminal, and its sentences."""
    head = (
        "workers", "time s", "items", "versions", "versions/h", "latency p50 s", "p99 s", "late", "redelivered",
        "repeats", "idle", "GETs/refresh", "GETs/cold query",
    )  # fmt: skip
    cells = [
        (
            f"{row.workers}", f"{row.makespan_s:.2f}", f"{row.items}", f"{row.versions}", f"{row.versions_per_h:.0f}",
            f"{row.latency_p50_s:.2f}", f"{row.latency_p99_s:.2f}", f"{row.missed_deadline}", f"{row.redelivered}",
            f"{row.repeats}", f"{row.idle_share:.0%}", f"{row.refresh_gets:.1f}", f"{row.cold_gets:.1f}",
        )
        for row in plan.rows
    ]  # fmt: skip
    return "\n".join([*aligned([head, *cells]), "", *plan.advice])
