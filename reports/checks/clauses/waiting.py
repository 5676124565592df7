"""Waiting as calls alone show it: for locks whose records nobody can read (L1).

Without records there is no chain, so nobody knows what the store grants. Only
the answers to clients remain. A lock is in use from a granted return until the
return of its release, or until the death of its process. A call that ended
without an answer may have left a record for as long. In the gaps between these
uses, a client that asks must get the lock within the bound of L1. The bound has
one more validity, in which such a record lapses.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from lockref.words import Op, Outcome
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Flags, Ints


def unserved_waits(
    case: Case, asked: Flags, *, over_ns: Ints, since_ns: Ints, limit_ns: Ints
) -> Iterator[tuple[int, int, int]]:
    """(call, from, to) of every acquire that waited too long while no client had been told that it held the lock.

    asked: per operation, whether its lock is judged in this way.
    over_ns: per operation, when it was over: its return, its process's death or the run's end.
    since_ns, limit_ns: per run, when waiting begins to count and how long it may last.
    """
    operations = case.operations
    acquires = np.flatnonzero((operations.op == Op.ACQUIRE) & asked)
    if len(acquires) == 0:
        return
    lock = case.events.lock_key[operations.call_row]
    busy_until = _busy_until(case, over_ns)
    # A grant counts from its return, a call without an answer from its beginning.
    busy_from = np.where(operations.is_granted, operations.return_at_ns, operations.call_at_ns)
    order = acquires[np.argsort(lock[acquires], kind="stable")]
    for group in np.split(order, np.flatnonzero(np.diff(lock[order])) + 1):
        run = int(operations.run[group[0]])
        since, limit = int(since_ns[run]), int(limit_ns[run])
        busy = group[busy_until[group] >= 0]
        uses = _Uses(busy.tolist(), busy_from[busy].tolist(), busy_until[busy].tolist(), limit)
        for call in group.tolist():
            stretch = uses.free_stretch(call, max(int(operations.call_at_ns[call]), since), int(over_ns[call]), limit)
            if stretch is not None:
                yield call, *stretch


class _Uses:
    """The times at which one lock was in use, by whom, in the order in which they began.

    How long was the lock free for one call? That call's own use does not count. So for every place in the order two
    instants are kept: the end of the use that lasts longest so far, and the end of the one that lasts second longest.
    If the longest use is the call's own, the second one is asked. No use is looked at twice.
    """

    def __init__(self, calls: list[int], begin: list[int], end: list[int], limit: int) -> None:
        order = sorted(range(len(calls)), key=lambda one: (begin[one], end[one]))
        self._begin = [begin[one] for one in order]
        self._farthest: list[int] = []
        self._reach: list[int] = []
        self._reach_without: list[int] = []
        self._long: list[int] = []
        # By call: the places at which its use is the one that lasts longest so far.
        self._led: dict[int, list[int]] = {}
        farthest, reach, second = -1, -FOREVER, -FOREVER
        for place, one in enumerate(order):
            if place and begin[one] - reach > limit:
                self._long.append(place)
            if end[one] > reach:
                farthest, reach, second = calls[one], end[one], reach
            else:
                second = max(second, end[one])
            assert second <= reach, "the use that lasts longest ends last"
            self._farthest.append(farthest)
            self._reach.append(reach)
            self._reach_without.append(second)
            self._led.setdefault(farthest, []).append(place)

    def free_stretch(self, call: int, since: int, until: int, limit: int) -> tuple[int, int] | None:
        """The first stretch longer than `limit`, between two instants, in which nobody but `call` used the lock."""
        first, last = bisect_right(self._begin, since), bisect_right(self._begin, until)
        places = {first, last}
        place = bisect_right(self._long, first)
        if place < len(self._long) and self._long[place] < last:
            places.add(self._long[place])
        led = self._led.get(call, [])
        places.update(before + 1 for before in led[bisect_left(led, first) : bisect_left(led, last)])
        for following in sorted(places):
            free_from = max(since, self._reached(following - 1, call))
            used_from = min(until, self._begin[following]) if following < len(self._begin) else until
            if used_from - free_from > limit:
                return free_from, used_from
        return None

    def _reached(self, place: int, call: int) -> int:
        if place < 0:
            return -FOREVER
        return self._reach_without[place] if self._farthest[place] == call else self._reach[place]


def _busy_until(case: Case, over_ns: Ints) -> Ints:
    """Per operation: until when this call blocks others justifiably; -1 if it does not."""
    operations = case.operations
    until = np.full(len(operations.op), -1, dtype=np.int64)
    is_acquire = operations.op == Op.ACQUIRE
    is_open = operations.outcome == Outcome.NONE
    unsure = is_acquire & (is_open | np.isin(operations.outcome, (Outcome.AMBIGUOUS, Outcome.REJECTED)))
    until[unsure] = over_ns[unsure]
    granted = np.flatnonzero(operations.is_granted)
    until[granted] = FOREVER
    for call in granted.tolist():
        crash = crash_after(case, call)
        if crash is not None:
            until[call] = crash
    releases = np.flatnonzero(case.tenure_of_release >= 0)
    until[case.tenure_of_release[releases]] = np.minimum(
        until[case.tenure_of_release[releases]], np.where(is_open[releases], FOREVER, over_ns[releases])
    )
    return until


def crash_after(case: Case, call: int) -> int | None:
    """When the caller's node crashed after this call began; None if it did not."""
    operations = case.operations
    run, node = int(operations.run[call]), int(operations.node[call])
    crashed = case.disturbances.crashed_ns(run, node, after_row=int(operations.call_row[call]))
    return None if crashed == FOREVER else crashed
