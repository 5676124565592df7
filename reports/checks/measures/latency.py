"""Latency inputs: what each call waited and each tenure held.

Raw samples in nanoseconds; quantiles are the reports' business.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT, Op, Outcome
from reports.checks.clauses.fairness import bypasses
from reports.checks.facts.case import Case
from reports.checks.facts.surroundings.host import HANDOVER_SPANS, TURN_SPANS, host_lateness_ns
from reports.checks.facts.tables import optional_integers, text_column
from reports.checks.witness_rows import CUT_SHORT_WORD

OUTCOMES = [*(outcome.name.lower() for outcome in Outcome), CUT_SHORT_WORD]


def calls_table(case: Case) -> pa.Table:
    """One row per call: who, which operation, its outcome, `wait_ns` (null while open), `hold_ns` of a granted tenure.

    A hold lasts from the return of the acquire to the call of its release. `wait_late_ns` and `hold_late_ns`: how much
    of it the lateness of the machine may be. A hold has one span, a wait those of its own hand-over and of the turn of
    each client that was granted the lock meanwhile.
    """
    events, operations = case.events, case.operations
    closed = operations.return_row >= 0
    wait = np.where(closed, operations.return_at_ns - operations.call_at_ns, ABSENT)
    hold = np.full(len(wait), ABSENT, dtype=np.int64)
    releases = np.flatnonzero(case.tenure_of_release >= 0)[::-1]
    tenure = case.tenure_of_release[releases]
    # Assigned from the last release to the first, so that the first one counts.
    hold[tenure] = operations.call_at_ns[releases] - operations.return_at_ns[tenure]
    outcome = np.where(operations.is_cut_short, OUTCOMES.index(CUT_SHORT_WORD), operations.outcome)
    late = case.once(host_lateness_ns)[operations.run]
    turns = np.zeros(len(wait), dtype=np.int64)
    if late.any():
        asked, passed = bypasses(case)
        turns[asked] = passed
    columns: dict[str, Any] = {
        "run": pa.array(case.runs.number[operations.run]),
        "lock": text_column(events, "lock", operations.lock),
        "node": text_column(events, "node", operations.node),
        "task": text_column(events, "task", operations.task),
        "op": pa.DictionaryArray.from_arrays(
            pa.array((operations.op == Op.RELEASE).astype(np.int32)), pa.array(["acquire", "release"])
        ),
        "outcome": pa.DictionaryArray.from_arrays(pa.array(outcome.astype(np.int32)), pa.array(OUTCOMES)),
        "call_ns": pa.array(operations.call_at_ns),
        "wait_ns": optional_integers(wait),
        "wait_late_ns": pa.array(late * (HANDOVER_SPANS + TURN_SPANS * turns)),
        "hold_ns": optional_integers(hold),
        "hold_late_ns": pa.array(late),
    }
    return pa.table(columns)
