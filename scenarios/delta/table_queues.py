"""Workers that own the queues of tables: a discrete simulation beside that of writers under locks (`queueing`).

Writers only enqueue. Each table has a queue, first in first out, and one worker at a time owns it by a lease. The owner
takes up to `batch` items, or what has come once the oldest has waited for `linger_ns`, commits them as one version, and
deletes them from the queue. A worker with several tables serves the one whose oldest item has waited longest.

An item that was taken is invisible for `visibility_ns`. If it is not deleted by then, it is delivered again: the queue
promises at least once. Nothing behind it is delivered before, as in a message group of an SQS FIFO queue, and a
deletion that comes after the timeout is refused. Each version tells the position of the newest item that it holds
(Delta's action `txn`: appId for the queue, version for the position). So an owner knows of every item that it is given
whether it landed, and drops the repeat: exactly once for each table.

A worker may die in a commit, before or after the version landed. Its leases end after `lease_ns`; the next owner begins
without knowing the table.

Sources: Buoyant Data's post, "Coalesce is more"; Amazon SQS, "Visibility timeout", "FIFO queues" and `DeleteMessage`;
the Delta protocol, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from scenarios.delta.loading import gets
from sim.kernel.streams import stream


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueFleet:
    """The workers, their queues, and the writers that fill these. Times are nanoseconds."""

    workers: int
    commit_ns: tuple[int, ...]
    """The time of a commit without loading. Of several, measured ones, each commit draws one."""
    writers: int = 1
    """The writers of a closed loop: each has one item in a queue, and enqueues its next one when that is deleted."""
    think_ns: int = 0
    """Mean of a writer's time from there to its next item, exponentially distributed. Of a closed loop."""
    every_ns: int = 0
    """Without a closed loop: from one item's arrival to that of the next one. 0: all are there at the start."""
    get_ns: int = 0
    """One GetObject: a new owner loads the table, and looks into the log for items that are delivered again."""
    batch: int = 100
    """Most items of one version."""
    linger_ns: int = 0
    """Longest time that an item waits for others before a worker takes a batch that is not full."""
    visibility_ns: int = 30_000_000_000
    lease_ns: int = 20_000_000_000
    """The lease of the lock by which a worker owns a table's queue."""
    crash_share: float = 0.0
    """The probability that a worker crashes in a commit."""
    first_version: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        assert min(self.workers, self.writers, self.batch) >= 1, "a fleet without workers, writers or items"
        assert self.commit_ns, "no commit time"
        assert self.visibility_ns > self.get_ns, "each repeat would be delivered again while it is looked up"
        assert 0 <= self.crash_share < 1, "with a share of 1 nothing is ever committed"


@dataclass(frozen=True, slots=True)
class Item:
    """One item that landed, or that waits at the end. Times are nanoseconds since the start."""

    table: str
    arrived_ns: int
    landed_ns: int | None

    def age_ns(self, end_ns: int) -> int:
        """The age that a deadline is compared with: from the arrival until it landed, or until the end of the run."""
        return (end_ns if self.landed_ns is None else self.landed_ns) - self.arrived_ns


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """The fate of the items."""

    items: list[Item]
    landings: dict[str, list[int]]
    """By table, when its versions landed."""
    busy_ns: int
    """Summed over the workers: commits, loads and looks into the log."""
    gets: int
    crashes: int
    redelivered: int
    """Deliveries after the first one."""
    repeats: int
    """Redeliveries of items that had landed: without `txn` each would be in the table twice."""
    overdue: int
    """Items whose deletion came after their visibility timeout."""

    @property
    def makespan_ns(self) -> int:
        """When the last version landed."""
        return max((instants[-1] for instants in self.landings.values() if instants), default=0)

    @property
    def versions(self) -> int:
        return sum(map(len, self.landings.values()))


@dataclass(slots=True)
class _Item:
    arrived_ns: int
    writer: int
    landed_ns: int | None = None
    deliveries: int = 0


@dataclass(slots=True)
class _Table:
    name: str
    owner: int
    waiting: list[_Item] = field(default_factory=list)
    """First in, first out; an item stays until it is deleted."""
    blocked_until_ns: int = 0
    """Items are in flight, or nobody owns the queue, until then."""
    is_known: bool = False
    """The owner has loaded the table, and nobody else commits to it."""
    landed_ns: list[int] = field(default_factory=list)


class _Arrival(NamedTuple):
    table: _Table
    writer: int


@dataclass(slots=True)
class _Commit:
    table: _Table
    batch: list[_Item]
    taken_ns: int
    has_crashed: bool
    lands: bool


_ARRIVAL, _DONE, _LOOK = range(3)
"""Kinds of events, in their order at one instant."""


class _Simulation:
    def __init__(self, fleet: QueueFleet, order: Sequence[str], *, is_closed_loop: bool) -> None:
        self._fleet = fleet
        self._is_closed_loop = is_closed_loop
        self._goal = len(order)
        names = list(dict.fromkeys(order))
        self._tables = {name: _Table(name, number % fleet.workers) for number, name in enumerate(names)}
        self._items: dict[str, list[_Item]] = {name: [] for name in names}
        self._events: list[tuple[int, int, int, object]] = []
        self._sequence = 0
        self._is_busy = [False] * fleet.workers
        self._looks_at_ns = [-1] * fleet.workers
        """When each worker looks next at an instant that has come: one look is enough for all arrivals of it."""
        self._draw_commit = stream(fleet.seed, "delta/queue/commit")
        self._draw_think = stream(fleet.seed, "delta/queue/think")
        self._draw_crash = stream(fleet.seed, "delta/queue/death")
        self._landed = self._busy_ns = self._gets = 0
        self._crashes = self._redelivered = self._repeats = self._overdue = 0
        if is_closed_loop:
            for writer in range(fleet.writers):
                self._at(self._think_ns(), _ARRIVAL, _Arrival(self._tables[names[writer % len(names)]], writer))
        else:
            for number, name in enumerate(order):
                self._at(number * fleet.every_ns, _ARRIVAL, _Arrival(self._tables[name], number))

    def run(self) -> QueueOutcome:
        now_ns = 0
        while self._events and self._landed < self._goal:
            now_ns, kind, _, what = heappop(self._events)
            if kind == _ARRIVAL:
                assert isinstance(what, _Arrival), "only items arrive"
                self._arrive(what, now_ns)
            elif kind == _DONE:
                assert isinstance(what, _Commit), "only commits are done"
                self._done(what, now_ns)
            else:
                assert isinstance(what, int), "a worker looks"
                self._look(what, now_ns)
        return QueueOutcome(
            [Item(name, item.arrived_ns, item.landed_ns) for name, items in self._items.items() for item in items],
            {name: table.landed_ns for name, table in self._tables.items()},
            self._busy_ns,
            self._gets,
            self._crashes,
            self._redelivered,
            self._repeats,
            self._overdue,
        )

    def _at(self, when_ns: int, kind: int, what: object) -> None:
        self._sequence += 1
        heappush(self._events, (when_ns, kind, self._sequence, what))

    def _think_ns(self) -> int:
        mean_ns = self._fleet.think_ns
        return round(self._draw_think.expovariate(1 / mean_ns)) if mean_ns else 0

    def _arrive(self, arrival: _Arrival, now_ns: int) -> None:
        table = arrival.table
        item = _Item(now_ns, arrival.writer)
        table.waiting.append(item)
        self._items[table.name].append(item)
        # After all arrivals of this instant: whoever looks sees them together.
        if self._looks_at_ns[table.owner] != now_ns:
            self._looks_at_ns[table.owner] = now_ns
            self._at(now_ns, _LOOK, table.owner)

    def _due_ns(self, table: _Table, now_ns: int) -> int | None:
        """From when the owner may take a batch of this table; None while it is empty."""
        if not table.waiting:
            return None
        oldest = table.waiting[0]
        # A repeat waits for nobody: its batch was full, or had waited, when it was taken first.
        is_ready = len(table.waiting) >= self._fleet.batch or oldest.deliveries > 0
        return max(table.blocked_until_ns, now_ns if is_ready else oldest.arrived_ns + self._fleet.linger_ns)

    def _look(self, worker: int, now_ns: int) -> None:
        """The worker looks at its queues: it takes a batch, or comes back when one may be taken."""
        if self._is_busy[worker]:
            return
        due = [
            (when_ns, table.waiting[0].arrived_ns, number, table)
            for number, table in enumerate(self._tables.values())
            if table.owner == worker and (when_ns := self._due_ns(table, now_ns)) is not None
        ]
        ready = [each for each in due if each[0] <= now_ns]
        if ready:
            self._take(min(ready, key=lambda each: each[1:3])[3], now_ns)
        elif due:
            self._at(min(due)[0], _LOOK, worker)

    def _take(self, table: _Table, now_ns: int) -> None:
        """Receive a batch, load what the owner does not know, and begin the commit."""
        fleet = self._fleet
        batch = table.waiting[: fleet.batch]
        again = [item for item in batch if item.deliveries]
        for item in batch:
            item.deliveries += 1
        self._redelivered += len(again)
        self._repeats += sum(item.landed_ns is not None for item in again)
        reads = 1 if again else 0
        if not table.is_known:
            reads += gets(fleet.first_version + len(table.landed_ns))
        table.is_known = True
        self._gets += reads
        lasts_ns = reads * fleet.get_ns
        is_new = any(item.landed_ns is None for item in batch)
        if is_new:
            times = fleet.commit_ns
            lasts_ns += times[0] if len(times) == 1 else self._draw_commit.choice(times)
        has_crashed = is_new and fleet.crash_share > 0 and self._draw_crash.random() < fleet.crash_share
        lands = is_new and (not has_crashed or self._draw_crash.random() < 0.5)
        if has_crashed and not lands:
            lasts_ns = round(lasts_ns * self._draw_crash.random())
        table.blocked_until_ns = now_ns + fleet.visibility_ns
        self._is_busy[table.owner] = True
        self._busy_ns += lasts_ns
        self._at(now_ns + lasts_ns, _DONE, _Commit(table, batch, now_ns, has_crashed, lands))

    def _done(self, commit: _Commit, now_ns: int) -> None:
        fleet, table = self._fleet, commit.table
        if commit.lands:
            table.landed_ns.append(now_ns)
            for item in commit.batch:
                if item.landed_ns is None:
                    item.landed_ns = now_ns
                    self._landed += 1
        if commit.has_crashed:
            self._crashed(table, commit.taken_ns, now_ns)
        elif now_ns - commit.taken_ns < fleet.visibility_ns:
            del table.waiting[: len(commit.batch)]
            table.blocked_until_ns = now_ns
            if self._is_closed_loop:
                for item in commit.batch:
                    self._at(now_ns + self._think_ns(), _ARRIVAL, _Arrival(table, item.writer))
        else:
            self._overdue += len(commit.batch)
        self._is_busy[table.owner] = False
        self._at(now_ns, _LOOK, table.owner)

    def _crashed(self, table: _Table, taken_ns: int, now_ns: int) -> None:
        """A process in the place of the crashed one owns its tables after the leases, and knows none of them."""
        fleet = self._fleet
        self._crashes += 1
        for each in self._tables.values():
            if each.owner == table.owner:
                each.is_known = False
                each.blocked_until_ns = max(each.blocked_until_ns, now_ns + fleet.lease_ns)
        table.blocked_until_ns = max(table.blocked_until_ns, taken_ns + fleet.visibility_ns)


def simulate_queues(fleet: QueueFleet, order: Sequence[str], *, is_closed_loop: bool = False) -> QueueOutcome:
    """Let the workers commit the items: the table of each, in the order of their arrival.

    is_closed_loop: every writer has one item under way, for a table that is its own, and the run ends after as many
    items as `order` is long. A worker beyond the number of tables owns none.
    """
    return _Simulation(fleet, order, is_closed_loop=is_closed_loop).run()
