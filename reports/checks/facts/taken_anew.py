"""Taken anew: an owner asks again for a lock without tokens, whose record an earlier call of its own had left.

Tokens tell a new grant from a renewal of the old one. Without tokens, every
write of an owner over its own live record is read as a renewal. So one grant
may cover two things: a record that a failed call had left, and the grant of a
later call.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Ints


def entered_row(case: Case) -> Ints:
    """Per grant: the row of the last call that was granted it, or -1."""
    operations = case.operations
    row = np.full(len(case.truth.grants.first), -1, dtype=np.int64)
    entered = np.flatnonzero(operations.is_granted & (operations.grant >= 0))
    assert bool(np.all(np.diff(operations.call_row) > 0)), "operations come in the order of calling"
    # Where an index repeats, numpy keeps the last value assigned.
    row[operations.grant[entered]] = operations.call_row[entered]
    return row


def taken_anew_ns(case: Case, left: Ints) -> Ints:
    """Per grant of `left`, which a failed call left behind: when its owner took it over by a later call.

    Without tokens the write of that later call looks like a renewal of the
    orphan. The grant was an orphan until that write landed, or until the
    validity before it had ended. FOREVER if no later call took it over.
    """
    operations, truth = case.operations, case.truth
    changes, grants = truth.changes, truth.grants
    over = np.full(len(left), FOREVER, dtype=np.int64)
    entered = np.flatnonzero(operations.is_granted & (operations.grant >= 0))
    order = entered[np.lexsort((operations.call_row[entered], operations.grant[entered]))]
    at = np.searchsorted(operations.grant[order], left)
    for index in np.flatnonzero(at < len(order)).tolist():
        grant, call = int(left[index]), int(order[at[index]])
        if operations.grant[call] != grant:
            continue
        writes = np.arange(int(grants.first[grant]) + 1, int(grants.last[grant]) + 1)
        sent = changes.sent_row[writes]
        is_its = (changes.node[writes] == operations.node[call]) & (sent > operations.call_row[call])
        own = writes[is_its & (sent < operations.return_row[call])]
        assert bool(np.all(changes.is_renewal[own])), "what is written over one's own grant looks like a renewal"
        if len(own):
            # The last write before the answer is the one that was granted.
            before = int(changes.valid_until_true_ns[own[-1] - 1])
            over[index] = min(int(changes.at_hi_ns[own[-1]]), FOREVER if before == ABSENT else before)
    return over
