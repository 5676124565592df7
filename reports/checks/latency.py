"""Latency inputs: what each call waited, each tenure held, each hand-off took.

Raw samples in nanoseconds; quantiles are the reports' business. A hand-off is
the time for which a lock lay free although a client that was then served had
been waiting: after a release, from the release; after a death or an expiry,
from the end of the validity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lockref.history import ABSENT, Op
from lockref.stores.port import Outcome
from reports.checks.case import Case
from reports.checks.honesty import FOREVER
from reports.checks.tables import optional_integers, text_column
from reports.checks.truth import END_RELEASED, END_TAKEN_OVER

OUTCOMES = [outcome.name.lower() for outcome in Outcome]


def calls_table(case: Case) -> pa.Table:
    """One row per call: who, which operation, its outcome, `wait_ns` (null while open), `hold_ns` of a granted tenure.

    A hold lasts from the return of the acquire to the call of its release.
    """
    events, operations = case.events, case.operations
    closed = operations.return_row >= 0
    wait = np.where(closed, operations.return_at_ns - operations.call_at_ns, ABSENT)
    hold = np.full(len(wait), ABSENT, dtype=np.int64)
    releases = np.flatnonzero(case.tenure_of_release >= 0)[::-1]
    tenure = case.tenure_of_release[releases]
    # Assigned from the last release to the first, so that the first one counts.
    hold[tenure] = operations.call_at_ns[releases] - operations.return_at_ns[tenure]
    columns: dict[str, Any] = {
        "run": pa.array(case.runs.number[operations.run]),
        "lock": text_column(events, "lock", operations.lock),
        "node": text_column(events, "node", operations.node),
        "task": text_column(events, "task", operations.task),
        "op": pa.DictionaryArray.from_arrays(
            pa.array((operations.op == Op.RELEASE).astype(np.int32)), pa.array(["acquire", "release"])
        ),
        "outcome": pa.DictionaryArray.from_arrays(pa.array(operations.outcome.astype(np.int32)), pa.array(OUTCOMES)),
        "call_ns": pa.array(operations.call_at_ns),
        "wait_ns": optional_integers(wait),
        "hold_ns": optional_integers(hold),
    }
    return pa.table(columns)


def handoffs_table(case: Case) -> pa.Table:
    """One row per hand-off: `after` is "release" or "expiry", `handoff_ns` how long the lock lay free, who was served.

    Counted where the next grant's call had begun by then, so that somebody waited.
    """
    events, grants, operations = case.events, case.truth.grants, case.operations
    following = grants.next_same_lock
    after_release, after_expiry = grants.end_kind == END_RELEASED, grants.end_kind == END_TAKEN_OVER
    valid = np.where(grants.valid_until_true_ns == ABSENT, FOREVER, grants.valid_until_true_ns)
    free = np.where(after_release, grants.end_hi_ns, valid)
    served = np.maximum(following, 0)
    if len(following):
        call = case.call_of_grant[served]
        begin = grants.begin_hi_ns[served]
        called = operations.call_at_ns[np.maximum(call, 0)] if len(operations.op) else begin
        waited = (following >= 0) & (call >= 0) & (after_release | after_expiry) & (called <= free) & (begin >= free)
    else:
        begin, waited = free, np.zeros(0, dtype=np.bool_)
    which = np.flatnonzero(waited)
    columns: dict[str, Any] = {
        "run": pa.array(case.runs.number[grants.run[which]]),
        "lock": text_column(events, "lock", grants.lock[which]),
        "ordinal": pa.array(grants.ordinal[served[which]]),
        "node": text_column(events, "node", grants.node[served[which]]),
        "after": pa.DictionaryArray.from_arrays(
            pa.array(after_expiry[which].astype(np.int32)), pa.array(["release", "expiry"])
        ),
        "handoff_ns": pa.array(begin[which] - free[which]),
    }
    return pa.table(columns)
