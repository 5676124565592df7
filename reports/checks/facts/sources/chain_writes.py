"""Writes of one lock in a real run, and the order in which they landed as far as a walk along them has come."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reports.checks.facts.columns import NO_TEXT

UNKNOWN: Final = -2
ABSENT_STATE: Final = -3
"""States besides version codes: before the first known write (`UNKNOWN`), and no object (`ABSENT_STATE`)."""

MANY_CONTENTS: Final = 4
"""A version under which more contents than this were read says nothing of the content of the write that made it."""

OVERLAPPING: Final = 64
"""How many writes that were still under way a write may pass that they had been placed before."""


@dataclass(slots=True, eq=False)
class Write:
    """One write of one lock. version is NO_TEXT where nobody was told it; until_ns: the latest it can have landed.

    place: its position in the list that it was found in. is_taken: it stands in the chain.
    number, before, after: set by `WriteChain`.
    """

    row: int
    sent_row: int
    sent_ns: int
    until_ns: int
    condition: int
    version: int
    content: int
    is_delete: bool
    place: int = -1
    is_taken: bool = False
    is_break: bool = False
    number: int = -1
    before: Write | None = None
    after: Write | None = None

    def fits(self, state: int) -> bool:
        """True if the store would have applied it in this state. UNKNOWN is any state."""
        return state == UNKNOWN or self.condition in (NO_TEXT, state)

    def leaves(self) -> int:
        """The state that it leaves behind."""
        if self.is_delete:
            return ABSENT_STATE
        return self.version if self.version != NO_TEXT else UNKNOWN


class Untaken:
    """Writes in an order, of which some are taken: the next one that is not is found at once."""

    def __init__(self, writes: Iterable[Write] = ()) -> None:
        self._writes = list(writes)
        self._next = list(range(len(self._writes) + 1))

    def add(self, write: Write) -> None:
        """Put a write behind all others."""
        self._writes.append(write)
        self._next.append(len(self._writes))

    def at(self, position: int) -> tuple[int, Write | None]:
        """The first write that is not taken, from this position on, and the position behind it."""
        # Union-find with path halving (Tarjan and van Leeuwen 1984), where "taken" only ever grows. A linked list would
        # not do: one write stands in several of these orders. Once it is taken, all of them must pass it over, and here
        # none of them has to be changed for that.
        found = position
        while True:
            while self._next[found] != found:
                self._next[found] = self._next[self._next[found]]
                found = self._next[found]
            if found == len(self._writes):
                return found, None
            if not self._writes[found].is_taken:
                return found + 1, self._writes[found]
            self._next[found] = found + 1


class WriteChain:
    """The chain so far: a list of writes that can be appended to, and whose writes under way may move to its end.

    Every write gets a number when it is appended, and a new one when it is moved, so that numbers rise along the list.
    A write is a candidate for moving by what it leaves behind and by what it asks for. A candidate that was answered
    before a later one was sent never can move again, so each is looked at in vain once, however long the list is.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._by_number: list[Write] = []
        self._last: Write | None = None
        self._breaks: list[tuple[int, Write]] = []
        self._movable: dict[tuple[int, int], list[int]] = defaultdict(list)
        # The latest sending behind each number: numbers rise, times fall.
        self._steps: list[int] = []
        self._sent_ns: list[int] = []

    @property
    def state(self) -> int:
        """The state that the last write left behind."""
        return self._last.leaves() if self._last is not None else UNKNOWN

    def in_order(self) -> list[Write]:
        """All writes, from the first to the last."""
        found: list[Write] = []
        one = self._last
        while one is not None:
            found.append(one)
            one = one.before
        return found[::-1]

    def append(self, write: Write) -> None:
        """Let a write land behind all others, whether it fits or not."""
        last = self._last
        # A break is kept and not refused: the chain has to hold every certain write, and a later move may mend the
        # break.
        write.is_taken, write.is_break = True, not write.fits(self.state)
        write.number, write.before, write.after = len(self._by_number), last, None
        self._by_number.append(write)
        self._last = write
        if write.is_break:
            self._breaks.append((write.number, write))
        # A stack of maxima, read from the back: `_sent_ns[i]` is the latest sending at or behind `_steps[i]`. So "was
        # any later write sent after this one ended?" is one bisection. Numbers of writes that moved stay in it. They
        # can only make the answer stricter, so a move may be missed, but never made wrongly.
        while self._sent_ns and self._sent_ns[-1] <= write.sent_ns:
            self._sent_ns.pop()
            self._steps.pop()
        self._steps.append(write.number)
        self._sent_ns.append(write.sent_ns)
        if last is not None:
            last.after = write
            self._offer(last)

    def make_room(self, target: Write) -> bool:
        """Let writes land later than they were placed, so that `target` fits, and append it; False if none helps.

        A write that was still under way may have landed behind others that were sent after it: right before `target`,
        or, where it asks for no version, at any time after it. Without this, two releases that overlap and ask for
        nothing would accuse the store of the next grant.
        """
        # The cheap repair first: to let `target` pass one write changes the least. `OVERLAPPING` bounds the dear one,
        # which comes last; without a bound a store under blind writes cost the square of the history.
        if self._pass(target, 1):
            return True
        moved = self._found(target)
        if moved is None:
            return self._pass(target, OVERLAPPING)
        self._take_out(moved)
        self.append(moved)
        self.append(target)
        return True

    def _pass(self, target: Write, at_most: int) -> bool:
        """Let `target` land before the last writes, where they were under way and the first asks for no version."""
        passed: list[Write] = []
        one = self._last
        while one is not None and len(passed) < at_most and one.until_ns >= target.sent_ns:
            self.looks += 1
            passed.append(one)
            # Only a write without a condition can land after `target` whatever `target` made. One with a condition
            # names the state before it, and that would no longer be the state.
            if one.condition == NO_TEXT and target.fits(_state_before(one)):
                for late in passed:
                    self._take_out(late)
                self.append(target)
                # Put back in their old order, so that among themselves nothing changes.
                for late in reversed(passed):
                    self.append(late)
                return True
            one = one.before
        return False

    def _found(self, target: Write) -> Write | None:
        """The last write that can have landed at the end, and left there what `target` asks for."""
        break_number = self._last_break()
        best: Write | None = None
        # A heap for each pair of what a write leaves and what it asks for, youngest first. Entries of writes that have
        # moved since are stale, and are dropped when they come to the top (lazy deletion, as in Dijkstra's algorithm
        # with `heapq`).
        for left in (target.condition, UNKNOWN):
            for condition in (NO_TEXT, self.state):
                known = self._movable.get((left, condition), [])
                while known:
                    self.looks += 1
                    write = self._by_number[-known[0]]
                    if write.number == -known[0] and self._is_movable(write):
                        assert write.after is not None, "the last write has no place to move to"
                        # Behind its successor nothing may be broken, or the others do not lead to the end without it.
                        if write.after.number >= break_number and (best is None or write.number > best.number):
                            best = write
                        break
                    heapq.heappop(known)
        return best

    def _is_movable(self, write: Write) -> bool:
        """True if the others fit without it, and it may have landed after the last of them was sent."""
        if write.after is None or not write.after.fits(_state_before(write)):
            return False
        return write.until_ns >= self._sent_ns[bisect_right(self._steps, write.number)]

    def _offer(self, write: Write) -> None:
        if self._is_movable(write):
            heapq.heappush(self._movable[write.leaves(), write.condition], -write.number)

    def _last_break(self) -> int:
        while self._breaks:
            number, write = self._breaks[-1]
            if write.is_break and write.number == number:
                return number
            self._breaks.pop()
        return -1

    def _take_out(self, write: Write) -> None:
        before, after = write.before, write.after
        if before is not None:
            before.after = after
        if after is None:
            self._last = before
        else:
            after.before, after.is_break = before, not after.fits(_state_before(after))
            self._offer(after)
            if before is not None:
                self._offer(before)


def _state_before(write: Write) -> int:
    return write.before.leaves() if write.before is not None else UNKNOWN


class Waiting:
    """Writes that surely landed and have no place yet, by time of sending."""

    def __init__(self, writes: list[Write]) -> None:
        self._writes = writes
        self._next = 0
        self._by_condition: dict[int, list[Write]] = defaultdict(list)
        for place, write in enumerate(writes):
            write.place = place
        for write in reversed(writes):
            self._by_condition[write.condition].append(write)

    def first(self) -> Write | None:
        """The one that was sent first."""
        while self._next < len(self._writes) and self._writes[self._next].is_taken:
            self._next += 1
        return self._writes[self._next] if self._next < len(self._writes) else None

    def that_fits(self, state: int, until_ns: int) -> Write | None:
        """The first one that fits this state, if it was sent by then."""
        best: Write | None = None
        for condition in (state, NO_TEXT):
            known = self._by_condition.get(condition, [])
            while known and known[-1].is_taken:
                known.pop()
            if known and (best is None or known[-1].place < best.place):
                best = known[-1]
        return best if best is not None and best.sent_ns <= until_ns else None


def times_from(times: list[int], since_ns: int) -> int | None:
    """The first of these ascending times that is not before `since_ns`."""
    found = bisect_left(times, since_ns)
    return times[found] if found < len(times) else None
