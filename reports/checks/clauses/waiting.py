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
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Ints, are_among
from reports.checks.facts.waits import Waits, allowances_ns


def unserved_waits(
    case: Case, bounds: Bounds, waits: Waits, *, over_ns: Ints, since_ns: Ints
) -> Iterator[tuple[int, int, int]]:
    """(wait, from, to) of every wait that was too long while no client had been told that it held the lock.

    over_ns: per operation, when it was over: its return, its process's death or the run's end.
    since_ns: per run, when waiting begins to count.
    """
    operations = case.operations
    lock = case.events.lock_key[operations.call_row]
    # A lock counts as in use while some client may believe that it holds. A slow holder is no failure of the lock's
    # progress.
    busy_until = _busy_until(case, over_ns)
    # A grant counts from its return, a call without an answer from its beginning.
    busy_from = np.where(operations.is_granted, operations.return_at_ns, operations.call_at_ns)
    busy = np.flatnonzero((operations.op == Op.ACQUIRE) & (busy_until >= 0))
    busy = busy[np.argsort(lock[busy], kind="stable")]
    allowed = allowances_ns(bounds, waits)
    # Waits of one lock with one allowance share a `_Uses`, so the uses are sorted once for each such part. One object
    # for each wait would cost waits times uses.
    order = np.lexsort((np.arange(len(allowed)), allowed, waits.group))
    changes = np.diff(waits.group[order]) != 0
    for part in np.split(order, np.flatnonzero(changes | (np.diff(allowed[order]) != 0)) + 1):
        run, group = int(waits.run[part[0]]), int(waits.group[part[0]])
        since, limit = int(since_ns[run]), int(bounds.grant_ns[run]) + int(allowed[part[0]])
        used = busy[slice(*np.searchsorted(lock[busy], (group, group + 1)).tolist())]
        uses = _Uses(used.tolist(), busy_from[used].tolist(), busy_until[used].tolist(), limit)
        for wait in part.tolist():
            begin, over = max(int(waits.begin_ns[wait]), since), int(waits.over_ns[wait])
            stretch = uses.free_stretch(int(waits.last_call[wait]), begin, over, limit)
            if stretch is not None:
                yield wait, *stretch


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
        # Exact because a call can be the owner of the longest use or not, and nothing else: two running maxima are the
        # whole state. Rejected: an interval tree, which costs n log n as well and is more code.
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
        # Candidates, not all places: the edges, the first gap that is long for everybody, and the places where the
        # call's own use was the longest. Everywhere else the gap is short for this call too, since leaving out its use
        # changes nothing.
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
    # An acquire without a definite answer may hold the lock. Until it is over it excuses others' waits, but not longer.
    unsure = is_acquire & (is_open | are_among(operations.outcome, (Outcome.AMBIGUOUS, Outcome.REJECTED)))
    until[unsure] = over_ns[unsure]
    # A grant blocks until its release or its process's death, also beyond its validity: whether a lapsed grant is taken
    # over in time is another clause's question, and one delay must not break two.
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


def over_ns_of(case: Case) -> Ints:
    """Per operation: when it was over: its return, or for an open one its node's crash or the run's end."""
    operations = case.operations
    until = case.end_ns[operations.run].copy()
    open_calls = np.flatnonzero(operations.return_row < 0)
    for call in open_calls.tolist():
        died = crash_after(case, call)
        if died is not None:
            until[call] = died
    over: Ints = np.where(operations.return_row >= 0, operations.return_at_ns, until)
    return over
