"""Hand-offs: the time until a waiting client is granted the lock that a holder gave up.

After a release the clock starts when the release took effect and stops when a
client that was waiting then is granted the lock. A client that was not waiting
may come between, most often the holder itself, once more; it does not stop the
clock. Counted from grant to next grant instead, a lock that starves its
waiters would show only the rare hand-offs that succeeded, and those are the
quick ones.

A holder that does not release is followed by whoever comes first. After an
expiry the clock starts at the end of the promised validity, after a death at
the crash, and never before the successor asked: a lock that nobody wants has
no hand-off. A successor may come before the promise ended (S5 judges that);
then the figure is negative.

A release whose waiters were all still waiting at the end of the record has no
figure. L1 and L3 judge whether they waited too long.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Flags, Ints
from reports.checks.facts.segments import last_at_or_before, renumber, suspicious_groups
from reports.checks.facts.sources.grants import END_DELETED, END_TAKEN_OVER, given_back
from reports.checks.facts.surroundings.host import HANDOVER_SPANS, TURN_SPANS, host_lateness_ns
from reports.checks.facts.tables import text_column

AFTER = ("release", "expiry", "death")
"""What ended the grant before."""


def handoffs_table(case: Case) -> pa.Table:
    """One row per hand-off: `after` (one of AFTER), `at_ns` when it was over, `handoff_ns`, and who was served.

    `late_ns`: how much of it the lateness of the machine may be: in the hand-over, in the watch of a record that nobody
    gave back, and in the turns of those who came between.
    """
    events, grants, operations = case.events, case.truth.grants, case.operations
    call = case.call_of_grant
    known = call >= 0
    asked_ns = np.full(len(call), ABSENT, dtype=np.int64)
    asked_ns[known] = operations.call_at_ns[call[known]]

    released = given_back(grants)
    winner = np.where(released, _first_waiter(case, released, asked_ns), grants.next_same_lock)
    crash_ns = _crash_in_tenure(case)
    # A lock that is held by a session is not taken over by another client: the service ends the grant with the session.
    is_lost = (grants.end_kind == END_TAKEN_OVER) | ((grants.end_kind == END_DELETED) & ~grants.lapses & ~released)
    is_death = is_lost & (crash_ns != ABSENT)
    is_expiry = (grants.end_kind == END_TAKEN_OVER) & ~is_death & (grants.valid_until_true_ns != ABSENT)
    which = np.flatnonzero((winner >= 0) & (released | is_death | is_expiry))
    which = which[asked_ns[winner[which]] != ABSENT]

    assert bool(np.all(grants.group[winner[which]] == grants.group[which])), "a hand-off stays within its lock"
    winner, served_ns = winner[which], grants.begin_hi_ns[winner[which]]
    free_ns = np.where(is_death, crash_ns, np.where(is_expiry, grants.valid_until_true_ns, grants.end_hi_ns))[which]
    took_ns = served_ns - np.maximum(free_ns, asked_ns[winner])
    # An acquirer may have its answer before the releaser has: both are on the way at once.
    took_ns = np.where(released[which], np.maximum(took_ns, 0), took_ns)
    after = np.where(released, 0, np.where(is_expiry, 1, 2))[which]
    grant_late_ns = case.once(host_lateness_ns)[grants.run[which]]
    between = grants.ordinal[winner] - grants.ordinal[which] - 1
    spans = HANDOVER_SPANS + TURN_SPANS * between + ~released[which]
    columns: dict[str, Any] = {
        "run": pa.array(case.runs.number[grants.run[which]]),
        "lock": text_column(events, "lock", grants.lock[which]),
        "ordinal": pa.array(grants.ordinal[winner]),
        "node": text_column(events, "node", grants.node[winner]),
        "after": pa.DictionaryArray.from_arrays(pa.array(after.astype(np.int32)), pa.array(AFTER)),
        "at_ns": pa.array(served_ns),
        "handoff_ns": pa.array(took_ns),
        "late_ns": pa.array(grant_late_ns * spans),
    }
    return pa.table(columns)


def _first_waiter(case: Case, is_released: Flags, asked_ns: Ints) -> Ints:
    """Per grant that was released: the first later grant of its lock to a call begun by then, or -1.

    is_released: as of `given_back`. asked_ns: per grant, when its call began; ABSENT where unknown.
    """
    grants = case.truth.grants
    found = np.full(len(asked_ns), -1, dtype=np.int64)
    following = grants.next_same_lock
    if len(found) == 0:
        return found
    # Mostly the next one had waited.
    next_asked = np.where(following >= 0, asked_ns[np.maximum(following, 0)], ABSENT)
    is_next = is_released & (next_asked != ABSENT) & (next_asked <= grants.end_hi_ns)
    found[is_next] = following[is_next]
    for rows in suspicious_groups(grants.group, is_released & ~is_next & (following >= 0)):
        asked = asked_ns[rows]
        # Or nobody had: not even the earliest of all that came later.
        earliest = np.minimum.accumulate(np.where(asked == ABSENT, FOREVER, asked)[::-1])[::-1][1:]
        open_still = is_released[rows][:-1] & ~is_next[rows][:-1] & (earliest <= grants.end_hi_ns[rows][:-1])
        if open_still.any():
            found[rows] = _nearest_waiter(is_released[rows], asked, grants.end_hi_ns[rows], first=rows.start)
    return found


def _nearest_waiter(is_released: Flags, asked_ns: Ints, free_ns: Ints, *, first: int) -> Ints:
    """As `_first_waiter`, for the grants of one lock, which begin at the position `first`."""
    found = np.full(len(asked_ns), -1, dtype=np.int64)
    released, asked, free = is_released.tolist(), asked_ns.tolist(), free_ns.tolist()
    # Grants are visited from the last to the first. `places` holds later grants that may be the answer, the nearest
    # one last: a grant stays only while no nearer one asked as early as it did. So `asks` ascends.
    places: list[int] = []
    asks: list[int] = []
    for grant in range(len(released) - 1, -1, -1):
        later = grant + 1
        if later < len(released) and asked[later] != ABSENT:
            while asks and asks[-1] >= asked[later]:
                del asks[-1], places[-1]
            assert not asks or asks[-1] < asked[later], "`asks` ascends"
            places.append(later)
            asks.append(asked[later])
        if released[grant]:
            nearest = bisect_right(asks, free[grant])
            if nearest:
                found[grant] = first + places[nearest - 1]
    return found


def _crash_in_tenure(case: Case) -> Ints:
    """Per grant, when its holder's node crashed before the next write of the lock; ABSENT if it did not."""
    grants, disturbances, truth = case.truth.grants, case.disturbances, case.truth
    crash_ns = np.full(len(grants.run), ABSENT, dtype=np.int64)
    crashed = np.flatnonzero(disturbances.are(frozenset({"crash"}), "begin", "fired"))
    ended = np.flatnonzero(grants.end >= 0)
    if len(crashed) == 0 or len(ended) == 0:
        return crash_ns
    node, _ = renumber(
        np.concatenate((disturbances.run[crashed], grants.run[ended])),
        np.concatenate((disturbances.node[crashed], grants.node[ended])).astype(np.int64),
    )
    crash = last_at_or_before(
        known_group=node[: len(crashed)],
        known_row=disturbances.row[crashed],
        asked_group=node[len(crashed) :],
        asked_row=truth.changes.row[grants.end[ended]],
        row_count=case.events.count,
    )
    within = (crash >= 0) & (disturbances.row[crashed[crash]] > truth.changes.row[grants.first[ended]])
    crash_ns[ended[within]] = disturbances.at_ns[crashed[crash[within]]]
    return crash_ns
