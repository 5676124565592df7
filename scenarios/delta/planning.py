"""The number of writers: one simulation for each number, its cost, and the advice that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lockref.runtime import NS_PER_S
from lockref.words import counted
from scenarios.delta.orders import coalesced
from scenarios.delta.queueing import Commit, Fleet, Outcome, Protocol, Unfinished, simulate
from scenarios.delta.readers import cold_gets, refresh_gets

LATE_MAX = 10
"""Late versions that a row names; all of them are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The outcome of one number of writers. Seconds are virtual."""

    writers: int
    versions: int
    """Versions that landed."""
    makespan_s: float
    """From the start to the last version."""
    throughput_per_s: float
    wait_p50_s: float
    """The wait of one version, from asking for the lock to its grant; the nearest rank, a wait that occurred."""
    wait_p99_s: float
    wait_max_s: float
    waiting_s: float
    """Summed over the writers: blocked, or at work on attempts that lost."""
    wasted_share: float
    """`waiting_s` as a part of all writers' time until the last version."""
    missed_deadline: int
    """Versions that landed later than the deadline after a writer took them from the queue, or that were older than
    that and had not landed when the run ended."""
    writers_late: int
    """Writers with at least one such version."""
    never_served: int
    """Writers that asked, and of which no version landed (`Outcome.never_served`)."""
    starved: int
    """Writers that were never served, or that others overtook too often in one drought (`Outcome.starved`)."""
    drought_s: float
    """The longest time that one writer waited in vain, also until the end of the run (`Outcome.drought_ns`)."""
    failed: int
    """Versions given up after the last attempt."""
    attempts: int
    failed_polls: int
    gets: int
    checkpoints: int
    latency_p50_s: float
    """From a version's arrival in the queue to its commit."""
    latency_p99_s: float
    cold_gets: float
    """GETs of a query that knows nothing of the table (`readers.cold_gets`): the mean until the last version."""
    refresh_gets: float
    """GETs of a query each `query_every_ns`, by a reader that knows the version before (`readers.refresh_gets`)."""
    late: list[str]
    """The first late versions, in words."""
    advice: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The questions to every row of a plan.

    deadline_ns: how long a version may take, from the queue to its commit. query_every_ns: of a reader that refreshes.
    """

    deadline_ns: int
    is_closed_loop: bool
    query_every_ns: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer: a row for each number of writers, the best of them, and sentences."""

    rows: list[Row]
    best_writers: int | None
    """None: each of these numbers starves a writer."""
    advice: list[str]


def plan(fleet: Fleet, order: Sequence[str], writers: Iterable[int], asked: Asked) -> Plan:
    """Simulate the fleet at every number of writers.

    The best number starves no writer and misses the fewest versions; of those that miss equally many it ends first;
    of those that end together it has the fewest writers.
    """
    rows = [_row(replace(fleet, writers=number), order, asked) for number in writers]
    best = min(
        (row for row in rows if not row.starved),
        key=lambda row: (row.missed_deadline + row.failed, row.makespan_s, row.writers),
        default=None,
    )
    rows = [replace(row, advice=_row_advice(row, best)) for row in rows]
    if best is None:
        least = min(rows, key=lambda row: (row.starved, row.writers))
        said = [f"No number of writers among these serves every writer. {_starved(least)}", *_horizon(rows, order)]
        return Plan(rows, None, said)
    advice = list(_advice(replace(fleet, writers=best.writers), order, rows, best, asked))
    return Plan(rows, best.writers, advice)


def _row(fleet: Fleet, order: Sequence[str], asked: Asked) -> Row:
    outcome = simulate(fleet, order, is_closed_loop=asked.is_closed_loop)
    waits = sorted(commit.waited_ns for commit in outcome.commits)
    late = [
        *((commit.writer, _told(commit)) for commit in outcome.commits if commit.age_ns > asked.deadline_ns),
        *((work.writer, _told_waiting(work)) for work in outcome.unfinished if work.age_ns > asked.deadline_ns),
    ]
    makespan_ns = outcome.makespan_ns
    latencies = sorted(commit.latency_ns for commit in outcome.commits)
    landings: dict[str, list[int]] = {table: [] for table in dict.fromkeys(order)}
    for commit in outcome.commits:
        landings[commit.table].append(commit.ended_ns)
    return Row(
        writers=fleet.writers,
        versions=len(outcome.commits),
        makespan_s=makespan_ns / NS_PER_S,
        throughput_per_s=len(outcome.commits) * NS_PER_S / makespan_ns if makespan_ns else 0.0,
        wait_p50_s=nearest_rank(waits, 50) / NS_PER_S,
        wait_p99_s=nearest_rank(waits, 99) / NS_PER_S,
        wait_max_s=nearest_rank(waits, 100) / NS_PER_S,
        waiting_s=outcome.waiting_ns / NS_PER_S,
        wasted_share=_wasted_share(outcome, fleet.writers),
        missed_deadline=len(late),
        writers_late=len({writer for writer, _ in late}),
        never_served=outcome.never_served,
        starved=outcome.starved,
        drought_s=outcome.drought_ns / NS_PER_S,
        failed=outcome.failed,
        attempts=outcome.attempts,
        failed_polls=outcome.failed_polls,
        gets=outcome.gets,
        checkpoints=outcome.checkpoints,
        latency_p50_s=nearest_rank(latencies, 50) / NS_PER_S,
        latency_p99_s=nearest_rank(latencies, 99) / NS_PER_S,
        cold_gets=cold_gets(landings, first_version=fleet.first_version, until_ns=makespan_ns),
        refresh_gets=refresh_gets(
            landings, first_version=fleet.first_version, until_ns=makespan_ns, every_ns=asked.query_every_ns
        ),
        late=[told for _, told in late[:LATE_MAX]],
        advice="",
    )


def _wasted_share(outcome: Outcome, writers: int) -> float:
    return outcome.waiting_ns / (writers * outcome.makespan_ns) if outcome.makespan_ns else 0.0


def nearest_rank(values: Sequence[int], percent: int) -> int:
    """The smallest of the sorted values that at least `percent` of them do not exceed; 0 of none."""
    return values[max(0, -(-len(values) * percent // 100) - 1)] if values else 0


def _told(commit: Commit) -> str:
    return (
        f"writer {commit.writer + 1}, {commit.table} version {commit.version}: "
        f"{commit.age_ns / NS_PER_S:g} s after it was taken from the queue"
    )


def _told_waiting(work: Unfinished) -> str:
    return (
        f"writer {work.writer + 1}, {work.table}: a version was not committed at the end, "
        f"{work.age_ns / NS_PER_S:g} s after it was taken from the queue"
    )


def _starved(row: Row) -> str:
    what = "never served" if row.never_served == row.starved else "starved"
    told = f"{row.starved:,} {'is' if row.starved == 1 else 'are'} {what}"
    return f"With {counted(row.writers, 'writer')}, {told}; the longest drought is {row.drought_s:.2f} s."


def _horizon(rows: list[Row], order: Sequence[str]) -> Iterable[str]:
    """A sentence for a run that was too short to serve everybody, where "never served" says little."""
    short = [row for row in rows if row.never_served and row.writers > len(order)]
    if short:
        yield (
            f"The run ends after {counted(len(order), 'version')}, so it cannot serve {short[0].writers:,} writers: "
            "take more --versions to see who starves."
        )


def _row_advice(row: Row, best: Row | None) -> str:
    if row.starved:
        what = "never served" if row.never_served == row.starved else "starved: others overtake"
        return f"{_does(row.starved, 'writer', 'is', 'are')} {what}."
    assert best is not None, "this row starves no writer, so there is a best one"
    if row.writers == best.writers:
        return "The best of these."
    if row.failed:
        return f"{_does(row.failed, 'version', 'is', 'are')} given up: fewer writers, or more adds in one version."
    if row.missed_deadline > best.missed_deadline:
        return f"{_does(row.missed_deadline, 'version', 'misses', 'miss')} the deadline."
    if row.makespan_s > best.makespan_s and row.writers < best.writers:
        return f"{_does(best.writers, 'writer', 'ends', 'end')} {row.makespan_s - best.makespan_s:.2f} s earlier."
    if row.makespan_s > best.makespan_s:
        return f"Slower than {counted(best.writers, 'writer')}, by {row.makespan_s - best.makespan_s:.2f} s."
    best_writers = counted(best.writers, "writer")
    return f"No faster than {best_writers}, and {row.wasted_share:.0%} of the writers' time is waiting."


def _advice(fleet: Fleet, order: Sequence[str], rows: list[Row], best: Row, asked: Asked) -> Iterable[str]:
    """Sentences about the whole plan. What another choice would bring is simulated, with the best number of writers."""
    yield (
        f"Use {counted(best.writers, 'writer')}: {counted(best.versions, 'version')} in "
        f"{best.makespan_s:.2f} s, {best.throughput_per_s:.2f} per second, "
        f"{best.wasted_share:.0%} of their time waiting."
    )
    missing = [row for row in rows if row.missed_deadline]
    if best.missed_deadline:
        yield (
            f"No number of writers among these keeps the deadline of {asked.deadline_ns / NS_PER_S:g} s: "
            f"with {best.writers}, {_does(best.missed_deadline, 'version', 'misses', 'miss')} it."
        )
    elif missing:
        first = min(missing, key=lambda row: row.writers)
        late = _does(first.missed_deadline, "version", "misses", "miss")
        yield f"With {counted(first.writers, 'writer')}, {late} the deadline: {first.late[0]}."
    starving = [row for row in rows if row.starved]
    if starving:
        yield _starved(min(starving, key=lambda row: row.writers))
    yield from _horizon(rows, order)
    if asked.is_closed_loop:
        return
    tables = Counter(order)
    if fleet.protocol is Protocol.SHARED_KEY and len(tables) > 1:
        apart = replace(fleet, protocol=Protocol.LOCK, writers=len(tables))
        alone = _row(apart, order, asked)
        yield (
            f"One key for all tables makes them wait for each other; with one for each, "
            f"{apart.writers} writers need {alone.makespan_s:.2f} s."
        )
    else:
        table, versions = tables.most_common(1)[0]
        told = f"One version of a table is committed at a time: {table} has {versions:,}"
        if len(tables) == 1:
            yield f"{told}, so a second writer helps only with work that is done before."
        else:
            yield f"{told}, so writers beyond the number of tables ({len(tables)}) help only where the order is unfair."
    turns = _in_turn(order)
    if turns != list(order) and fleet.protocol is Protocol.LOCK:
        other = _row(replace(fleet, writers=len(tables)), turns, asked)
        if other.makespan_s < best.makespan_s:
            needed = counted(len(tables), "writer")
            yield f"A queue that takes the tables in turn needs {other.makespan_s:.2f} s with {needed}."
    fewer = coalesced(order, 10)
    if len(fewer) < len(order):
        other = _row(fleet, fewer, asked)
        yield (
            f"Ten of these in one version: {counted(other.versions, 'version')} in {other.makespan_s:.2f} s, "
            f"{other.missed_deadline:,} of them late, {other.gets:,} instead of {best.gets:,} GETs to load the table."
        )


def _does(number: int, noun: str, one: str, several: str) -> str:
    """`1 writer ends`, `3 writers end`. one, several: the verb."""
    return f"{counted(number, noun)} {one if number == 1 else several}"


def _in_turn(order: Sequence[str]) -> list[str]:
    """The same versions, one of each table in turn as long as it has any."""
    left = Counter(order)
    result: list[str] = []
    while len(result) < len(order):
        for table in left:
            if left[table]:
                left[table] -= 1
                result.append(table)
    return result


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells as columns for a terminal, each as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def as_text(plan: Plan) -> str:
    """The plan as a table for a terminal, and its sentences."""
    head = (
        "writers",
        "time s",
        "versions/s",
        "wait p50 s",
        "p99 s",
        "waiting s",
        "wasted",
        "late",
        "never",
        "drought s",
        "given up",
    )
    cells = [
        (
            f"{row.writers}",
            f"{row.makespan_s:.2f}",
            f"{row.throughput_per_s:.2f}",
            f"{row.wait_p50_s:.2f}",
            f"{row.wait_p99_s:.2f}",
            f"{row.waiting_s:.2f}",
            f"{row.wasted_share:.0%}",
            f"{row.missed_deadline}",
            f"{row.never_served}",
            f"{row.drought_s:.2f}",
            f"{row.failed}",
        )
        for row in plan.rows
    ]
    lines = aligned([head, *cells])
    lines = [lines[0], *(f"{line}  {row.advice}" for line, row in zip(lines[1:], plan.rows, strict=True))]
    return "\n".join([*lines, "", *plan.advice])
