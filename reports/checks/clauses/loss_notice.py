"""Loss notices: does a holder learn in time that it has lost its grant, and only then (L4)?

Three questions about one tenure:

- Did its guard say yes after its deadline? The deadline is the end of the
  validity of its last applied write, with the clock bound, since the holder's
  clock may have been set within it.
- Did the lock report the loss by then? Only for locks that claim to (`claims`
  of the runs table has L4): a listener is optional. One request timeout is
  allowed beyond the deadline, since a renewal without an answer may be what
  the lock waits for, and every pause of the process. A client that has called
  its lock again by then learns of the loss from that call.
- Did the lock let go although nothing was wrong? A guard's no, or a reported
  loss, is *without cause* if the grant or a renewal of it is good for long, its
  answer came, and nothing on record speaks against the grant. The client then
  drops work that it could have finished. Causes are, among others, the grant of
  another client, a request without an answer, and a clock; all of them are
  listed at `_Record.is_undisturbed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockref.claims import LOSSES
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.clauses.belief import describe_tenure
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER, or_zero, rate_allowance
from reports.checks.facts.columns import Flags, Ints, are_among
from reports.checks.facts.operations import witness_call
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations

TOO_LATE, NOT_REPORTED, WITHOUT_CAUSE = range(3)
NO_REASONS = (Outcome.APPLIED, Outcome.PRECONDITION_FAILED, Outcome.CONFLICT, Outcome.THROTTLED)
"""Answers that are no reason to let go of a grant that stands: the store has said that it did, or did not, write."""
KINDS = ("told too late", "loss not reported", "told without cause")


@dataclass(frozen=True, slots=True)
class _Found:
    """Wrong notices of one kind: the acquires that began their tenures, and the true time of each wrong notice.

    due_ns: the end of the validity by which the notice is judged. row: the event that is the notice, or -1 where the
    lock was silent.
    """

    kind: int
    operation: Ints
    at_ns: Ints
    due_ns: Ints
    row: Ints


def was_asked(case: Case) -> Flags:
    """Per run: some tenure with a known end was asked whether it still holds the lock, or owes reports of its loss."""
    operations, grants, events = case.operations, case.truth.grants, case.events
    asked = np.zeros(case.runs.count, dtype=np.bool_)
    if len(grants.first) == 0:
        return asked
    owed = case.runs.claim(LOSSES)[operations.run]
    for kind in (Kind.BELIEVED, Kind.DISBELIEVED):
        answered = operations.by_request[events.request_keys_of(kind)]
        owed[answered[answered >= 0]] = True
    grant = operations.grant
    has_end = (grant >= 0) & (grants.valid_until_true_ns[np.maximum(grant, 0)] != ABSENT)
    asked[operations.run[owed & operations.is_granted & has_end]] = True
    return asked


def check_loss_notices(case: Case, bounds: Bounds) -> tuple[Violations, Flags]:
    """L4: one violation per tenure and kind; and per run, whether a loss may have a cause that a hole hides."""
    dropped, hidden = _let_go_without_cause(case)
    parts = [_believed_too_late(case), _not_reported(case, bounds), dropped]
    kind = np.concatenate([np.full(len(part.operation), part.kind) for part in parts])
    operation, at_ns, due_ns, row = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("operation", "at_ns", "due_ns", "row")
    )
    events, operations, tenures = case.events, case.operations, case.tenures
    assert bool(np.all(operations.grant[operation] >= 0)), "a loss is the loss of a grant"

    def witness(index: int) -> dict[str, Any]:
        acquire = int(operation[index])
        who = events.text("node", int(operations.node[acquire]))
        apart = abs(int(at_ns[index]) - int(due_ns[index]))
        text = (
            f"{who} still believed {apart} ns after its validity had ended",
            f"{who} lost its grant and was not told within {apart} ns after its validity had ended",
            f"{who} was told that it had lost its grant {apart} ns before its validity ended, without a cause",
        )[int(kind[index])]
        believed = int(case.tenure_of_operation[acquire])
        grant = int(operations.grant[acquire])
        return {
            "text": text,
            "kind": KINDS[int(kind[index])],
            "lock": events.text("lock", int(operations.lock[acquire])),
            "valid_until_true_ns": int(due_ns[index]),
            "told_seq": None if row[index] < 0 else int(events.integers("seq")[row[index]]),
            "size_ns": apart,
            "calls": [witness_call(events, operations, acquire)],
            "intervals": [] if believed < 0 else [describe_tenure(events, tenures, believed)],
            "writes": [case.truth.describe(int(case.truth.grants.last[grant]))],
        }

    return Violations(clause="L4", run=operations.run[operation], at_ns=at_ns, witness=witness), hidden


def clock_allowance_ns(truth: Truth, grant: Ints) -> Ints:
    """Per grant: how far the holder's clock may be off at its deadline, in nanoseconds."""
    grants = truth.grants
    run = grants.run[grant]
    span = np.where(
        grants.valid_until_true_ns[grant] == ABSENT, 0, grants.valid_until_true_ns[grant] - grants.begin_lo_ns[grant]
    )
    allowance: Ints = or_zero(truth.runs.integers("drift_bound_ns"))[run] + rate_allowance(truth.runs, run, span)
    return allowance


def _nothing(kind: int) -> _Found:
    none = np.zeros(0, dtype=np.int64)
    return _Found(kind, none, none, none, none)


def _believed_too_late(case: Case) -> _Found:
    """Tenures whose guard said yes after their deadline."""
    tenures, grants = case.tenures, case.truth.grants
    if len(grants.first) == 0:
        return _nothing(TOO_LATE)
    known = np.flatnonzero(case.grant_of_tenure >= 0)
    grant = case.grant_of_tenure[known]
    end = grants.valid_until_true_ns[grant]
    late = (end != ABSENT) & (tenures.last_ns[known] > end + clock_allowance_ns(case.truth, grant))
    known, end = known[late], end[late]
    return _Found(TOO_LATE, tenures.operation[known], tenures.last_ns[known], end, tenures.last_row[known])


def _not_reported(case: Case, bounds: Bounds) -> _Found:
    """Tenures of locks that claim to report losses, lost and not reported by the deadline and one request timeout."""
    operations, grants = case.operations, case.truth.grants
    claimed = case.runs.claim(LOSSES)
    acquires = np.flatnonzero(operations.is_granted & (operations.grant >= 0) & claimed[operations.run])
    if len(acquires) == 0:
        return _nothing(NOT_REPORTED)
    grant, run = operations.grant[acquires], operations.run[acquires]
    end = grants.valid_until_true_ns[grant]
    due = np.where(end == ABSENT, 0, end + clock_allowance_ns(case.truth, grant)) + bounds.request_ns[run]
    reported = _first_rows(case, (Op.NONE,))[acquires]
    at = case.events.integers("at_ns")
    reported_ns = np.where(reported >= 0, at[np.maximum(reported, 0)], FOREVER)
    over = np.minimum(_next_call_ns(case)[acquires], case.end_ns[run])
    silent = np.flatnonzero((end != ABSENT) & (np.minimum(reported_ns, over) > due))
    bad = [
        one
        for one in silent.tolist()
        if _was_awake_and_silent(case, int(acquires[one]), int(due[one]), int(reported_ns[one]), int(over[one]))
    ]
    return _Found(NOT_REPORTED, acquires[bad], due[bad], end[bad], np.full(len(bad), -1, dtype=np.int64))


def _was_awake_and_silent(case: Case, acquire: int, due: int, reported: int, over: int) -> bool:
    """True if the process lived and ran until long enough after its deadline, and nothing was reported by then."""
    operations, disturbances = case.operations, case.disturbances
    run, node = int(operations.run[acquire]), int(operations.node[acquire])
    since = int(operations.return_at_ns[acquire])
    until = min(over, disturbances.crashed_ns(run, node, after_row=int(operations.call_row[acquire])))
    paused = disturbances.paused_ns(run, node, since, min(until, reported))
    return min(reported, until) > due + paused


def _let_go_without_cause(case: Case) -> tuple[_Found, Flags]:
    """Tenures whose guard said no, or whose loss was reported, while the grant or its last renewal was good for long.

    And per run: True if a write that the history does not show may have ended such a grant.
    """
    hidden = np.zeros(case.runs.count, dtype=np.bool_)
    events, operations, grants = case.events, case.operations, case.truth.grants
    said = _first_rows(case, (Op.GUARD, Op.ACQUIRE))
    reported = _first_rows(case, (Op.NONE,))
    reported = np.where(case.runs.claim(LOSSES)[operations.run], reported, -1)
    row = np.where((said < 0) | ((reported >= 0) & (reported < said)), reported, said)
    asked = np.flatnonzero((row >= 0) & operations.is_granted & (operations.grant >= 0))
    if len(asked) == 0:
        return _nothing(WITHOUT_CAUSE), hidden
    grant, at = operations.grant[asked], events.integers("at_ns")[row[asked]]
    half = case.runs.integers("validity_ns")[operations.run[asked]] // 2
    end = grants.valid_until_true_ns[grant]
    ended = np.where(grants.end_lo_ns[grant] == ABSENT, FOREVER, grants.end_lo_ns[grant])
    odd = (half > 0) & (end != ABSENT) & (end - at > half) & (ended > at)
    is_hidden = case.truth.may_hide(grants.group[grant], grants.first[grant], grants.end[grant])
    record = _Record(case) if odd.any() else None
    bad: list[int] = []
    due: list[int] = []
    for one in np.flatnonzero(odd).tolist():
        assert record is not None, "made where it is needed"
        acquire = int(asked[one])
        good_until = record.good_until_ns(int(grant[one]), int(row[acquire]))
        if good_until - int(at[one]) > half[one] and record.is_undisturbed(acquire, int(row[acquire]), int(half[one])):
            if is_hidden[one]:
                hidden[operations.run[acquire]] = True
                continue
            bad.append(one)
            due.append(good_until)
    found = _Found(WITHOUT_CAUSE, asked[bad], at[bad], np.array(due, dtype=np.int64), row[asked[bad]])
    return found, hidden


class _Record:
    """The requests of one process and their answers: did its lock have a reason to let go?"""

    def __init__(self, case: Case) -> None:
        self._case = case
        events, operations = case.events, case.operations
        self._replied = events.replied_by_request
        sent = events.rows(Kind.SENT)
        key = events.lock_key[sent] * (events.text_count("node") + 1) + events.codes("node")[sent]
        order = np.argsort(key, kind="stable")
        self._sent, self._sent_key = sent[order], key[order]
        place = events.lock_key[operations.call_row] * (events.text_count("node") + 1) + operations.node
        order = np.argsort(place, kind="stable")
        self._calls, self._call_key = order, place[order]

    def good_until_ns(self, grant: int, before_row: int) -> int:
        """The end of the validity by the last write of a grant that its holder knows to have landed, at this row.

        The holder knows that a renewal has landed when the answer has come. It knows the grant itself from its call.
        """
        events, changes, grants = self._case.events, self._case.truth.changes, self._case.truth.grants
        for write in range(int(grants.last[grant]), int(grants.first[grant]), -1):
            answer = int(self._replied[events.request_keys(changes.row[write : write + 1])][0])
            if 0 <= answer < before_row and events.numbers("outcome")[answer] == Outcome.APPLIED:
                return int(changes.valid_until_true_ns[write])
        return int(changes.valid_until_true_ns[grants.first[grant]])

    def is_undisturbed(self, acquire: int, until_row: int, span_ns: int) -> bool:
        """True if nothing on record from the grant to this row gave the lock a reason to let go.

        Reasons are: an answer that showed another's grant, a request of its process without an answer, a fault of the
        process or of its clocks, a clock that differed from true time by half of `span_ns`, an unlock by another task
        of the process, an acquire inside the tenure that ended in doubt, the end of the task that locked (H13), and of
        a grant that the holder before gave, a clock of that holder that differs from the process's own by as much.
        A 412 alone is none while the grant stands: a copy of the holder's own write, a waiter's note in the record or
        a write of a former grant brings it as well, and a look tells which. Nor is an answer by which nothing landed
        for the moment (409, 429).
        """
        case = self._case
        operations, disturbances = case.operations, case.disturbances
        since_row = int(operations.call_row[acquire])
        run, node = int(operations.run[acquire]), int(operations.node[acquire])
        return (
            not disturbances.befell_process(run, node, since_row, until_row)
            and self._nothing_spoke_against(acquire, until_row)
            and self._clocks_agree(since_row, until_row, span_ns // 2)
            and self._reads_the_givers_stamp(acquire, span_ns // 2)
            and not self._was_shaken_by_a_call(acquire, until_row)
            and not self._may_have_lost_its_task(acquire, until_row)
        )

    def _requests(self, acquire: int, until_row: int) -> Ints:
        """SENT rows of the process for this lock, from the return of the acquire to this row."""
        events, operations = self._case.events, self._case.operations
        row = operations.call_row[acquire]
        key = int(events.lock_key[row]) * (events.text_count("node") + 1) + int(events.codes("node")[row])
        mine = self._sent[np.searchsorted(self._sent_key, key) : np.searchsorted(self._sent_key, key, side="right")]
        since_row = int(operations.return_row[acquire])
        return mine[np.searchsorted(mine, since_row) : np.searchsorted(mine, until_row)]

    def _may_have_lost_its_task(self, acquire: int, until_row: int) -> bool:
        """True if another task than the client's sent the grant, and has sent nothing since: it may have ended."""
        case = self._case
        sent = int(case.truth.changes.sent_row[case.truth.grants.first[case.operations.grant[acquire]]])
        task = case.events.codes("task")
        if sent < 0 or task[sent] == case.operations.task[acquire]:
            return False
        return not bool(np.any(task[self._requests(acquire, until_row)] == task[sent]))

    def _nothing_spoke_against(self, acquire: int, until_row: int) -> bool:
        """True if every request of the process since the grant was answered, and no answer showed another's grant."""
        events = self._case.events
        mine = self._requests(acquire, until_row)
        answer = self._replied[events.request_keys(mine)]
        if not bool(np.all((answer >= 0) & (answer < until_row))):
            return False
        outcome = events.numbers("outcome")[answer]
        if not bool(np.all(are_among(outcome, NO_REASONS))):
            return False
        shown = events.codes("version")[answer[outcome == Outcome.APPLIED]]
        return self._are_own(int(self._case.operations.grant[acquire]), shown)

    def _are_own(self, grant: int, shown: Ints) -> bool:
        """True if each state that the process wrote or was shown is of this grant, or an earlier one of its node."""
        changes, grants = self._case.truth.changes, self._case.truth.grants
        start, stop = np.searchsorted(changes.group, grants.group[grant] + np.array((0, 1)))
        end = int(grants.end[grant]) if grants.end[grant] >= 0 else int(stop)
        other = shown[~np.isin(shown, changes.version[int(grants.first[grant]) : end])]
        past = slice(int(start), int(grants.first[grant]))
        own = changes.version[past][changes.node[past] == grants.node[grant]]
        return bool(np.all(np.isin(other, own)))

    def _clocks_agree(self, since_row: int, until_row: int, bound_ns: int) -> bool:
        events = self._case.events
        true = events.integers("at_ns")
        for name in ("wall_ns", "mono_ns"):
            clock = events.integers(name)
            if clock[since_row] == ABSENT or clock[until_row] == ABSENT:
                continue
            apart = (int(clock[until_row]) - int(clock[since_row])) - (int(true[until_row]) - int(true[since_row]))
            if abs(apart) > bound_ns:
                return False
        return True

    def _reads_the_givers_stamp(self, acquire: int, bound_ns: int) -> bool:
        """True unless the holder before gave the grant, with a stamp by a wall clock far from the process's own."""
        events, truth = self._case.events, self._case.truth
        first = int(truth.grants.first[self._case.operations.grant[acquire]])
        if not truth.changes.is_handed_over[first]:
            return True
        rows = np.array([truth.changes.sent_row[first], self._case.operations.return_row[acquire]])
        wall = events.integers("wall_ns")[rows]
        if bool(np.any(wall == ABSENT)):
            return True
        ahead = wall - events.integers("at_ns")[rows]
        return abs(int(ahead[0]) - int(ahead[1])) <= bound_ns

    def _was_shaken_by_a_call(self, acquire: int, until_row: int) -> bool:
        """True if another task of the process unlocked or closed the lock, or a call for it ended in doubt."""
        operations, events = self._case.operations, self._case.events
        key = int(events.lock_key[operations.call_row[acquire]]) * (events.text_count("node") + 1)
        key += int(operations.node[acquire])
        first, last = np.searchsorted(self._call_key, key), np.searchsorted(self._call_key, key, side="right")
        calls = self._calls[first:last]
        rows = operations.call_row[calls]
        calls = calls[np.searchsorted(rows, operations.call_row[acquire]) : np.searchsorted(rows, until_row)]
        unlocked = (operations.op[calls] == Op.RELEASE) & (operations.task[calls] != operations.task[acquire])
        in_doubt = (operations.op[calls] == Op.ACQUIRE) & (operations.outcome[calls] == Outcome.AMBIGUOUS)
        return bool(np.any(unlocked | in_doubt))


def _first_rows(case: Case, ops: tuple[Op, ...]) -> Ints:
    """Per operation: the first DISBELIEVED row of its tenure with one of these ops, or -1."""
    events, operations = case.events, case.operations
    rows = events.rows(Kind.DISBELIEVED)
    rows = rows[are_among(events.numbers("op")[rows], ops)]
    acquire = operations.by_request[events.request_keys(rows)]
    found = np.full(len(operations.op), -1, dtype=np.int64)
    # Where an index repeats, numpy keeps the last value assigned.
    found[acquire[acquire >= 0][::-1]] = rows[acquire >= 0][::-1]
    return found


def _next_call_ns(case: Case) -> Ints:
    """Per operation: when its client called the lock the next time; FOREVER if it did not."""
    operations = case.operations
    client = operations.client
    order = np.argsort(client, kind="stable")
    assert bool(np.all(np.diff(operations.call_row) > 0)), "operations come in the order of calling"
    following = np.full(len(order), FOREVER, dtype=np.int64)
    same = client[order][1:] == client[order][:-1]
    following[order[:-1]] = np.where(same, operations.call_at_ns[order[1:]], FOREVER)
    return following
