"""Waiting as calls alone show it: for locks whose records nobody can read (L1).

Without records there is no chain, so nobody knows what the store grants. What
clients were told remains: a lock is in use from a granted return until the
return of its release or the death of its process, and a call that ended
without an answer may have left something until then. Between those, somebody
who asks must get it within the bound of L1, which allows one more validity
for whatever was left to lapse.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockref.history import Op
from lockref.stores.port import Outcome
from reports.checks.case import Case
from reports.checks.columns import Flags, Ints
from reports.checks.disturbances import NEVER
from reports.checks.honesty import FOREVER


def unserved_waits(
    case: Case, runs: Flags, *, over_ns: Ints, since_ns: Ints, limit_ns: Ints
) -> Iterator[tuple[int, int, int]]:
    """(call, from, to) of every acquire in `runs` that waited too long for a lock that nobody was told to have.

    over_ns: per operation, when it was over: its return, its process's death or the run's end.
    since_ns, limit_ns: per run, when waiting begins to count and how long it may last.
    """
    operations = case.operations
    acquires = np.flatnonzero((operations.op == Op.ACQUIRE) & runs[operations.run])
    if len(acquires) == 0:
        return
    lock = case.events.lock_key[operations.call_row]
    busy_until = _busy_until(case, over_ns)
    # A grant counts from its return, a call without an answer from its beginning.
    busy_from = np.where(operations.is_granted, operations.return_at_ns, operations.call_at_ns)
    busy = acquires[busy_until[acquires] >= 0]
    for call in acquires.tolist():
        run, end = int(operations.run[call]), int(over_ns[call])
        free_from = max(int(operations.call_at_ns[call]), int(since_ns[run]))
        others = busy[(lock[busy] == lock[call]) & (busy != call)]
        uses = sorted(zip(busy_from[others].tolist(), busy_until[others].tolist(), strict=True))
        for used_from, used_to in [*uses, (end, end)]:
            until = min(used_from, end)
            if until - free_from > limit_ns[run]:
                yield call, free_from, until
                break
            free_from = max(free_from, used_to)


def _busy_until(case: Case, over_ns: Ints) -> Ints:
    """Per operation: until when it keeps others out for a reason; -1 for calls that do not."""
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
    return None if crashed == NEVER else crashed
