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
What still does not fit stays as it is. S1 accuses the store where no order
whatever would be legal (`proven_faults`), and is undecided elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from lockref.words import Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints, are_among
from reports.checks.facts.segments import rows_of_group, suspicious_groups
from reports.checks.facts.sources.chain_walk import Walk
from reports.checks.facts.sources.chain_writes import ABSENT_STATE, Write, times_from
from reports.checks.facts.sources.proven_faults import FOREVER_NS, ProvenFaults

_REFUSALS = (Outcome.PRECONDITION_FAILED, Outcome.CONFLICT, Outcome.THROTTLED, Outcome.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedWrites:
    """Writes that took effect: the event that tells of each, its sending, the bounds of its instant, its version.

    is_proven: the store applied it against its condition, in whatever order they took effect (`proven_faults`).
    """

    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    version: Codes
    is_proven: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        if not len(self.is_proven):
            object.__setattr__(self, "is_proven", np.zeros(len(self.row), dtype=np.bool_))
        assert len({len(column) for column in self.columns().values()}) == 1, (
            "a column of writes is longer than another"
        )

    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def take(self, order: Ints) -> AppliedWrites:
        return AppliedWrites(**{name: column[order] for name, column in self.columns().items()})

    @staticmethod
    def join(parts: Iterable[AppliedWrites]) -> AppliedWrites:
        columns = [part.columns() for part in parts]
        return AppliedWrites(**{name: np.concatenate([part[name] for part in columns]) for name in columns[0]})


def order_replies(events: Events, replied: Ints, sent: Ints, *, absent: int) -> AppliedWrites:
    """The writes that took effect, per lock in chain order.

    replied, sent: REPLIED and SENT rows of the locks, reads included; absent:
    the code of the condition "absent".
    """
    op, outcome, at = events.numbers("op"), events.numbers("outcome"), events.integers("at_ns")
    writes = replied[op[replied] != Op.READ]
    applied = writes[outcome[writes] == Outcome.APPLIED]
    sent_row = events.sent_by_request[events.request_keys(applied)]
    # By sending, not by answer: an answer may come late, after the lock's next writes were answered. A client that
    # replaces a version had learned it before it sent, so the write that made the version was sent earlier still. This
    # needs one clock for all writers, which processes of one host have. Rejected: to follow versions from write to
    # write. Equal bytes have equal versions on some stores, so a version may name several predecessors.
    begin = at[np.where(sent_row >= 0, sent_row, applied)]
    order = np.lexsort((begin, events.lock_key[applied]))
    applied, sent_row, begin = applied[order], sent_row[order], begin[order]
    settled = AppliedWrites(
        row=applied,
        sent_row=sent_row,
        at_lo_ns=begin,
        at_hi_ns=at[applied],
        version=events.codes("version")[applied],
    )
    unanswered = np.concatenate((_unanswered(events, writes, sent), _refused_and_read(events, replied)))
    group = events.lock_key[applied]
    # Nearly every lock of a history has no doubt, and is done here in a few operations on arrays. The walk below it is
    # Python, write by write, and only for the locks that need it.
    doubtful = np.unique(np.concatenate((group[_does_not_fit(events, settled, absent)], events.lock_key[unanswered])))
    if len(doubtful):
        calm = ~np.isin(group, doubtful)
        parts = [settled.take(np.flatnonzero(calm))]
        locks = _Locks(events, settled, unanswered, replied, absent)
        parts += [locks.settled_anew(key) for key in doubtful.tolist()]
        settled = AppliedWrites.join(parts)
        settled = settled.take(np.argsort(events.lock_key[settled.row], kind="stable"))
    assert len(settled.row) >= len(applied), "a confirmed write took effect"
    return _tightened(events, settled)


def _unanswered(events: Events, writes: Ints, sent: Ints) -> Ints:
    """Rows of writes whose effect is unknown: the ambiguous answers, and the sendings that have none."""
    op, outcome = events.numbers("op"), events.numbers("outcome")
    answered = events.replied_by_request[events.request_keys(sent)] >= 0
    silent = sent[(op[sent] != Op.READ) & ~answered]
    return np.concatenate((writes[outcome[writes] == Outcome.AMBIGUOUS], silent))


def _refused_and_read(events: Events, replied: Ints) -> Ints:
    """Rows of writes that were answered "refused", though somebody read their content: sent twice unseen (E17)."""
    op, outcome, content = events.numbers("op"), events.numbers("outcome"), events.codes("content")
    known = replied[content[replied] != NO_TEXT]
    is_read = op[known] == Op.READ
    is_refused = ~is_read & are_among(outcome[known], _REFUSALS)
    where = events.lock_key[known] * (events.text_count("content") + 1) + content[known]
    refused: Ints = known[is_refused & np.isin(where, where[is_read & (outcome[known] == Outcome.APPLIED)])]
    return refused


def _does_not_fit(events: Events, writes: AppliedWrites, absent: int) -> Flags:
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


class _Locks:
    """The writes and readings of many locks, each found without looking at those of the others."""

    def __init__(self, events: Events, settled: AppliedWrites, unanswered: Ints, replied: Ints, absent: int) -> None:
        self._events, self._settled, self._absent = events, settled, absent
        self._settled_lock = events.lock_key[settled.row]
        self._unanswered, self._unanswered_lock = _by_lock(events, unanswered)
        self._replied, self._replied_lock = _by_lock(events, replied)

    def settled_anew(self, key: int) -> AppliedWrites:
        """One lock's writes in an order that fits, with those unanswered ones that must have landed."""
        events, settled = self._events, self._settled
        here = rows_of_group(self._settled_lock, key)
        certain = self._writes(settled.row[here], settled.sent_row[here], settled.version[here])
        readings = _what_reads_show(events, self._replied[rows_of_group(self._replied_lock, key)])
        maybe = self._maybe(key, readings, {write.content for write in certain if write.content != NO_TEXT})
        # Before the walk, which names what an unanswered write must have made where it is needed.
        faults = ProvenFaults(certain, maybe, readings.contents, *_first_shown(certain, maybe, readings))
        chain = Walk(certain, maybe, readings.nothing_ns, readings.contents).chain()
        rows = {write.row for write in chain}
        confirmed = {write.row for write in certain}
        proven = faults.rows([write for write in chain if write.row in confirmed])
        assert len(rows) == len(chain), "a write takes effect once"
        assert rows.issuperset(confirmed), "a confirmed write took effect"
        # The end of this run alone: other runs of the table have clocks of their own.
        run = key // (events.text_count("lock") + 1)
        end_ns = int(events.integers("at_ns")[rows_of_group(events.run, run)].max())
        return AppliedWrites(
            row=np.array([write.row for write in chain], dtype=np.int64),
            sent_row=np.array([write.sent_row for write in chain], dtype=np.int64),
            at_lo_ns=np.array([write.sent_ns for write in chain], dtype=np.int64),
            at_hi_ns=np.array([min(write.until_ns, end_ns) for write in chain], dtype=np.int64),
            version=np.array([write.version for write in chain], dtype=np.int32),
            is_proven=np.array([write.row in proven for write in chain], dtype=np.bool_),
        )

    def _maybe(self, key: int, readings: _Readings, told: set[int]) -> list[Write]:
        """The unanswered writes of a lock that can have landed; told: the contents of its confirmed writes."""
        events = self._events
        rows = self._unanswered[rows_of_group(self._unanswered_lock, key)]
        sent_row = events.sent_by_request[events.request_keys(rows)]
        is_refused = are_among(events.numbers("outcome")[rows], _REFUSALS)
        found: list[Write] = []
        for write, refused in zip(
            self._writes(rows, sent_row, np.full(len(rows), NO_TEXT)), is_refused.tolist(), strict=True
        ):
            # The same bytes sent again and applied explain the reading without this one.
            view = readings.first_view(write.content, write.sent_ns) if write.content not in told else None
            if view is not None:
                write.until_ns, write.version = view
            elif refused:
                continue
            found.append(write)
        return found

    def _writes(self, rows: Ints, sent_row: Ints, version: Codes) -> list[Write]:
        events, at = self._events, self._events.integers("at_ns")
        condition = events.codes("if_version")[rows]
        is_answered = events.numbers("outcome")[rows] == Outcome.APPLIED
        # An unanswered write may land for ever: its request can still be on the way when the run ends.
        columns = (
            rows,
            sent_row,
            at[np.where(sent_row >= 0, sent_row, rows)],
            np.where(is_answered, at[rows], np.iinfo(np.int64).max),
            np.where(condition == self._absent, ABSENT_STATE, condition),
            version,
            events.codes("content")[rows],
            events.numbers("op")[rows] == Op.DELETE,
        )
        return [Write(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def _by_lock(events: Events, rows: Ints) -> tuple[Ints, Ints]:
    """These rows by lock, those of one lock in the order in which they came, and the lock of each."""
    rows = rows[np.argsort(events.lock_key[rows], kind="stable")]
    return rows, events.lock_key[rows]


@dataclass(frozen=True)
class _Readings:
    """The readings of one lock.

    shown_ns, shown: by content, when readings showed it, ascending, and under which version. contents: by version, what
    was found under it. nothing_ns: when readings found nothing, ascending.
    """

    shown_ns: dict[int, list[int]]
    shown: dict[int, list[int]]
    contents: dict[int, set[int]]
    nothing_ns: list[int]

    def first_view(self, content: int, since_ns: int) -> tuple[int, int] | None:
        """When a content was first read from this time on, and under which version."""
        times = self.shown_ns.get(content, [])
        at_ns = times_from(times, since_ns)
        return None if at_ns is None else (at_ns, self.shown[content][bisect_left(times, since_ns)])


def _what_reads_show(events: Events, replied: Ints) -> _Readings:
    reads = replied[
        (events.numbers("op")[replied] == Op.READ) & (events.numbers("outcome")[replied] == Outcome.APPLIED)
    ]
    at = events.integers("at_ns")[reads]
    order = np.argsort(at, kind="stable")
    reads, at = reads[order], at[order]
    readings = _Readings(defaultdict(list), defaultdict(list), defaultdict(set), [])
    columns = (at, events.codes("version")[reads], events.codes("content")[reads])
    for at_ns, version, content in zip(*(column.tolist() for column in columns), strict=True):
        if version == NO_TEXT and content == NO_TEXT:
            readings.nothing_ns.append(at_ns)
            continue
        readings.shown_ns[content].append(at_ns)
        readings.shown[content].append(version)
        if content != NO_TEXT:
            readings.contents[version].add(content)
    return readings


def _first_shown(certain: list[Write], maybe: list[Write], readings: _Readings) -> tuple[dict[int, int], int]:
    """By version, when an answer first showed it or a request first named it; and when anything was seen first."""
    shown_ns: dict[int, int] = {}
    seen_ns = min((write.until_ns for write in certain), default=FOREVER_NS)
    named = [(write.sent_ns, write.condition) for write in (*certain, *maybe) if write.condition >= 0]
    for content, times in readings.shown_ns.items():
        named += zip(times, readings.shown[content], strict=True)
    for at_ns, version in named:
        shown_ns[version] = min(at_ns, shown_ns.get(version, at_ns))
    first_read_ns = readings.nothing_ns[:1] + [at_ns for at_ns, _ in named]
    return shown_ns, min([seen_ns, *first_read_ns])


def _tightened(events: Events, writes: AppliedWrites) -> AppliedWrites:
    """Bounds that follow the order: nothing lands before its predecessor can, nor after its successor must."""
    group = events.lock_key[writes.row]
    low, high = writes.at_lo_ns.copy(), writes.at_hi_ns.copy()
    crossed = np.zeros(len(group), dtype=np.bool_)
    if len(group) > 1:
        crossed[1:] = ((low[1:] < low[:-1]) | (high[1:] < high[:-1])) & (group[1:] == group[:-1])
    for rows in suspicious_groups(group, crossed):
        # Lower bounds rise from the front, upper bounds fall from the back. Where the order itself is in doubt the two
        # may cross; then the write is put at its lower bound.
        low[rows] = np.maximum.accumulate(low[rows])
        high[rows] = np.maximum(np.minimum.accumulate(high[rows][::-1])[::-1], low[rows])
        assert bool(np.all(np.diff(high[rows]) >= 0)), "bounds of one lock follow its order"
    return replace(writes, at_lo_ns=low, at_hi_ns=high)


def holes(events: Events, writes: AppliedWrites, broken: Flags, *, absent: int, found_nothing: Ints) -> Flags:
    """True where a write that fits no known state met a state which no known write of its lock had left.

    The store did nothing wrong then: a writer whom nobody recorded was at work. Such a write replaced a version that
    nobody on record had made, or it created the object after a reading had found that the known one was gone.

    found_nothing: REPLIED rows of readings of locks that found no object.
    """
    if not broken.any():
        return np.zeros(len(broken), dtype=np.bool_)
    group, condition = events.lock_key[writes.row], events.codes("if_version")[writes.row]
    # Where in its lock each version was first made, or first asked for.
    width = events.text_count("version") + 2
    before = np.full(len(group), len(group), dtype=np.int64)
    for named in (writes.version, condition):
        known, first = np.unique(group * width + named + 1, return_index=True)
        wanted = group * width + condition + 1
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        before = np.minimum(before, np.where(known[place] == wanted, first[place], len(group)))
    unexplained: Flags = broken & (condition != absent) & (before >= np.arange(len(group)))
    found_nothing, nothing_lock = _by_lock(events, found_nothing)
    at, sent_row = events.integers("at_ns"), events.sent_by_request[events.request_keys(found_nothing)]
    asked_ns = at[np.where(sent_row >= 0, sent_row, found_nothing)]
    looks: dict[int, tuple[Ints, Ints]] = {}
    for position in np.flatnonzero(broken & (condition == absent)).tolist():
        lock = int(group[position])
        if lock not in looks:
            here = rows_of_group(nothing_lock, lock)
            here = here[np.argsort(asked_ns[here], kind="stable")]
            looks[lock] = asked_ns[here], np.minimum.accumulate(at[found_nothing[here]][::-1])[::-1]
        asked, earliest_answer = looks[lock]
        later = int(np.searchsorted(asked, writes.at_hi_ns[position - 1], side="right"))
        unexplained[position] |= later < len(asked) and earliest_answer[later] <= writes.at_hi_ns[position]
    assert not bool(np.any(unexplained & ~broken)), "only a write that does not fit shows a hole"
    return unexplained
