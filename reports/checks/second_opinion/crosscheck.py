"""The judge's verdict checked by the other definition: calls and returns in the order of tokens, lock by lock.

What the second opinion calls illegal, the judge must call a violation of some safety
clause; the reverse need not be, since the judge also sees the store, beliefs
and effects. Used by tests on simulated batches, and by hand on a history that
looks wrong. Loops over operations; not for the hot path.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT, Op, Outcome
from reports.checks.facts.case import Case, open_case
from reports.checks.facts.clocks import or_zero, rate_allowance
from reports.checks.second_opinion.search import search
from reports.checks.second_opinion.token_order import NEVER, Illegal, LockOp, Result, find_illegal

FIRST_PLACE: Final = 1
"""The place of the first grant in the chain of its lock."""


def crosscheck(events: pa.Table, runs: pa.Table) -> dict[tuple[int, str], str]:
    """(run number, lock) to "legal", "illegal: <rule>" or "inconclusive"."""
    case = open_case(events, runs)
    row, number = case.operations.call_row, case.runs.number
    readable = {
        (int(number[case.operations.run[call]]), case.events.text("lock", int(case.operations.lock[call]))): is_known
        for call, is_known in enumerate(case.truth.knows_rows(row).tolist())
    }
    # Places in the chain count from 1. With which token a lock begins is not known.
    return {key: _answer(ops, FIRST_PLACE if readable[key] else None) for key, ops in lock_operations(case).items()}


def _answer(ops: list[LockOp], token_min: int | None) -> str:
    if any(op.result is Result.GRANTED and op.token is None for op in ops):
        found = search(ops, token_min=token_min)
        return "illegal: no order fits" if found == "illegal" else found
    illegal: Illegal | None = find_illegal(ops, token_min=token_min)
    return "legal" if illegal is None else f"illegal: {illegal.rule}"


def lock_operations(case: Case) -> dict[tuple[int, str], list[LockOp]]:
    """Every lock's operations as the second opinion wants them, in the order of calls.

    A grant's number is its place in the chain, which every lock has; where the
    chain cannot be read, its token. It may end by itself from the end of its
    validity on, less how far clocks may differ. Errors count as unknown outcomes.
    Of a re-entrant lock only the outermost lock and unlock are operations: the
    calls between them neither take the lock nor give it back.
    """
    events, operations = case.events, case.operations
    ends = _promised_ends(case)
    found: dict[tuple[int, str], list[LockOp]] = {}
    entries = _Entries()
    for number in range(len(operations.call_row)):
        result = _result(int(operations.op[number]), int(operations.outcome[number]))
        grant, token = int(operations.grant[number]), int(operations.token[number])
        place = int(case.truth.grants.ordinal[grant]) if grant >= 0 else None if token == ABSENT else token
        key = (
            int(case.runs.number[operations.run[number]]),
            events.text("lock", int(operations.lock[number])),
        )
        is_open = operations.return_row[number] < 0
        client = f"{operations.node[number]}/{operations.task[number]}"
        if entries.is_inner((*key, client), result, place):
            continue
        found.setdefault(key, []).append(
            LockOp(
                client=client,
                result=result,
                call_ns=int(operations.call_at_ns[number]),
                return_ns=NEVER if is_open else int(operations.return_at_ns[number]),
                token=place if result is Result.GRANTED else None,
                ends_ns=int(ends[grant]) if grant >= 0 else NEVER,
            )
        )
    return found


class _Entries:
    """The depth of each client in its latest grant: how often it has locked without unlocking."""

    def __init__(self) -> None:
        self._entered: dict[tuple[int, str, str], tuple[int | None, int]] = {}

    def is_inner(self, client: tuple[int, str, str], result: Result, place: int | None) -> bool:
        """True for a grant that the client is in already, and for a release that leaves it inside."""
        inside, depth = self._entered.get(client, (None, 0))
        if result is Result.GRANTED:
            is_again = depth > 0 and place is not None and place == inside
            self._entered[client] = (place, depth + 1 if is_again else 1)
            return is_again
        if result in (Result.RELEASED, Result.UNKNOWN_RELEASE):
            self._entered[client] = (inside, max(depth - 1, 0))
        return result is Result.RELEASED and depth > 1


def _promised_ends(case: Case) -> np.ndarray:
    grants = case.truth.grants
    valid = grants.valid_until_true_ns
    drift = or_zero(case.runs.integers("drift_bound_ns"))[grants.run]
    allowance = drift + rate_allowance(case.truth.runs, grants.run, valid - grants.begin_lo_ns)
    return np.where(valid == ABSENT, NEVER, valid - allowance)


def _result(op: int, outcome: int) -> Result:
    if op == Op.RELEASE:
        return Result.RELEASED if outcome == Outcome.APPLIED else Result.UNKNOWN_RELEASE
    if outcome == Outcome.APPLIED:
        return Result.GRANTED
    return Result.DENIED if outcome == Outcome.PRECONDITION_FAILED else Result.UNKNOWN_ACQUIRE
