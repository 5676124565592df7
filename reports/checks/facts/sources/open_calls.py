"""Open calls: in which calls of its process was a request sent?

What a write does to a lock is told by the record that it leaves, and where the record leaves it open, by what the
process was doing: acquiring, giving back, or neither.
"""

from __future__ import annotations

import numpy as np

from lockref.words import Kind, Op, Outcome
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Events, Flags, Ints
from reports.checks.facts.commits import calls_of_locks
from reports.checks.facts.segments import count_at_or_before, renumber


class OpenCalls:
    """The calls of all processes, for questions about the rows of their requests. It knows no grants."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._rows = calls_of_locks(events)
        self._op = events.numbers("op")[self._rows]
        back = events.index_by_request(Kind.RETURN)[events.request_keys(self._rows)]
        is_granted = (self._op == Op.ACQUIRE) & (back >= 0)
        is_granted &= events.numbers("outcome")[np.maximum(back, 0)] == Outcome.APPLIED
        self._granted_at = np.where(is_granted, back, FOREVER)
        client = self._places(self._rows, by_task=True)
        order = np.argsort(client, kind="stable")
        is_next = client[order][1:] == client[order][:-1]
        following = np.full(len(client), FOREVER, dtype=np.int64)
        following[order[:-1]] = np.where(is_next, self._rows[order[1:]], FOREVER)
        # A client that calls again has ended its earlier call, crashed or not.
        self._over_at = np.minimum(np.where(back >= 0, back, FOREVER), following)
        is_refused = (back >= 0) & (events.numbers("outcome")[np.maximum(back, 0)] == Outcome.REJECTED)
        self._leaves = (self._op == Op.RELEASE) & ~self._are_careless(np.flatnonzero(is_refused))

    def are_known(self, run: Ints) -> Flags:
        """Per run number: some call of that run is on record. On the wire there are none."""
        known: Flags = np.isin(run, self._events.run[self._rows])
        return known

    def are_open(self, op: Op, rows: Ints, *, by_task: bool = False) -> Flags:
        """Per row: its process (or its very task) had called this operation of its lock, and had no answer yet."""
        asked = self._op == op
        begun = self._count(rows, asked, self._rows, by_task=by_task)
        ended = self._count(rows, asked, self._over_at, by_task=by_task)
        is_open: Flags = begun > ended
        return is_open

    def are_acquiring(self, rows: Ints) -> Flags:
        """Per row: it may serve an acquire of its process.

        Either its own task has called, or a task that calls nothing sent it while somebody of the process waits and
        nobody there has the lock: a heartbeat goes on while another task of its process asks.
        """
        every = np.ones(len(self._op), dtype=np.bool_)
        calls_nothing = self._count(rows, every, np.zeros(len(every), dtype=np.int64), by_task=True) == 0
        entered = self._count(rows, every, self._granted_at)
        left = self._count(rows, self._leaves, self._rows)
        serves_another = calls_nothing & self.are_open(Op.ACQUIRE, rows) & (entered <= left)
        is_serving: Flags = self.are_open(Op.ACQUIRE, rows, by_task=True) | serves_another
        return is_serving

    def _are_careless(self, refused: Ints) -> Flags:
        """Per call: a release by a task that had not been granted the lock, and was refused. The holder has it still.

        refused: calls that were refused. The holder's own release is, too, where the lock was lost before it.
        """
        careless = np.zeros(len(self._op), dtype=np.bool_)
        refused = refused[self._op[refused] == Op.RELEASE]
        rows = self._rows[refused]
        every = np.ones(len(self._op), dtype=np.bool_)
        entered = self._count(rows, every, self._granted_at, by_task=True)
        # Each of these calls is among the releases up to its own row.
        careless[refused] = entered < self._count(rows, self._op == Op.RELEASE, self._rows, by_task=True)
        return careless

    def _count(self, rows: Ints, which: Flags, at: Ints, *, by_task: bool = False) -> Ints:
        """Per row: how many of these calls of its process (or task), each placed at a row, stand at or before it."""
        placed = which & (at < FOREVER)
        place = self._places(np.concatenate((self._rows[placed], rows)), by_task=by_task)
        split = int(np.count_nonzero(placed))
        return count_at_or_before(
            known_group=place[:split],
            known_row=at[placed],
            asked_group=place[split:],
            asked_row=rows,
            row_count=self._events.count,
        )

    def _places(self, rows: Ints, *, by_task: bool) -> Ints:
        """Equal numbers for rows of one lock and process, or task."""
        events = self._events
        columns = [events.lock_key[rows], events.codes("node")[rows].astype(np.int64)]
        if by_task:
            columns.append(events.codes("task")[rows].astype(np.int64))
        return renumber(*columns)[0]
