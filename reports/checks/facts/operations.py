"""Operations: calls joined with their returns, and the grant behind each granted call.

The call number of a granted acquire names a *tenure*: what the client believes
and does until it gives the lock back is recorded under that number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lockref.history import CUT_SHORT
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints
from reports.checks.facts.commits import calls_of_locks
from reports.checks.facts.segments import last_at_or_before, renumber
from reports.checks.facts.sources.grants import is_given
from reports.checks.facts.sources.truth import Truth
from reports.checks.witness_rows import CUT_SHORT_WORD, witness_row


@dataclass(frozen=True, kw_only=True)
class Operations:
    """One entry per CALL, in the order of calling.

    return_row is -1 and return_at_ns ABSENT while open. outcome is NONE while
    open. grant: the position in Grants of the grant behind a granted acquire,
    -1 where there is none. by_request: request key to operation, -1.
    is_cut_short: it was denied when the run was at its end, and its client would have waited on.
    """

    call_row: Ints
    return_row: Ints
    run: Ints
    lock: Codes
    node: Codes
    task: Codes
    op: npt.NDArray[np.uint8]
    outcome: npt.NDArray[np.uint8]
    call_at_ns: Ints
    return_at_ns: Ints
    owner: Codes
    token: Ints
    grant: Ints
    by_request: Ints
    is_cut_short: Flags

    @cached_property
    def is_granted(self) -> Flags:
        """An acquire that was granted. Read-only, as is `is_denied`: each is made once, for every clause that asks."""
        return self._acquires_with(Outcome.APPLIED)

    @cached_property
    def is_denied(self) -> Flags:
        """An acquire that was denied."""
        return self._acquires_with(Outcome.PRECONDITION_FAILED)

    def _acquires_with(self, outcome: Outcome) -> Flags:
        found: Flags = (self.op == Op.ACQUIRE) & (self.outcome == outcome)
        found.flags.writeable = False
        return found

    @cached_property
    def client(self) -> Ints:
        """A number for run, lock, node and task, equal exactly for equal ones."""
        return renumber(self.run, self.lock, self.node, self.task)[0]


def join_operations(events: Events, truth: Truth) -> Operations:
    """Pair CALL and RETURN by request and find the grant behind every granted acquire.

    That grant is the last one that the client's node had applied under the
    returned owner (any owner, if none was returned) by the time of the return.
    """
    calls = calls_of_locks(events)
    asked = events.request_keys(calls)
    returns = events.index_by_request(Kind.RETURN)[asked]
    is_closed = returns >= 0
    ends = np.maximum(returns, 0)
    at = events.integers("at_ns")
    op = events.numbers("op")[calls]
    outcome = np.where(is_closed, events.numbers("outcome")[ends], np.uint8(Outcome.NONE))
    owner = np.where(is_closed, events.codes("owner")[ends], np.int32(NO_TEXT))
    node = events.codes("node")[calls]
    granted = np.flatnonzero((op == Op.ACQUIRE) & (outcome == Outcome.APPLIED))
    grant = np.full(len(calls), -1, dtype=np.int64)
    grant[granted] = _grants_behind(events, truth, calls[granted], returns[granted])
    by_request = np.full(events.request_key_count + 1, -1, dtype=np.int64)
    by_request[asked] = np.arange(len(calls))
    by_request[-1] = -1
    assert bool(np.all(grant < len(truth.grants.first))), "an operation points at a grant of the list"
    return Operations(
        call_row=calls,
        return_row=returns,
        run=events.run[calls],
        lock=events.codes("lock")[calls],
        node=node,
        task=events.codes("task")[calls],
        op=op,
        outcome=outcome,
        call_at_ns=at[calls],
        return_at_ns=np.where(is_closed, at[ends], ABSENT),
        owner=owner,
        token=np.where(is_closed, events.integers("token")[ends], ABSENT),
        grant=grant,
        by_request=by_request,
        is_cut_short=_are_cut_short(events, ends, is_closed),
    )


def _are_cut_short(events: Events, ends: Ints, is_closed: Flags) -> Flags:
    code = events.code_of("detail", CUT_SHORT)
    if code < 0:
        return np.zeros(len(ends), dtype=np.bool_)
    found: Flags = is_closed & (events.codes("detail")[ends] == code)
    return found


def _grants_behind(events: Events, truth: Truth, calls: Ints, returns: Ints) -> Ints:
    changes, grants = truth.changes, truth.grants
    if len(grants.first) == 0 or len(calls) == 0:
        return np.full(len(calls), -1, dtype=np.int64)
    # In a simulation the APPLIED row itself; in a real run the REPLIED row, which one thread writes before RETURN.
    # A resolved ambiguous write may be known by its REPLIED row only, which also comes before.
    # Who was given the lock by the holder before may read that, and return, before the giver has its answer.
    given = changes.is_handed_over[grants.first]
    known_row = np.where(given, changes.sent_row[grants.first], changes.row[grants.first])
    lock, node, owner = (events.codes(name) for name in ("lock", "node", "owner"))
    run = np.concatenate((grants.run, events.run[calls]))
    where = renumber(
        run,
        np.concatenate((grants.lock, lock[calls])).astype(np.int64),
        np.concatenate((grants.node, node[calls])).astype(np.int64),
    )[0]
    who = np.concatenate((grants.owner, owner[returns])).astype(np.int64)
    exact = renumber(where, who)[0]
    split = len(grants.first)
    found = last_at_or_before(
        known_group=exact[:split],
        known_row=known_row,
        asked_group=exact[split:],
        asked_row=returns,
        row_count=events.count,
    )
    nameless = np.flatnonzero(owner[returns] == NO_TEXT)
    if len(nameless):
        found[nameless] = last_at_or_before(
            known_group=where[:split],
            known_row=known_row,
            asked_group=where[split:][nameless],
            asked_row=returns[nameless],
            row_count=events.count,
        )
    return found


def tenure_of_release(truth: Truth, operations: Operations) -> Ints:
    """Per operation: for a RELEASE the client's last granted acquire before it, else -1."""
    found = np.full(len(operations.op), -1, dtype=np.int64)
    acquires = np.flatnonzero(operations.is_granted)
    releases = np.flatnonzero(operations.op == Op.RELEASE)
    if len(acquires) == 0 or len(releases) == 0:
        return found
    client = operations.client
    last = last_at_or_before(
        known_group=client[acquires],
        known_row=operations.return_row[acquires],
        asked_group=client[releases],
        asked_row=operations.call_row[releases],
        row_count=truth.events.count,
    )
    found[releases] = np.where(last >= 0, acquires[np.maximum(last, 0)], -1)
    known = found >= 0
    assert bool(np.all(operations.node[found[known]] == operations.node[known])), "a client gives back its own grant"
    return found


def call_of_grant(truth: Truth, operations: Operations) -> Ints:
    """Per grant: the acquire call in which its client (node and task) sent the write, or -1."""
    grants, events = truth.grants, truth.events
    sent = truth.changes.sent_row[grants.first]
    found = np.full(len(sent), -1, dtype=np.int64)
    if len(operations.call_row) == 0 or len(sent) == 0:
        return found
    client, _ = renumber(
        np.concatenate((grants.run, operations.run)),
        np.concatenate((grants.lock, operations.lock)).astype(np.int64),
        np.concatenate((grants.node, operations.node)).astype(np.int64),
        np.concatenate((grants.task, operations.task)).astype(np.int64),
    )
    split = len(sent)
    call = last_at_or_before(
        known_group=client[split:],
        known_row=operations.call_row,
        asked_group=client[:split],
        asked_row=np.maximum(sent, 0),
        row_count=events.count,
    )
    which = np.maximum(call, 0)
    ended = np.where(operations.return_row[which] >= 0, operations.return_row[which], FOREVER)
    fits = (call >= 0) & (sent >= 0) & (operations.op[which] == Op.ACQUIRE) & (sent < ended)
    found[fits] = call[fits]
    assert bool(np.all(operations.lock[found[fits]] == grants.lock[fits])), "a call asks for one lock"
    given = np.flatnonzero(is_given(truth.changes, grants.first))
    if len(given):
        found[given] = _calls_at(truth, operations, given)
    return found


def holding_task(truth: Truth, operations: Operations) -> Codes:
    """Per grant, the task that holds it: the one that sent the write. Of one that was given: whose call was open."""
    grants = truth.grants
    given = is_given(truth.changes, grants.first)
    if not given.any():
        return grants.task
    task = grants.task.copy()
    granted = np.flatnonzero(operations.grant >= 0)
    granted = granted[given[operations.grant[granted]]]
    task[operations.grant[granted]] = operations.task[granted]
    return task


def _calls_at(truth: Truth, operations: Operations, which: Ints) -> Ints:
    """Per given grant of `which`: the acquire call of its node for its lock that was open when it began, or -1.

    A controller, or the holder before, wrote the grant, not the task that asked for it. So a call by any task of the
    node counts.
    """
    grants, events = truth.grants, truth.events
    calls = np.flatnonzero(operations.op == Op.ACQUIRE)
    if len(calls) == 0:
        return np.full(len(which), -1, dtype=np.int64)
    row = truth.changes.row[grants.first[which]]
    home, _ = renumber(
        np.concatenate((grants.group[which], events.lock_key[operations.call_row[calls]])),
        np.concatenate((grants.node[which], operations.node[calls])).astype(np.int64),
    )
    split = len(which)
    last = last_at_or_before(
        known_group=home[split:],
        known_row=operations.call_row[calls],
        asked_group=home[:split],
        asked_row=row,
        row_count=events.count,
    )
    call = calls[np.maximum(last, 0)]
    is_open = (operations.return_row[call] < 0) | (operations.return_row[call] > row)
    return np.where((last >= 0) & is_open, call, -1)


def witness_call(events: Events, operations: Operations, call: int) -> dict[str, Any]:
    """One call of a lock, from its calling to its return: `interval_ns`, whose end is None while it is open."""
    row, back = int(operations.call_row[call]), int(operations.return_row[call])
    begun, over = int(operations.call_at_ns[call]), int(operations.return_at_ns[call])
    return witness_row(
        events,
        row,
        interval_ns=[begun, over if back >= 0 else None],
        outcome=_answer_text(operations, call) if back >= 0 else "open",
        returned_seq=int(events.integers("seq")[back]) if back >= 0 else None,
    )


_ANSWERS: Final = {
    Outcome.APPLIED: "granted",
    Outcome.PRECONDITION_FAILED: "denied",
    Outcome.AMBIGUOUS: "unknown",
    Outcome.NONE: "no answer",
}


def _answer_text(operations: Operations, call: int) -> str:
    """The answer of a call, in the words of its caller."""
    op, outcome = int(operations.op[call]), Outcome(int(operations.outcome[call]))
    if op == Op.RELEASE and outcome == Outcome.APPLIED:
        return "released"
    return CUT_SHORT_WORD if operations.is_cut_short[call] else _ANSWERS.get(outcome, "error")
