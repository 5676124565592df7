"""Answers: does what a call returned agree with the state of the lock during the call (S7)?

    granted   the caller's own grant was in force at some instant of the call
    denied    somebody else's was, and none of the caller's own was left behind
    released  the caller's grant had ended by the return
    token     the number that came with a grant, or was shown to a resource, is the one in the grant's record

A grant is in force from its write until it is released, replaced or deleted.
For a *denial* it counts until its validity is over everywhere, at most. That is
the stamp plus twice the clock bound: a careful contender adds the bound, and its
clock may be behind by as much. A call that raises claims nothing, so it is never
wrong.

Intervals settle almost every denial. The others are looked at one by one
(`reports.checks.clauses.denials`), because four things may excuse them:

- the store may have shown a stale state;
- the contender's clock may be further behind than declared, so that its answer
  agrees with its own clock;
- the caller may have lost a race against a write that is no grant;
- the grant may be the caller's own, from before its process crashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.errors import HistoryUnreadable
from lockref.words import ABSENT, Kind, Outcome
from reports.checks.clauses.denials import Excuses
from reports.checks.clauses.tokens import last_tokens
from reports.checks.disturbances import Disturbances
from reports.checks.facts.clocks import FOREVER, or_zero, rate_allowance
from reports.checks.facts.columns import Flags, Ints
from reports.checks.facts.operations import Operations, holding_task, witness_call
from reports.checks.facts.reentrancy import are_inner
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.truth import Truth
from reports.checks.facts.surroundings.contradictions import Contradictions
from reports.checks.rulings import Violations

GRANTED, DENIED, LEFT_BEHIND, NOT_RELEASED, RETURNED_TOKEN, SHOWN_TOKEN = range(6)
KINDS = ("false grant", "false denial", "own grant denied", "false release", "wrong token", "wrong token shown")
TEXTS = (
    "granted the lock, but no grant of its own was in force during the call",
    "denied the lock, but nobody else's grant was in force during the call",
    "denied the lock, but the call left a grant of its own in force",
    "told that it had released the lock, but its grant is still in force",
    "granted the lock with another token than the one in the record of the grant",
    "granted the lock, and showed the resource another token than the one in the record of the grant",
)

TOO_LONG = (
    "judged runs that together span more time than 64 bits hold, in nanoseconds: judge fewer runs at once, "
    "or look for an event with a wrong at_ns"
)


def force_end_ns(truth: Truth) -> Ints:
    """Per grant: the last true instant at which it may still deny others."""
    grants, runs = truth.grants, truth.runs
    ended = np.where(grants.end_hi_ns == ABSENT, FOREVER, grants.end_hi_ns)
    valid = grants.valid_until_true_ns
    drift = or_zero(runs.integers("drift_bound_ns"))[grants.run]
    span = np.where(valid == ABSENT, 0, valid - grants.begin_lo_ns)
    lapse = np.where(valid == ABSENT, FOREVER, valid + 2 * drift + rate_allowance(truth.runs, grants.run, span))
    # Nobody can tell from a record with a duration when it ends: for each waiter that is when it has counted it out.
    lapse = np.where(runs.integers("watch_ns")[grants.run] == ABSENT, lapse, FOREVER)
    force: Ints = np.maximum(np.minimum(ended, lapse), grants.begin_lo_ns)
    return force


class RunClock:
    """The true times of all runs on one axis, one run after the other with gaps between: one search serves all runs.

    Raises HistoryUnreadable where the times of the runs together do not fit into 64 bits.
    """

    def __init__(self, truth: Truth) -> None:
        at, run = truth.events.integers("at_ns"), truth.events.run
        count = truth.runs.count
        self._low = np.zeros(count, dtype=np.int64)
        self._high = np.zeros(count, dtype=np.int64)
        if len(at):
            starts = np.flatnonzero(np.concatenate(([True], run[1:] != run[:-1])))
            self._low[run[starts]] = np.minimum.reduceat(at, starts)
            self._high[run[starts]] = np.maximum.reduceat(at, starts)
        width = self._high - self._low + 3
        if float(width.astype(np.float64).sum()) >= 2.0**62:
            raise HistoryUnreadable(TOO_LONG)
        self._base = np.cumsum(width) - width

    def place(self, run: Ints, at_ns: Ints) -> Ints:
        """Positions on the axis; times outside a run's events are moved to its edges."""
        # The numbers of one run need no look-up.
        base, low, high = (each if len(each) == 1 else each[run] for each in (self._base, self._low, self._high))
        placed: Ints = np.clip(at_ns, low - 1, high + 1)
        placed += base - low + 1
        return placed


def meets_another_grant(truth: Truth, operations: Operations, which: Ints, *, until: Ints) -> Flags:
    """Per operation of `which`: a grant of another client lasted at some instant from call to return.

    until: per grant, its last true instant for this question. Raises HistoryUnreadable as `RunClock` does.
    """
    grants, runs = truth.grants, truth.runs
    met = np.zeros(len(which), dtype=np.bool_)
    if len(grants.first) == 0 or len(which) == 0:
        return met
    clock = RunClock(truth)
    width = int(clock.place(np.array([runs.count - 1]), np.array([FOREVER]))[0]) + 2
    lock, locks = renumber(np.concatenate((grants.lock, operations.lock[which])).astype(np.int64))
    if locks * width >= 2**63:
        raise HistoryUnreadable(TOO_LONG)
    split = len(grants.first)
    order = np.lexsort((np.arange(split), lock[:split]))
    lane = lock[:split][order] * width
    begin = lane + clock.place(grants.run, grants.begin_lo_ns)[order]
    end = lane + clock.place(grants.run, until)[order]
    # The search needs rising bounds. In a real run a later grant may have an earlier bound than the one before. The
    # running maximum puts that right: it only lengthens the time for which a grant counts as in force.
    begin, end = np.maximum.accumulate(begin), np.maximum.accumulate(end)
    assert bool(np.all(end < lane + width)), "the grants of one lock do not reach into the next one's"
    call = operations.call_at_ns[which]
    back = np.where(operations.return_at_ns[which] == ABSENT, FOREVER, operations.return_at_ns[which])
    lane = lock[split:] * width
    last = np.searchsorted(begin, lane + clock.place(operations.run[which], back), side="right") - 1
    first = np.searchsorted(end, lane + clock.place(operations.run[which], call), side="left")
    shown = np.minimum(first, split - 1)
    client, _ = renumber(
        np.concatenate((grants.node[order], operations.node[which])).astype(np.int64),
        np.concatenate((holding_task(truth, operations)[order], operations.task[which])).astype(np.int64),
    )
    holder, caller = client[:split], client[split:]
    change = np.flatnonzero(holder[1:] != holder[:-1]) + 1
    follower = np.append(change, split)[np.searchsorted(change, first, side="right")]
    other = np.where((first < split) & (holder[shown] != caller), first, follower)
    return (last >= first) & (other <= last)


def check_answers(
    truth: Truth,
    operations: Operations,
    called_in: Ints,
    given_back: Ints,
    disturbances: Disturbances,
    contradictions: Contradictions,
) -> Violations:
    """S7: one violation per return that says what was not so.

    called_in: per grant, the call that sent it (`call_of_grant`). given_back: per operation, the tenure that it gives
    back (`tenure_of_release`).

    Nobody is accused of an answer that came after the store had begun to contradict itself about that lock.
    """
    grants, events = truth.grants, truth.events
    readable = truth.knows_rows(operations.call_row) & (operations.return_row >= 0)
    readable &= operations.return_at_ns < contradictions.wrong_since_ns(events.lock_key[operations.call_row])

    granted = np.flatnonzero(operations.is_granted & readable)
    behind = operations.grant[granted]
    over = np.where(behind >= 0, grants_end(truth, behind), -FOREVER)
    wrong = [(GRANTED, granted[(behind < 0) | (over < operations.call_at_ns[granted])])]

    # A writer that is not on record may have held the grant that the caller met.
    denied = np.flatnonzero(operations.is_denied & readable & ~truth.has_holes[operations.run])
    force_end = force_end_ns(truth)
    unexplained = denied[~meets_another_grant(truth, operations, denied, until=force_end)]
    wrong.append((DENIED, unexplained[~_are_excused(truth, operations, disturbances, unexplained, force_end)]))

    own = np.flatnonzero(called_in >= 0)
    call = called_in[own]
    left = operations.is_denied[call] & readable[call]
    still = np.where(grants.end_lo_ns[own] == ABSENT, FOREVER, grants.end_lo_ns[own]) > operations.return_at_ns[call]
    wrong.append((LEFT_BEHIND, np.unique(call[left & still])))

    wrong.append((NOT_RELEASED, _false_releases(truth, operations, given_back, readable)))
    wrong.append((RETURNED_TOKEN, granted[_is_wrong_token(truth, operations, granted, operations.token[granted])]))
    carried = _wrong_tokens_carried(truth, operations, readable)
    wrong.append((SHOWN_TOKEN, operations.by_request[events.request_keys(carried)]))
    what = np.concatenate([np.full(len(which), kind) for kind, which in wrong])
    bad = np.concatenate([which for _, which in wrong]).astype(np.int64)
    # The event that shows the wrong answer: the return, or the protected write that carried the token.
    row = operations.return_row[bad]
    row[len(bad) - len(carried) :] = carried
    assert bool(np.all(row >= 0)), "an event shows each wrong answer"

    def grant_behind(kind: int, one: int) -> int:
        if kind == NOT_RELEASED:
            return int(operations.grant[given_back[one]])
        if kind != LEFT_BEHIND:
            return int(operations.grant[one])
        group = events.lock_key[operations.call_row[one]]
        start, stop = (int(np.searchsorted(grants.group, group, side=side)) for side in ("left", "right"))
        return start + int(np.flatnonzero(called_in[start:stop] == one)[-1])

    def witness(index: int) -> dict[str, Any]:
        one = int(bad[index])
        seq = events.integers("seq")
        return {
            **(_describe_tokens(truth, operations, one, int(row[index])) if what[index] >= RETURNED_TOKEN else {}),
            "calls": [witness_call(events, operations, one)],
            "writes": _told_writes(truth, operations, one, grant_behind(int(what[index]), one)),
            "text": f"{events.text('node', int(operations.node[one]))} was {TEXTS[int(what[index])]}",
            "kind": KINDS[int(what[index])],
            "lock": events.text("lock", int(operations.lock[one])),
            "node": events.text("node", int(operations.node[one])),
            "task": events.text("task", int(operations.task[one])),
            "request": int(events.integers("request")[operations.call_row[one]]),
            "interval_ns": [int(operations.call_at_ns[one]), int(events.integers("at_ns")[row[index]])],
            "seq": [int(seq[operations.call_row[one]]), int(seq[row[index]])],
        }

    return Violations(clause="S7", run=operations.run[bad], at_ns=events.integers("at_ns")[row], witness=witness)


def _is_wrong_token(truth: Truth, operations: Operations, which: Ints, token: Ints) -> Flags:
    """Per operation of `which`: this token is in no record of its grant. A missing one is not wrong.

    Where each write raises the token, a grant has several.
    """
    if len(truth.grants.first) == 0:
        return np.zeros(len(which), dtype=np.bool_)
    grant = operations.grant[which]
    recorded = truth.grants.token[np.maximum(grant, 0)]
    last = last_tokens(truth)[np.maximum(grant, 0)]
    wrong: Flags = (grant >= 0) & (token != ABSENT) & (recorded != ABSENT) & ((token < recorded) | (token > last))
    return wrong


def _wrong_tokens_carried(truth: Truth, operations: Operations, readable: Flags) -> Ints:
    """EFFECT rows, the first of each tenure, that carried a token which neither the record nor the return named."""
    events = truth.events
    rows = events.rows(Kind.EFFECT)
    acquire = operations.by_request[events.request_keys_of(Kind.EFFECT)]
    rows, acquire = rows[acquire >= 0], acquire[acquire >= 0]
    token = events.integers("token")[rows]
    wrong = readable[acquire] & (token != operations.token[acquire])
    wrong &= _is_wrong_token(truth, operations, acquire, token)
    first: Ints = rows[wrong][np.unique(acquire[wrong], return_index=True)[1]]
    return first


def _describe_tokens(truth: Truth, operations: Operations, one: int, row: int) -> dict[str, Any]:
    """The record's words and the client's token, for a witness."""
    grant = int(operations.grant[one])
    return {
        "token": int(truth.events.integers("token")[row]),
        "recorded": int(truth.grants.token[grant]),
    }


def _told_writes(truth: Truth, operations: Operations, one: int, grant: int) -> list[dict[str, Any]]:
    """The writes that show the wrong answer of this call: what was there before and at its end, and its own grant's.

    grant: the grant that the answer is about, -1 for none.
    """
    grants, changes = truth.grants, truth.changes
    group = truth.events.lock_key[operations.call_row[one]]
    start, stop = (int(np.searchsorted(changes.group, group, side=side)) for side in ("left", "right"))
    over = int(operations.return_at_ns[one])
    known = start + int(np.searchsorted(changes.at_lo_ns[start:stop], over, side="right"))
    # What was there when the call returned, and when it began.
    there = {known - 1, start + int(np.searchsorted(changes.at_hi_ns[start:stop], operations.call_at_ns[one])) - 1}
    if grant >= 0:
        there |= {int(grants.first[grant]), int(grants.last[grant]), int(grants.end[grant])}
    return [truth.describe(which) for which in sorted(there) if start <= which < stop]


def _are_excused(
    truth: Truth, operations: Operations, disturbances: Disturbances, which: Ints, force_end: Ints
) -> Flags:
    """Per denial of `which`: it was right, although no interval explains it."""
    if len(which) == 0:
        return np.zeros(0, dtype=np.bool_)
    everything = np.arange(len(truth.grants.first))
    excuses = Excuses(truth, operations, disturbances, force_end_ns=force_end, end_ns=grants_end(truth, everything))
    return np.array([excuses.excuse(one) for one in which.tolist()], dtype=np.bool_)


def grants_end(truth: Truth, which: Ints) -> Ints:
    """The latest instant at which these grants ended in the chain; FOREVER while open."""
    if len(truth.grants.first) == 0:
        return np.full(len(which), FOREVER, dtype=np.int64)
    end = truth.grants.end_hi_ns[np.maximum(which, 0)]
    return np.where(end == ABSENT, FOREVER, end)


def _false_releases(truth: Truth, operations: Operations, tenure: Ints, readable: Flags) -> Ints:
    """Releases reported as done whose grant was still in force. An inner unlock of a re-entrant lock is none.

    tenure: per operation, see `tenure_of_release`.
    """
    done = (tenure >= 0) & readable & (operations.outcome == Outcome.APPLIED)
    which = np.flatnonzero(done)
    if len(which) == 0 or len(truth.grants.first) == 0:
        return np.zeros(0, dtype=np.int64)
    behind = operations.grant[tenure[which]]
    end = truth.grants.end_lo_ns[np.maximum(behind, 0)]
    held = (behind >= 0) & (np.where(end == ABSENT, FOREVER, end) > operations.return_at_ns[which])
    kept = which[held]
    false: Ints = kept[~are_inner(operations, tenure, kept, row_count=truth.events.count)]
    return false
