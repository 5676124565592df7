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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lockref.words import Kind, Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints
from reports.checks.facts.segments import rows_of_group, suspicious_groups

OPTIONAL_DEPTH = 3
"""How many unanswered writes whose content nobody read may bridge a gap; each costs a factor in the search."""

_REFUSALS = (Outcome.PRECONDITION_FAILED, Outcome.CONFLICT, Outcome.THROTTLED, Outcome.REJECTED)

_UNKNOWN, _ABSENT = -2, -3
"""States besides version codes: before the first known write, and no object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedWrites:
    """Writes that took effect: the event that tells of each, its sending, the bounds of its instant, its version."""

    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    version: Codes

    def __post_init__(self) -> None:
        lengths = {len(self.row), len(self.sent_row), len(self.at_lo_ns), len(self.at_hi_ns), len(self.version)}
        assert len(lengths) == 1, "a column of writes is longer than another"

    def take(self, order: Ints) -> AppliedWrites:
        return AppliedWrites(
            row=self.row[order],
            sent_row=self.sent_row[order],
            at_lo_ns=self.at_lo_ns[order],
            at_hi_ns=self.at_hi_ns[order],
            version=self.version[order],
        )

    @staticmethod
    def join(parts: Iterable[AppliedWrites]) -> AppliedWrites:
        known = list(parts)
        return AppliedWrites(
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


def order_replies(events: Events, replied: Ints, sent: Ints, *, absent: int) -> AppliedWrites:
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
    settled = AppliedWrites(
        row=applied,
        sent_row=sent_row,
        at_lo_ns=begin,
        at_hi_ns=at[applied],
        version=events.codes("version")[applied],
    )
    unanswered = np.concatenate((_unanswered(events, writes, sent), _refused_and_read(events, replied)))
    group = events.lock_key[applied]
    doubtful = np.unique(np.concatenate((group[_does_not_fit(events, settled, absent)], events.lock_key[unanswered])))
    if len(doubtful):
        calm = ~np.isin(group, doubtful)
        parts = [settled.take(np.flatnonzero(calm))]
        parts += [_settle(events, key, settled, unanswered, replied, absent) for key in doubtful.tolist()]
        settled = AppliedWrites.join(parts)
        settled = settled.take(np.argsort(events.lock_key[settled.row], kind="stable"))
    assert len(settled.row) >= len(applied), "a confirmed write took effect"
    return _tightened(events, settled)


def _unanswered(events: Events, writes: Ints, sent: Ints) -> Ints:
    """Rows of writes whose effect is unknown: the ambiguous answers, and the sendings that have none."""
    op, outcome = events.numbers("op"), events.numbers("outcome")
    answered = events.index_by_request(events.rows(Kind.REPLIED))[events.request_keys(sent)] >= 0
    silent = sent[(op[sent] != Op.READ) & ~answered]
    return np.concatenate((writes[outcome[writes] == Outcome.AMBIGUOUS], silent))


def _refused_and_read(events: Events, replied: Ints) -> Ints:
    """Rows of writes that were answered "refused", though somebody read their content: sent twice unseen (E17)."""
    op, outcome, content = events.numbers("op"), events.numbers("outcome"), events.codes("content")
    known = replied[content[replied] != NO_TEXT]
    is_read = op[known] == Op.READ
    is_refused = ~is_read & np.isin(outcome[known], _REFUSALS)
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


def _settle(
    events: Events, key: int, settled: AppliedWrites, unanswered: Ints, replied: Ints, absent: int
) -> AppliedWrites:
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
        elif events.numbers("outcome")[row] in _REFUSALS:
            continue
        maybe.append(write)
    contents: dict[int, set[int]] = defaultdict(set)
    for content, views in shown.items():
        for _, version in views:
            if content != NO_TEXT:
                contents[version].add(content)
    chain = _Walk(certain, maybe, seen_absent, contents).chain()
    rows = {write.row for write in chain}
    assert len(rows) == len(chain), "a write takes effect once"
    assert rows.issuperset(write.row for write in certain), "a confirmed write took effect"
    # The end of this run alone: other runs of the table have clocks of their own.
    run = key // (events.text_count("lock") + 1)
    end_ns = int(events.integers("at_ns")[rows_of_group(events.run, run)].max())
    return AppliedWrites(
        row=np.array([write.row for write in chain], dtype=np.int64),
        sent_row=np.array([write.sent_row for write in chain], dtype=np.int64),
        at_lo_ns=np.array([write.sent_ns for write in chain], dtype=np.int64),
        at_hi_ns=np.array([min(write.until_ns, end_ns) for write in chain], dtype=np.int64),
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


def _sent_by(writes: list[_Write], until_ns: int) -> Iterator[_Write]:
    """The first of these, which are in order of sending, that were sent by then."""
    for write in writes:
        if write.sent_ns > until_ns:
            return
        yield write


def _move_later(placed: list[_Write], waiting: list[_Write]) -> bool:
    """Let a placed write land later than it was placed, so that the first waiting one fits; False if none helps.

    A write that was still under way may have landed behind others that were sent after it: right before the waiting
    one, or, where it asks for no version, at any time after that one. Without this, two releases that overlap and ask
    for nothing would accuse the store of the next grant.
    """
    target = waiting[0]
    latest_sent_ns = -1
    for place in range(len(placed) - 1, -1, -1):
        write = placed[place]
        state = placed[place - 1].leaves() if place else _UNKNOWN
        following = placed[place + 1 :]
        if write.until_ns >= latest_sent_ns and _leads_on(state, following):
            state = following[-1].leaves() if following else state
            if write.fits(state) and target.fits(write.leaves()):
                placed[place:] = [*following, write]
                return True
            if write.condition == NO_TEXT and write.until_ns >= target.sent_ns and target.fits(state):
                placed[place:] = following
                waiting.insert(1, write)
                return True
        latest_sent_ns = max(latest_sent_ns, write.sent_ns)
    return False


def _leads_on(state: int, writes: list[_Write]) -> bool:
    """True if these writes fit one after the other, from this state on."""
    for write in writes:
        if not write.fits(state):
            return False
        state = write.leaves()
    return True


class _Walk:
    """A greedy walk along one lock's chain: certain writes by time of sending, others where they are needed.

    contents: by version, what readings found under it.
    """

    def __init__(
        self, certain: list[_Write], maybe: list[_Write], seen_absent: list[int], contents: dict[int, set[int]]
    ) -> None:
        self._certain = certain
        self._maybe = maybe
        # The unanswered writes whose version somebody read, by that version. A write that has landed is taken out.
        self._read: dict[int, list[_Write]] = defaultdict(list)
        for write in maybe:
            if not write.is_delete and write.version != NO_TEXT:
                self._read[write.version].append(write)
        self._contents = contents
        self._seen_absent = seen_absent

    def chain(self) -> list[_Write]:
        waiting = list(self._certain)
        placed = self._before_all(waiting[0]) if waiting else []
        state = placed[-1].leaves() if placed else _UNKNOWN
        while waiting:
            first = waiting[0]
            if not first.fits(state):
                bridge = self._bridge(state, first)
                if bridge is not None:
                    placed += bridge
                elif _move_later(placed, waiting):
                    state = placed[-1].leaves() if placed else _UNKNOWN
                    continue
                else:
                    first = next((write for write in _sent_by(waiting, first.until_ns) if write.fits(state)), first)
            waiting.remove(first)
            placed.append(first)
            state = first.leaves()
        placed += self._landed_last(state)
        return placed

    def _before_all(self, target: _Write) -> list[_Write]:
        """Unanswered writes that made what the first certain one replaced, and what each of them replaced.

        Before the first known write the state is unknown, so nothing forces
        them in; but a version that was made by nobody else on record is theirs.
        """
        before: list[_Write] = []
        for _ in range(OPTIONAL_DEPTH):
            before = self._read_back(target, before) + before
            target = before[0] if before else target
            guess = next(self._guesses(target, before), None)
            if guess is None:
                break
            before.insert(0, guess)
            target = guess
        return self._taken(before, self._certain[0])

    def _bridge(self, state: int, target: _Write) -> list[_Write] | None:
        """Unanswered writes that lead from `state` to one in which `target` fits; fewest guesses first."""
        for guesses in range(OPTIONAL_DEPTH + 1):
            found = self._bridge_of(state, target, guesses, [])
            if found is not None:
                return self._taken(found, target)
        return None

    def _bridge_of(self, state: int, target: _Write, guesses: int, used: list[_Write]) -> list[_Write] | None:
        read = self._read_back(target, used)
        for start, write in enumerate(reversed(read), 1):
            if write.fits(state):
                return read[-start:]
        if guesses == 0:
            return None
        first = read[0] if read else target
        for guess in self._guesses(first, [*used, *read]):
            if guess.fits(state):
                return [guess, *read]
            rest = self._bridge_of(state, guess, guesses - 1, [*used, *read, guess])
            if rest is not None:
                return [*rest, guess, *read]
        return None

    def _read_back(self, target: _Write, used: list[_Write]) -> list[_Write]:
        """Writes in a row before `target` whose versions somebody read: each made what the next one replaced."""
        found: list[_Write] = []
        while target.condition not in (NO_TEXT, _ABSENT):
            made = next(
                (
                    write
                    for write in self._read.get(target.condition, ())
                    if write.sent_ns <= target.until_ns and not any(write is other for other in (*used, *found))
                ),
                None,
            )
            if made is None:
                break
            found.insert(0, made)
            target = made
        return found

    def _guesses(self, target: _Write, used: list[_Write]) -> Iterator[_Write]:
        """Writes whose version nobody read, and which can have made what `target` replaced."""
        for write in self._maybe:
            if (
                (write.is_delete or write.version == NO_TEXT)
                and write.sent_ns <= target.until_ns
                and self._makes(write, target.condition)
                and not any(write is other for other in used)
            ):
                yield write

    def _taken(self, writes: list[_Write], target: _Write) -> list[_Write]:
        """These writes did land, in this order, before `target`: what each made and until when is known now."""
        for write, following in zip(reversed(writes), reversed([*writes, target][1:]), strict=True):
            known = self._read.get(write.version, [])
            known[:] = [other for other in known if other is not write]
            if not write.is_delete:
                write.version = following.condition
            write.until_ns = min(write.until_ns, following.until_ns)
            self._maybe.remove(write)
        return writes

    def _makes(self, write: _Write, condition: int) -> bool:
        """True if this write, of which nobody knows what it made, can have made the state that `condition` asks for."""
        if write.is_delete or condition == _ABSENT:
            return write.is_delete and condition == _ABSENT
        if condition == NO_TEXT:
            return False
        read = self._contents.get(condition, ())
        return not read or write.content in (NO_TEXT, *read)

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


def _tightened(events: Events, writes: AppliedWrites) -> AppliedWrites:
    """Bounds that follow the order: nothing lands before its predecessor can, nor after its successor must."""
    group = events.lock_key[writes.row]
    low, high = writes.at_lo_ns.copy(), writes.at_hi_ns.copy()
    crossed = np.zeros(len(group), dtype=np.bool_)
    if len(group) > 1:
        crossed[1:] = ((low[1:] < low[:-1]) | (high[1:] < high[:-1])) & (group[1:] == group[:-1])
    for rows in suspicious_groups(group, crossed):
        low[rows] = np.maximum.accumulate(low[rows])
        high[rows] = np.maximum(np.minimum.accumulate(high[rows][::-1])[::-1], low[rows])
        assert bool(np.all(np.diff(high[rows]) >= 0)), "bounds of one lock follow its order"
    return AppliedWrites(row=writes.row, sent_row=writes.sent_row, at_lo_ns=low, at_hi_ns=high, version=writes.version)


def holes(events: Events, writes: AppliedWrites, broken: Flags, *, absent: int, found_nothing: Ints) -> Flags:
    """True where a write that fits no known state met a state which no known write of its lock had left.

    The store did nothing wrong then: a writer whom nobody recorded was at work. Such a write replaced a version that
    nobody on record had made, or it created the object after a reading had found that the known one was gone.

    found_nothing: REPLIED rows of readings of locks that found no object.
    """
    if not broken.any():
        return np.zeros(len(broken), dtype=np.bool_)
    group, condition = events.lock_key[writes.row], events.codes("if_version")[writes.row]
    at, sent_row = events.integers("at_ns"), events.sent_by_request[events.request_keys(found_nothing)]
    asked_ns = at[np.where(sent_row >= 0, sent_row, found_nothing)]
    # Where in its lock each version was first made, or first asked for.
    width = events.text_count("version") + 2
    before = np.full(len(group), len(group), dtype=np.int64)
    for named in (writes.version, condition):
        known, first = np.unique(group * width + named + 1, return_index=True)
        wanted = group * width + condition + 1
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        before = np.minimum(before, np.where(known[place] == wanted, first[place], len(group)))
    unexplained: Flags = broken & (condition != absent) & (before >= np.arange(len(group)))
    looks: dict[int, tuple[Ints, Ints]] = {}
    for position in np.flatnonzero(broken & (condition == absent)).tolist():
        lock = int(group[position])
        if lock not in looks:
            here = np.flatnonzero(events.lock_key[found_nothing] == lock)
            here = here[np.argsort(asked_ns[here], kind="stable")]
            looks[lock] = asked_ns[here], np.minimum.accumulate(at[found_nothing[here]][::-1])[::-1]
        asked, earliest_answer = looks[lock]
        later = int(np.searchsorted(asked, writes.at_hi_ns[position - 1], side="right"))
        unexplained[position] = later < len(asked) and earliest_answer[later] <= writes.at_hi_ns[position]
    assert not bool(np.any(unexplained & ~broken)), "only a write that does not fit shows a hole"
    return unexplained
