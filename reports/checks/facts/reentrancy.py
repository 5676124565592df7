"""Re-entrancy: which unlocks of a re-entrant lock are inner ones, after which its client rightly keeps the lock.

A client that holds a grant and is granted the lock again has entered that
grant twice and must leave it twice. An unlock is an *inner* one if its client
has entered the grant behind it more often than it has left it, this unlock
included. That is counted per client and grant, never over a client's life: a
grant that lapsed without an unlock leaves nothing open in the next one.

An unlock counts as leaving if it reported success, or if it raised without
knowing whether its release landed. An unlock that was refused left nothing, so
later unlocks are counted without it. It was an attempt to leave all the same:
if its success would have been the last one, it is not an inner unlock.
"""

from __future__ import annotations

import numpy as np

from lockref.words import Op, Outcome
from reports.checks.facts.columns import Flags, Ints, are_among
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import count_at_or_before, renumber

LEAVES = (Outcome.APPLIED, Outcome.AMBIGUOUS)
"""How an unlock returns that gave one entry back."""


def grant_left(operations: Operations, tenure_of_release: Ints) -> Ints:
    """Per operation: for a RELEASE the grant that it gives back or leaves, else -1."""
    known = tenure_of_release >= 0
    if not known.any():
        return np.full(len(operations.op), -1, dtype=np.int64)
    return np.where(known, operations.grant[np.maximum(tenure_of_release, 0)], -1)


def are_inner(operations: Operations, tenure_of_release: Ints, which: Ints, *, row_count: int) -> Flags:
    """Per release of `which`: it is an inner one. A release without a known grant is none."""
    enters = np.flatnonzero(operations.is_granted & (operations.grant >= 0))
    inner = np.zeros(len(which), dtype=np.bool_)
    # Only what a client can leave and still be in has an inner unlock: a grant that was entered twice, or more often.
    entries = np.bincount(operations.grant[enters], minlength=int(operations.grant.max(initial=-1)) + 1)
    if int(entries.max(initial=0)) <= 1:
        return inner
    left = grant_left(operations, tenure_of_release)
    leaves = np.flatnonzero((operations.op == Op.RELEASE) & (left >= 0) & are_among(operations.outcome, LEAVES))
    asked = np.flatnonzero(left[which] >= 0)
    asked = asked[entries[left[which[asked]]] > 1]
    if len(asked) == 0:
        return inner
    calls = np.concatenate((enters, leaves, which[asked]))
    client, _ = renumber(
        np.concatenate((operations.grant[enters], left[leaves], left[which[asked]])),
        operations.node[calls].astype(np.int64),
        operations.task[calls].astype(np.int64),
    )
    first, last = len(enters), len(enters) + len(leaves)
    row = operations.call_row[calls]
    entered, gone = (
        count_at_or_before(
            known_group=client[part],
            known_row=row[part],
            asked_group=client[last:],
            asked_row=row[last:],
            row_count=row_count,
        )
        for part in (slice(0, first), slice(first, last))
    )
    assert bool(np.all(entered >= 0) and np.all(gone >= 0)), "entries and leaves are counted from the first call on"
    # The unlock that is asked about counts as an attempt to leave, whatever came of it.
    is_refused = ~are_among(operations.outcome[which[asked]], LEAVES)
    inner[asked] = entered > gone + is_refused
    return inner
