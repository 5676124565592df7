"""A queue: a lock belongs to the waiter with the lowest number among those that are still there.

A live row of such a lock is one waiter that joined: its owner, and its number as the token. A released or deleted row
takes waiters out: the one with that owner and number, all of that owner if it names no number, whoever has that number
if it names no owner, everybody if it names neither. Whenever the lowest waiter is another than before, the grant of
the former has ended and the new one's has begun, by the row that changed the queue: nobody writes for a new owner that
its turn has come.

Prior art: the lock recipe of Apache ZooKeeper (ephemeral sequential nodes), which Curator and Kazoo implement.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from lockref.words import ABSENT, Op
from reports.checks.disturbances import find_disturbances
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Runs
from reports.checks.facts.sources.grants import DELETED, LIVE, QUEUED, RELEASED, Grants, grants_of, plain_changes
from reports.checks.facts.sources.sessions import landed_writes, session_end_ns

_Waiter = tuple[int, int]
"""A waiter: its number, and the position of the write by which it joined."""


@dataclass(frozen=True)
class WaitingQueue:
    """The grants of locks that belong to the first of a queue. locks: per lock key, it is one of them."""

    locks: Flags

    def grants(self, events: Events, runs: Runs) -> Grants:
        """See `GrantSource`. Cost: n log n in the rows of these locks, one at a time."""
        writes = landed_writes(events, runs, self.locks)
        group, node = events.lock_key[writes.row], events.codes("node")[writes.row]
        owner, token = events.codes("owner")[writes.row], events.integers("token")[writes.row]
        op = events.numbers("op")[writes.row]
        is_live = (owner != NO_TEXT) & (op != Op.RELEASE) & (op != Op.DELETE) & (token != ABSENT)
        # One entry per change: the write that made it, the write by which its owner had joined, what is left behind.
        made: list[tuple[int, int, int]] = []
        queue, lock = _Queue(), -1
        for place in range(len(writes.row)):
            if int(group[place]) != lock:
                queue, lock = _Queue(), int(group[place])
            before = queue.lowest
            if is_live[place]:
                queue.join(int(token[place]), place, int(owner[place]))
            else:
                queue.leave(int(token[place]), int(owner[place]))
            after = queue.lowest
            if before != after:
                if before is not None:
                    own_hand = node[place] == node[before[1]]
                    made.append((place, before[1], RELEASED if own_hand else DELETED))
                if after is not None:
                    made.append((place, after[1], LIVE))
        by, joined, state = (np.array([entry[part] for entry in made], dtype=np.int64) for part in range(3))
        row = writes.row[by]
        # Nobody has the lock before it has joined, and a join may take effect later than the row that left it the lock.
        # Writes come in the order of at_lo_ns, so the earliest time needs no such care.
        joined_hi_ns = np.where(state == LIVE, writes.at_hi_ns[joined], ABSENT)
        changes = plain_changes(
            events,
            row=row,
            sent_row=np.where(state == LIVE, writes.sent_row[joined], writes.sent_row[by]),
            at_lo_ns=writes.at_lo_ns[by],
            at_hi_ns=np.maximum(joined_hi_ns, writes.at_hi_ns[by]),
            node=np.where(state == LIVE, node[joined], node[by]),
            owner=owner[joined],
            token=token[joined],
            version=writes.version[by],
            valid_until_true_ns=session_end_ns(
                runs, find_disturbances(events), run=events.run[row], node=node[joined], row=writes.row[joined]
            ),
            state=state.astype(np.uint8),
            source=QUEUED,
        )
        return grants_of(events, changes)


@dataclass
class _Queue:
    """The waiters for one lock. A waiter that has left stays in the heap until it would be the lowest."""

    _heap: list[_Waiter] = field(default_factory=list)
    # Number to the position of the write by which a waiter joined, and its owner.
    _there: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def lowest(self) -> _Waiter | None:
        while self._heap and self._there.get(self._heap[0][0], (-1, -1))[0] != self._heap[0][1]:
            heapq.heappop(self._heap)
        assert bool(self._heap) == bool(self._there), "who waits is in the heap"
        return self._heap[0] if self._heap else None

    def join(self, number: int, place: int, owner: int) -> None:
        """Add a waiter. If one has this number already, it has only written its own entry again."""
        if number not in self._there:
            self._there[number] = place, owner
            heapq.heappush(self._heap, (number, place))

    def leave(self, number: int, owner: int) -> None:
        """Take out the waiters that this row means: see the head of the module."""
        meant = [number] if number != ABSENT else list(self._there)
        for one in meant:
            if one in self._there and owner in (NO_TEXT, self._there[one][1]):
                del self._there[one]
