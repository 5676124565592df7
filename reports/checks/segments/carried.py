"""Carried events: the rows of a run that a piece leaves to the next one.

For each lock these are all its events from some *quiet instant* on, at which its record says that nobody holds it and
no write is under way. It lies before everything that is still open at the end of the piece:

- calls without a return, and waits that go on from call to call,
- tenures: granted, and neither given back nor known to be lost,
- writes without a sure answer, until the lock has been granted twice since,

and before the last grants (`GRANTS_CARRIED`) and what showed the highest token. Faults, which belong to no lock, are
carried once for each kind, phase and node. A lock without such an instant is carried whole: that costs memory and no
truth. So is a run whose grants are read off anything else than a chain of records and calls.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.facts.columns import Events, Flags, Ints, Runs, are_among, is_first
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.protocols import CHAIN, Locks

GRANTS_CARRIED: Final = 64
"""So many last grants of each lock are carried at least: a late write, or a late answer, names one of them."""

SURE_AFTER: Final = 2
"""After so many later writes that took effect, a write without an answer no longer counts as under way."""

_NO_WRITES: Final = (Op.NONE, Op.READ, Op.GUARD)


def carried_rows(events: Events, runs: Runs, *, grants: int = GRANTS_CARRIED) -> Flags:
    """Per event of one run, in order: the next piece needs it. runs: its one row. grants: see `GRANTS_CARRIED`."""
    locks = Locks(events, runs)
    are_locks = locks.of(CHAIN)
    is_known = are_locks.any() and not locks.is_on_wire.any() and bool(np.array_equal(are_locks, locks.are_locks))
    if not events.count or not is_known:
        return np.ones(events.count, dtype=np.bool_)
    limit = _Limits(events)
    _before_open_calls(events, runs, limit)
    _before_open_tenures(events, limit)
    writes = _Writes(events)
    limit.lower(writes.under_way)
    _before_last_grants(events, writes, limit, most=grants)
    _before_highest_tokens(events, writes, limit)
    from_row = _last_quiet(events, writes, limit.row_of_lock)
    # Other objects, such as fences and audit files, are read and written in calls of the locks.
    from_row[~are_locks] = from_row[are_locks].min()
    kept: Flags = np.arange(events.count) >= from_row[events.codes("lock") + 1]
    outside = events.rows(Kind.FAULT, Kind.CLOCK)
    if len(outside):
        # The last of each: whether a fault goes on is told by the last phase of it that was recorded.
        what = renumber(*(events.codes(name)[outside].astype(np.int64) for name in ("node", "detail")))[0]
        last = np.full(int(what.max()) + 1, -1, dtype=np.int64)
        last[what] = outside
        kept[last[last >= 0]] = True
    # Calls that began before that instant and returned after it: what their clients did then bears their number.
    calls = events.rows(Kind.CALL)
    returns = events.index_by_request(Kind.RETURN)[events.request_keys(calls)]
    kept[calls[(returns >= 0) & kept[np.maximum(returns, 0)]]] = True
    return kept


class _Limits:
    """Per lock, the row before which its quiet instant must lie. row_of_lock: by the code of the lock + 1."""

    def __init__(self, events: Events) -> None:
        self._lock = events.codes("lock")
        self.row_of_lock = np.full(events.text_count("lock") + 1, events.count, dtype=np.int64)

    def lower(self, rows: Ints) -> None:
        """Note that something that is open began with each of these rows."""
        np.minimum.at(self.row_of_lock, self._lock[rows] + 1, rows)


def _before_open_calls(events: Events, runs: Runs, limit: _Limits) -> None:
    """Calls that have not returned, and acquire calls whose clients may go on waiting after a denial."""
    calls = events.rows(Kind.CALL)
    returns = events.index_by_request(Kind.RETURN)[events.request_keys(calls)]
    limit.lower(calls[returns < 0])
    asked = np.flatnonzero(events.numbers("op")[calls] == Op.ACQUIRE)
    calls, returns = calls[asked], returns[asked]
    if not len(calls):
        return
    at = events.integers("at_ns")
    who = renumber(
        events.codes("lock")[calls].astype(np.int64),
        events.client_key(events.codes("node")[calls], events.codes("task")[calls]),
    )[0]
    granted = (returns >= 0) & (events.numbers("outcome")[np.maximum(returns, 0)] == Outcome.APPLIED)
    order = np.argsort(who, kind="stable")
    calls, returns, granted, who = calls[order], returns[order], granted[order], who[order]
    # Per client: its last granted call. What it asked afterwards is one wait, however many calls it took.
    place = np.arange(len(calls))
    last_granted = np.full(int(who.max()) + 1, -1, dtype=np.int64)
    last_granted[who[granted]] = place[granted]
    begun = np.flatnonzero(place > last_granted[who])
    begun = begun[is_first(who[begun])]
    last = np.full(int(who.max()) + 1, -1, dtype=np.int64)
    last[who] = place
    over_ns = at[np.maximum(returns[last[who[begun]]], 0)]
    pause_ns = sum(max(int(runs.integers(name)[0]), 0) for name in ("think_ns", "poll_interval_ns", "validity_ns"))
    goes_on = (returns[last[who[begun]]] >= 0) & (int(at.max()) - over_ns <= pause_ns)
    limit.lower(calls[begun[goes_on]])


def _before_open_tenures(events: Events, limit: _Limits) -> None:
    """Granted calls whose nodes have neither given the lock back nor learned that they lost it."""
    call_of = events.index_by_request(Kind.CALL)
    op, outcome = events.numbers("op"), events.numbers("outcome")
    returns = events.rows(Kind.RETURN)
    granted = returns[(op[returns] == Op.ACQUIRE) & (outcome[returns] == Outcome.APPLIED)]
    given_back = returns[op[returns] == Op.RELEASE]
    lost = events.rows(Kind.DISBELIEVED)
    rows = np.concatenate((granted, given_back, lost))
    step = np.concatenate((np.ones(len(granted), np.int64), np.full(len(given_back) + len(lost), -1, np.int64)))
    home = renumber(*(events.codes(name)[rows].astype(np.int64) for name in ("lock", "node")))[0]
    order = np.lexsort((rows, home))
    rows, step, home = rows[order], step[order], home[order]
    if not len(rows):
        return
    first = is_first(home)
    starts = np.repeat(np.flatnonzero(first), np.diff(np.append(np.flatnonzero(first), len(rows))))
    total = np.cumsum(step)
    depth = total - (total[starts] - step[starts])
    # How often it is held, never below 0: the sum without the lowest sum so far. Groups fall, so that one running
    # minimum serves all.
    fall = 2 * len(rows) + 2
    lowest = np.minimum.accumulate(np.minimum(depth, 0) - fall * home) + fall * home
    held = depth - lowest
    # The last moment at which its node did not hold it: what was granted since is open.
    place = np.arange(len(rows))
    free = np.full(int(home.max()) + 1, -1, dtype=np.int64)
    free[home[held == 0]] = place[held == 0]
    is_open = (place > free[home]) & (step > 0)
    began = call_of[events.request_keys(rows[is_open])]
    limit.lower(np.where(began >= 0, began, rows[is_open]))


class _Writes:
    """The writes of records in one run.

    applied: rows that tell that a write took effect, ascending. sent: the row of the sending of each, or that row.
    under_way: rows of the sendings that may take effect still. busy, answered: other sendings, their answers.
    """

    def __init__(self, events: Events) -> None:
        op, outcome, lock = events.numbers("op"), events.numbers("outcome"), events.codes("lock")
        sent = events.rows(Kind.SENT)
        sent = sent[~are_among(op[sent], _NO_WRITES)]
        replied = events.rows(Kind.REPLIED)
        # A simulated service says itself what took effect.
        told = events.rows(Kind.APPLIED)
        told = told if len(told) else replied
        self.applied = told[(outcome[told] == Outcome.APPLIED) & ~are_among(op[told], _NO_WRITES)]
        sending = events.sent_by_request[events.request_keys(self.applied)]
        self.sent = np.where(sending >= 0, sending, self.applied)
        answer = events.index_by_request(Kind.REPLIED)[events.request_keys(sent)]
        is_sure = (answer >= 0) & (outcome[np.maximum(answer, 0)] != Outcome.AMBIGUOUS)
        # Sent before the writes that made it sure, in each lock: the place from the end.
        order = np.lexsort((self.sent, lock[self.applied]))
        by_lock, by_row = lock[self.applied][order], self.sent[order]
        ends = np.searchsorted(by_lock, lock[sent], side="right")
        sure_from = ends - SURE_AFTER
        has_later = (sure_from >= 0) & (sure_from < len(by_row))
        at = np.clip(sure_from, 0, max(len(by_row) - 1, 0))
        if len(by_row):
            has_later &= by_lock[at] == lock[sent]
            has_later &= by_row[at] > np.where(answer >= 0, answer, sent)
        is_over = ~is_sure & has_later
        self.under_way = sent[~is_sure & ~is_over]
        self.busy, self.answered = sent[is_sure], answer[is_sure]


def _before_last_grants(events: Events, writes: _Writes, limit: _Limits, *, most: int) -> None:
    """The last grants of each lock."""
    lock = events.codes("lock")
    grants = writes.applied[events.numbers("op")[writes.applied] == Op.ACQUIRE]
    sent = writes.sent[events.numbers("op")[writes.applied] == Op.ACQUIRE]
    order = np.lexsort((grants, lock[grants]))
    grants, sent = grants[order], sent[order]
    for rows in np.split(np.arange(len(grants)), np.flatnonzero(np.diff(lock[grants])) + 1):
        if len(rows):
            if len(rows) < most:
                limit.row_of_lock[lock[grants[rows[0]]] + 1] = 0
            limit.lower(sent[rows[-most:]])


def _before_highest_tokens(events: Events, writes: _Writes, limit: _Limits) -> None:
    """The write with the highest token of each lock, and the acquire call that returned the highest one.

    A renewal may raise the token, too. Where no record shows tokens, those that calls returned are compared.
    """
    op, outcome, token = events.numbers("op"), events.numbers("outcome"), events.integers("token")
    returns = events.rows(Kind.RETURN)
    returns = returns[(op[returns] == Op.ACQUIRE) & (outcome[returns] == Outcome.APPLIED)]
    calls = events.index_by_request(Kind.CALL)[events.request_keys(returns)]
    for rows, began in ((writes.applied, writes.sent), (returns, np.where(calls >= 0, calls, returns))):
        told = np.flatnonzero(token[rows] != ABSENT)
        lock = events.codes("lock")[rows[told]].astype(np.int64)
        order = np.lexsort((rows[told], -token[rows[told]], lock))
        limit.lower(began[told[order[is_first(lock[order])]]])


def _last_quiet(events: Events, writes: _Writes, limit: Ints) -> Ints:
    """Per code of a lock + 1: the last row but one before its limit at which nothing was open; 0 for none."""
    op, lock = events.numbers("op"), events.codes("lock")
    rows = np.concatenate((writes.busy, writes.answered, writes.applied))
    parts = [len(writes.busy), len(writes.answered), len(writes.applied)]
    step = np.repeat(np.array([1, -1, 0], dtype=np.int64), parts)
    # What the record says from this row on: 1 free, 0 held; -1 no change.
    freed = are_among(op[writes.applied], (Op.RELEASE, Op.DELETE)).astype(np.int64)
    state = np.concatenate((np.full(parts[0] + parts[1], -1, dtype=np.int64), freed))
    order = np.lexsort((step != 0, rows, lock[rows]))
    rows, step, state = rows[order], step[order], state[order]
    where = lock[rows]
    first = is_first(where.astype(np.int64))
    place = np.arange(len(rows))
    starts = np.maximum.accumulate(np.where(first, place, 0)) if len(rows) else place
    total = np.cumsum(step)
    under_way = total - (total[starts] - step[starts]) if len(rows) else total
    told = np.maximum.accumulate(np.where(state >= 0, place, -1)) if len(rows) else place
    is_free = (told >= starts) & (state[np.maximum(told, 0)] == 1)
    # Several entries may stand for one row; the last of them tells.
    is_last = np.ones(len(rows), dtype=np.bool_)
    is_last[:-1] = rows[1:] != rows[:-1]
    quiet = np.flatnonzero(is_free & (under_way == 0) & is_last)
    quiet = quiet[rows[quiet] + 1 <= limit[where[quiet] + 1]]
    found = np.zeros(len(limit), dtype=np.int64)
    np.maximum.at(found, where[quiet] + 1, rows[quiet] + 1)
    # The one before it, so that a witness can tell what was there before the first thing that is open.
    quiet = quiet[rows[quiet] + 1 < found[where[quiet] + 1]]
    found[:] = 0
    np.maximum.at(found, where[quiet] + 1, rows[quiet] + 1)
    assert bool(np.all(found <= np.maximum(limit, 0))), "what is open began before a quiet instant"
    return found
