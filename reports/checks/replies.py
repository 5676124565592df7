"""Chain order in a real run, where nobody saw the writes take effect.

Each writer knows when it sent a write and what it was told. A successful
conditional write was sent after its author had read the version it replaces,
so after the write that made that version was sent: on one host, sorting by the
time of sending gives chain order. That settles almost every lock at once.

Two things remain, and are settled lock by lock. A write without a definite
answer (timeout, lost reply, author killed) may have landed: it did if some
later write replaced the version it must have made, or if somebody read its
content. And a create may have been sent before the delete that made room for
it: writes that overlap in time may swap places where the conditions say so.
What still does not fit stays as it is, and S1 reports it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lockref.history import Kind, Op
from lockref.stores.port import Outcome
from reports.checks.columns import NO_TEXT, Codes, Events, Flags, Ints
from reports.checks.segments import is_first, suspicious_groups

OPTIONAL_DEPTH = 3
"""How many unanswered writes in a row may bridge a gap in the chain; each costs a factor in the search."""

_UNKNOWN, _ABSENT = -2, -3
"""States besides version codes: before the first known write, and no object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """Applied writes: the event that tells of each, its sending, the bounds of its instant, the version it made."""

    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    version: Codes

    def take(self, order: Ints) -> Replies:
        return Replies(
            row=self.row[order],
            sent_row=self.sent_row[order],
            at_lo_ns=self.at_lo_ns[order],
            at_hi_ns=self.at_hi_ns[order],
            version=self.version[order],
        )

    @staticmethod
    def join(parts: Iterable[Replies]) -> Replies:
        known = list(parts)
        return Replies(
            row=np.concatenate([part.row for part in known]),
            sent_row=np.concatenate([part.sent_row for part in known]),
            at_lo_ns=np.concatenate([part.at_lo_ns for part in known]),
            at_hi_ns=np.concatenate([part.at_hi_ns for part in known]),
            version=np.concatenate([part.version for part in known]),
        )


@dataclass(slots=True)
class _Write:
    """One write of one lock. version is NO_TEXT where nobody was told it; until_ns: the latest it can have landed."""

    row: int
    sent_row: int
    sent_ns: int
    until_ns: int
    condition: int
    version: int
    content: int
    is_delete: bool

    def fits(self, state: int) -> bool:
        """True if the store would have applied it in this state. _UNKNOWN is any state."""
        if state == _UNKNOWN or self.condition == NO_TEXT:
            return True
        return self.condition == state

    def leaves(self) -> int:
        if self.is_delete:
            return _ABSENT
        return self.version if self.version != NO_TEXT else _UNKNOWN


def order_replies(events: Events, replied: Ints, sent: Ints, *, absent: int) -> Replies:
    """The writes that took effect, per lock in chain order.

    replied, sent: REPLIED and SENT rows of the locks, reads included; absent:
    the code of the condition "absent".
    """
    op, outcome, at = events.numbers("op"), events.numbers("outcome"), events.integers("at_ns")
    writes = replied[op[replied] != Op.READ]
    applied = writes[outcome[writes] == Outcome.APPLIED]
    sent_row = events.sent_by_request[events.request_keys(applied)]
    begin = at[np.where(sent_row >= 0, sent_row, applied)]
    order = np.lexsort((begin, events.lock_key[applied]))
    applied, sent_row, begin = applied[order], sent_row[order], begin[order]
    settled = Replies(
        row=applied,
        sent_row=sent_row,
        at_lo_ns=begin,
        at_hi_ns=at[applied],
        version=events.codes("version")[applied],
    )
    unanswered = _unanswered(events, writes, sent)
    group = events.lock_key[applied]
    doubtful = np.unique(np.concatenate((group[_does_not_fit(events, settled, absent)], events.lock_key[unanswered])))
    if len(doubtful):
        calm = ~np.isin(group, doubtful)
        parts = [settled.take(np.flatnonzero(calm))]
        parts += [_settle(events, key, settled, unanswered, replied, absent) for key in doubtful.tolist()]
        settled = Replies.join(parts)
        settled = settled.take(np.argsort(events.lock_key[settled.row], kind="stable"))
    return _tightened(events, settled)


def _unanswered(events: Events, writes: Ints, sent: Ints) -> Ints:
    """Rows of writes whose effect is unknown: the ambiguous answers, and the sendings that have none."""
    op, outcome = events.numbers("op"), events.numbers("outcome")
    answered = events.index_by_request(events.rows(Kind.REPLIED))[events.request_keys(sent)] >= 0
    silent = sent[(op[sent] != Op.READ) & ~answered]
    return np.concatenate((writes[outcome[writes] == Outcome.AMBIGUOUS], silent))


def _does_not_fit(events: Events, writes: Replies, absent: int) -> Flags:
    condition = events.codes("if_version")[writes.row]
    group = events.lock_key[writes.row]
    is_delete = events.numbers("op")[writes.row] == Op.DELETE
    odd = np.zeros(len(condition), dtype=np.bool_)
    if len(condition) > 1:
        fits = np.where(
            condition[1:] == absent, is_delete[:-1], (condition[1:] == writes.version[:-1]) & ~is_delete[:-1]
        )
        odd[1:] = (group[1:] == group[:-1]) & (condition[1:] != NO_TEXT) & ~fits
    return odd


def _settle(events: Events, key: int, settled: Replies, unanswered: Ints, replied: Ints, absent: int) -> Replies:
    """One lock's writes in an order that fits, with those unanswered ones that must have landed."""
    here = np.flatnonzero(events.lock_key[settled.row] == key)
    certain = [
        _write(events, int(settled.row[one]), int(settled.sent_row[one]), int(settled.version[one]), absent)
        for one in here.tolist()
    ]
    shown, seen_absent = _what_reads_show(events, replied[events.lock_key[replied] == key])
    told = {write.content for write in certain if write.content != NO_TEXT}
    maybe: list[_Write] = []
    for row in unanswered[events.lock_key[unanswered] == key].tolist():
        sent_row = int(events.sent_by_request[events.request_keys(np.array([row]))][0])
        write = _write(events, row, sent_row, NO_TEXT, absent)
        views = [view for view in shown.get(write.content, ()) if view[0] >= write.sent_ns]
        # The same bytes sent again and applied explain the reading without this one.
        if views and write.content not in told:
            write.version, write.until_ns = views[0][1], views[0][0]
        maybe.append(write)
    chain = _Walk(certain, maybe, seen_absent).chain()
    at = events.integers("at_ns")
    return Replies(
        row=np.array([write.row for write in chain], dtype=np.int64),
        sent_row=np.array([write.sent_row for write in chain], dtype=np.int64),
        at_lo_ns=np.array([write.sent_ns for write in chain], dtype=np.int64),
        at_hi_ns=np.array([min(write.until_ns, int(at[-1])) for write in chain], dtype=np.int64),
        version=np.array([write.version for write in chain], dtype=np.int32),
    )


def _write(events: Events, row: int, sent_row: int, version: int, absent: int) -> _Write:
    at = events.integers("at_ns")
    condition = int(events.codes("if_version")[row])
    is_answered = events.numbers("outcome")[row] == Outcome.APPLIED
    return _Write(
        row=row,
        sent_row=sent_row,
        sent_ns=int(at[sent_row if sent_row >= 0 else row]),
        until_ns=int(at[row]) if is_answered else int(np.iinfo(np.int64).max),
        condition=_ABSENT if condition == absent else condition,
        version=version,
        content=int(events.codes("content")[row]),
        is_delete=bool(events.numbers("op")[row] == Op.DELETE),
    )


def _what_reads_show(events: Events, replied: Ints) -> tuple[dict[int, list[tuple[int, int]]], list[int]]:
    """By content, the (time, version) of readings that showed it, and the times of readings that found nothing."""
    reads = replied[
        (events.numbers("op")[replied] == Op.READ) & (events.numbers("outcome")[replied] == Outcome.APPLIED)
    ]
    shown: dict[int, list[tuple[int, int]]] = defaultdict(list)
    nothing: list[int] = []
    at, version, content = events.integers("at_ns"), events.codes("version"), events.codes("content")
    for row in reads.tolist():
        if version[row] == NO_TEXT and content[row] == NO_TEXT:
            nothing.append(int(at[row]))
        else:
            shown[int(content[row])].append((int(at[row]), int(version[row])))
    return shown, nothing


class _Walk:
    """A greedy walk along one lock's chain: certain writes by time of sending, others where they are needed."""

    def __init__(self, certain: list[_Write], maybe: list[_Write], seen_absent: list[int]) -> None:
        self._certain = certain
        self._maybe = maybe
        self._seen_absent = seen_absent

    def chain(self) -> list[_Write]:
        placed: list[_Write] = []
        state = _UNKNOWN
        waiting = list(self._certain)
        while waiting:
            first = waiting[0]
            if not first.fits(state):
                bridge = self._bridge(state, first, OPTIONAL_DEPTH)
                if bridge is not None:
                    for write in bridge:
                        self._maybe.remove(write)
                        write.until_ns = min(write.until_ns, first.until_ns)
                    placed += bridge
                else:
                    first = next(
                        (write for write in waiting if write.sent_ns <= first.until_ns and write.fits(state)), first
                    )
            waiting.remove(first)
            placed.append(first)
            state = first.leaves()
        placed += self._landed_last(state)
        return placed

    def _bridge(self, state: int, target: _Write, depth: int) -> list[_Write] | None:
        """Unanswered writes that lead from `state` to one in which `target` fits; the fewest, earliest first."""
        for length in range(1, depth + 1):
            found = self._bridge_of(state, target, length, ())
            if found is not None:
                return found
        return None

    def _bridge_of(self, state: int, target: _Write, length: int, used: tuple[_Write, ...]) -> list[_Write] | None:
        for write in self._maybe:
            if write in used or write.sent_ns > target.until_ns or not write.fits(state):
                continue
            if length > 1:
                rest = self._bridge_of(write.leaves(), target, length - 1, (*used, write))
                if rest is not None:
                    return [write, *rest]
            elif self._makes(write, target.condition):
                if not write.is_delete:
                    write.version = target.condition
                return [write]
        return None

    @staticmethod
    def _makes(write: _Write, condition: int) -> bool:
        """True if this write can have made the state that `condition` asks for."""
        if write.is_delete or condition == _ABSENT:
            return write.is_delete and condition == _ABSENT
        return write.version in (NO_TEXT, condition)

    def _landed_last(self, state: int) -> list[_Write]:
        """Unanswered writes after the last certain one: those whose content, or whose absence, somebody read."""
        landed: list[_Write] = []
        remaining = sorted(self._maybe, key=lambda write: write.sent_ns)
        for _ in range(len(remaining)):
            following = next((write for write in remaining if write.fits(state) and self._is_seen(write)), None)
            if following is None:
                break
            remaining.remove(following)
            landed.append(following)
            state = following.leaves()
        return landed

    def _is_seen(self, write: _Write) -> bool:
        if not write.is_delete:
            return write.version != NO_TEXT
        later = [at for at in self._seen_absent if at >= write.sent_ns]
        if later:
            write.until_ns = min(write.until_ns, later[0])
        return bool(later)


def _tightened(events: Events, writes: Replies) -> Replies:
    """Bounds that follow the order: nothing lands before its predecessor can, nor after its successor must."""
    group = events.lock_key[writes.row]
    low, high = writes.at_lo_ns.copy(), writes.at_hi_ns.copy()
    crossed = np.zeros(len(group), dtype=np.bool_)
    if len(group) > 1:
        crossed[1:] = ((low[1:] < low[:-1]) | (high[1:] < high[:-1])) & (group[1:] == group[:-1])
    for rows in suspicious_groups(group, crossed):
        low[rows] = np.maximum.accumulate(low[rows])
        high[rows] = np.maximum(np.minimum.accumulate(high[rows][::-1])[::-1], low[rows])
    return Replies(row=writes.row, sent_row=writes.sent_row, at_lo_ns=low, at_hi_ns=high, version=writes.version)


def holes(group: Ints, condition: Codes, version: Codes, broken: Flags) -> Flags:
    """True where a write that fits nothing replaced a version that no known write of its lock had made.

    That is no fork: somebody whose writes are not in the record was there.
    """
    unexplained = np.zeros(len(group), dtype=np.bool_)
    if not broken.any():
        return unexplained
    firsts = np.flatnonzero(is_first(group))
    for position in np.flatnonzero(broken).tolist():
        start = int(firsts[np.searchsorted(firsts, position, side="right") - 1])
        wanted = condition[position]
        unexplained[position] = not bool(
            np.any(version[start:position] == wanted) | np.any(condition[start:position] == wanted)
        )
    return unexplained
