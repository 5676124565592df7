"""The judge's verdict checked by the other definition: calls and returns swept, lock by lock.

What the sweep calls illegal, the judge must call a violation of some safety
clause; the reverse need not be, since the judge also sees the store, beliefs
and effects. Used by tests on simulated batches, and by hand on a history that
looks wrong. Loops over operations; not for the hot path.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lockref.history import ABSENT, Op
from lockref.stores.port import Outcome
from reports.checks.case import Case, open_case
from reports.checks.search import search
from reports.checks.sweep import NEVER, Illegal, LockOp, Result, sweep
from reports.checks.takeover import or_zero, rate_allowance


def crosscheck(events: pa.Table, runs: pa.Table) -> dict[tuple[int, str], str]:
    """(run number, lock) to "legal", "illegal: <rule>" or "inconclusive"."""
    case = open_case(events, runs)
    return {key: _answer(ops) for key, ops in lock_operations(case).items()}


def _answer(ops: list[LockOp]) -> str:
    if any(op.result is Result.GRANTED and op.token is None for op in ops):
        found = search(ops)
        return "illegal: no order fits" if found == "illegal" else found
    illegal: Illegal | None = sweep(ops)
    return "legal" if illegal is None else f"illegal: {illegal.rule}"


def lock_operations(case: Case) -> dict[tuple[int, str], list[LockOp]]:
    """Every lock's operations as the sweep wants them, in the order of calls.

    A grant's number is its place in the chain, which every lock has; where the
    chain cannot be read, its token. It may end by itself from the end of its
    validity on, less what clocks may differ. Errors count as unknown outcomes.
    """
    events, operations = case.events, case.operations
    ends = _promised_ends(case)
    found: dict[tuple[int, str], list[LockOp]] = {}
    for number in range(len(operations.call_row)):
        result = _result(int(operations.op[number]), int(operations.outcome[number]))
        grant, token = int(operations.grant[number]), int(operations.token[number])
        place = int(case.truth.grants.ordinal[grant]) if grant >= 0 else None if token == ABSENT else token
        key = (
            int(case.runs.number[operations.run[number]]),
            events.text("lock", int(operations.lock[number])),
        )
        is_open = operations.return_row[number] < 0
        found.setdefault(key, []).append(
            LockOp(
                client=f"{operations.node[number]}/{operations.task[number]}",
                result=result,
                call_ns=int(operations.call_at_ns[number]),
                return_ns=NEVER if is_open else int(operations.return_at_ns[number]),
                token=place if result is Result.GRANTED else None,
                ends_ns=int(ends[grant]) if grant >= 0 else NEVER,
            )
        )
    return found


def _promised_ends(case: Case) -> np.ndarray:
    grants = case.truth.grants
    valid = grants.valid_until_true_ns
    drift = or_zero(case.runs.integers("drift_bound_ns"))[grants.run]
    allowance = drift + rate_allowance(case.truth, grants.run, valid - grants.begin_lo_ns)
    return np.where(valid == ABSENT, NEVER, valid - allowance)


def _result(op: int, outcome: int) -> Result:
    if op == Op.RELEASE:
        return Result.RELEASED if outcome == Outcome.APPLIED else Result.UNKNOWN_RELEASE
    if outcome == Outcome.APPLIED:
        return Result.GRANTED
    return Result.DENIED if outcome == Outcome.PRECONDITION_FAILED else Result.UNKNOWN_ACQUIRE
