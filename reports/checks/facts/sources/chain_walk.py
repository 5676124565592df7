"""The walk along the writes of one lock in a real run, whose order nobody saw.

Writes that surely landed are taken by time of sending. Where one does not fit, unanswered writes are looked for that
lead to it; then writes that were still under way are moved; then a later one that fits is taken first.

Cost: n log n in the writes, whatever they are. Every question that a write asks is answered from an index. Two searches
have no index. One tries guesses behind guesses; it may look at LOOKS_PER_GAP writes for each write that does not fit.
The other follows a row of unanswered writes back; all such rows together may be LOOKS_PER_WRITE times as long as the
lock has writes. A search that reaches its bound is broken off. A write that fits nowhere accuses nobody, see
`proven_faults`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from reports.checks.facts.columns import NO_TEXT
from reports.checks.facts.sources.chain_writes import (
    ABSENT_STATE,
    MANY_CONTENTS,
    Untaken,
    Waiting,
    Write,
    WriteChain,
    times_from,
)

OPTIONAL_DEPTH: Final = 3
"""How many unanswered writes whose content nobody read may bridge a gap; each costs a factor in the search."""

LOOKS_PER_GAP: Final = 48
"""How many guesses may be tried for a write that does not fit: two that bridge a gap are found among seven."""

LOOKS_PER_WRITE: Final = 32
"""How many writes may be passed on the way back along rows of unanswered writes, for each write of a lock."""

_ANY: Final = -9
"""In the key of an index: whatever it is."""


class OpenWrites:
    """Writes that may have landed, by what leads to them and by what they lead to.

    contents: by version, what readings found under it.
    """

    def __init__(self, writes: list[Write], contents: dict[int, set[int]]) -> None:
        self._contents = contents
        self.in_order = sorted(writes, key=lambda write: write.sent_ns)
        self._read: dict[int, Untaken] = defaultdict(Untaken)
        self._beginning: dict[int, Untaken] = defaultdict(Untaken)
        self._deletes: dict[int, Untaken] = defaultdict(Untaken)
        self._unread: dict[tuple[int, int], Untaken] = defaultdict(Untaken)
        # Each write stands in every index whose question it answers, once under its own condition and once under
        # `_ANY`. That doubles the memory, and in return no search ever filters: Wing and Gong's search (1993) tests
        # each candidate anew.
        for place, write in enumerate(self.in_order):
            write.place = place
            self._beginning[write.condition].add(write)
            if write.is_delete:
                for condition in (write.condition, _ANY):
                    self._deletes[condition].add(write)
            elif write.version != NO_TEXT:
                self._read[write.version].add(write)
            else:
                for condition in (write.condition, _ANY):
                    for content in (write.content, _ANY):
                        self._unread[condition, content].add(write)

    def can_begin(self, state: int) -> bool:
        """True if one of them fits this state."""
        # Most gaps end here: without a write that fits the present state no bridge can begin, and no search is started.
        return any(
            condition in self._beginning and self._beginning[condition].at(0)[1] is not None
            for condition in (state, NO_TEXT)
        )

    def that_made(self, target: Write, used: set[int]) -> Write | None:
        """The first one that made what `target` replaced, as a reading showed; `used`: rows of those that cannot."""
        if target.condition in self._read:
            return next(_fresh(self._read[target.condition], target, used), None)
        return None

    def guesses(self, target: Write, used: set[int], state: int | None = None) -> Iterator[Write]:
        """The writes whose version nobody read, and which can have made what `target` replaced; of one kind at a time.

        state: those alone that fit it.
        """
        conditions = (_ANY,) if state is None else (state, NO_TEXT)
        for condition in conditions:
            for kind in self._kinds(target.condition, condition):
                yield from _fresh(kind, target, used)

    def _kinds(self, wanted: int, condition: int) -> Iterator[Untaken]:
        if wanted == NO_TEXT:
            return
        if wanted == ABSENT_STATE:
            if condition in self._deletes:
                yield self._deletes[condition]
            return
        # Readings tell which contents the wanted version had. A write of another content cannot have made it. Above
        # MANY_CONTENTS the version tokens repeat or lie, and the contents tell nothing; then every write is a
        # candidate.
        read = self._contents.get(wanted, set())
        contents = [_ANY] if not read or len(read) > MANY_CONTENTS else sorted({NO_TEXT, *read})
        for content in contents:
            if (condition, content) in self._unread:
                yield self._unread[condition, content]


def _fresh(writes: Untaken, target: Write, used: set[int]) -> Iterator[Write]:
    """The writes that were sent before `target` must have landed, and are not used."""
    position, write = writes.at(0)
    while write is not None and write.sent_ns <= target.until_ns:
        if write.row not in used:
            yield write
        position, write = writes.at(position)


class Walk:
    """A greedy walk along one lock's chain: certain writes by time of sending, others where they are needed.

    certain: in order of sending. contents: by version, what readings found under it. found_absent_ns: when readings
    found no object, ascending. size: how many writes it was given.
    """

    def __init__(
        self, certain: list[Write], maybe: list[Write], found_absent_ns: list[int], contents: dict[int, set[int]]
    ) -> None:
        self._certain = certain
        self._unanswered = OpenWrites(maybe, contents)
        self._found_absent_ns = found_absent_ns
        self._landed = WriteChain()
        self._looks, self._passed = 0, 0
        self.size = len(certain) + len(maybe)
        self._allowed = LOOKS_PER_WRITE * self.size
        self._tried = 0

    @property
    def looks(self) -> int:
        """The number of writes that the walk has looked at: its cost, independent of the machine."""
        return self._looks + self._passed + self._landed.looks

    def chain(self) -> list[Write]:
        """All writes that landed, in order."""
        # Greedy by time of sending. A full search over all orders is exponential: deciding whether a history of one
        # register is linearizable is NP-complete (Gibbons and Korach 1997) unless every value is written once. Versions
        # almost give that, so the greedy order is right nearly always, and the three repairs below serve the rest. The
        # order of the repairs is by what they assume: a bridge assumes a write landed, `make_room` assumes another
        # order of known writes, and to take a later write first assumes that this one was overtaken.
        waiting, landed = Waiting(self._certain), self._landed
        first = waiting.first()
        if first is not None:
            self._append(self._before_all(first))
        while first is not None:
            self._looks += 1
            if not first.fits(landed.state):
                bridge = self._bridge(landed.state, first)
                if bridge is not None:
                    self._append(bridge)
                elif landed.make_room(first):
                    first = waiting.first()
                    continue
                else:
                    # `or first`: it fits nowhere. It is placed all the same and becomes a break of the chain, so that
                    # one strange write does not take the order of all later ones with it.
                    first = waiting.that_fits(landed.state, first.until_ns) or first
            landed.append(first)
            first = waiting.first()
        self._append_last()
        return landed.in_order()

    def _append(self, writes: list[Write]) -> None:
        for write in writes:
            self._landed.append(write)

    def _before_all(self, first: Write) -> list[Write]:
        """Unanswered writes that made what the first certain one replaced, and what each of them replaced.

        Before the first known write the state is unknown, so nothing forces
        them in; but a version that was made by nobody else on record is theirs.
        """
        # The same search as `_bridge`, without a state to reach. It is bounded by depth alone, since nothing tells it
        # to stop.
        before: list[Write] = []
        target, used = first, set[int]()
        for _ in range(OPTIONAL_DEPTH):
            read, _fitted = self._read_back(target, used, None)
            before = read + before
            target = before[0] if before else target
            used.update(write.row for write in read)
            guess = next(self._unanswered.guesses(target, used), None)
            if guess is None:
                break
            before.insert(0, guess)
            used.add(guess.row)
            target = guess
        return _known(before, first)

    def _bridge(self, state: int, target: Write) -> list[Write] | None:
        """Unanswered writes that lead from `state` to one in which `target` fits; fewest guesses first."""
        self._tried = 0
        if not self._unanswered.can_begin(state):
            return None
        # Iterative deepening (Korf 1985): the bridge with the fewest guesses is found first, without keeping a
        # frontier. A bridge with more guesses would explain any gap, and so would excuse a store that is at fault.
        for guesses in range(OPTIONAL_DEPTH + 1):
            found = self._bridge_of(state, target, guesses, set())
            if found is not None:
                return _known(found, target)
        return None

    def _bridge_of(self, state: int, target: Write, guesses: int, used: set[int]) -> list[Write] | None:
        read, fitted = self._read_back(target, used, state)
        if fitted:
            return read
        if guesses == 0:
            return None
        first = read[0] if read else target
        rows = {write.row for write in read}
        used |= rows
        # Guesses that begin in `state` close the gap at once. They are asked before the others, whose search branches.
        guess = next(self._unanswered.guesses(first, used, state), None)
        if guess is not None:
            return [guess, *read]
        for guess in self._unanswered.guesses(first, used):
            self._looks, self._tried = self._looks + 1, self._tried + 1
            # Broken off, not failed: the gap is left open, and `proven_faults` accuses nobody of an open gap.
            if self._tried > LOOKS_PER_GAP:
                break
            used.add(guess.row)
            rest = self._bridge_of(state, guess, guesses - 1, used)
            if rest is not None:
                return [*rest, guess, *read]
            used.discard(guess.row)
        used -= rows
        return None

    def _read_back(self, target: Write, used: set[int], state: int | None) -> tuple[list[Write], bool]:
        """Writes in a row before `target` whose versions somebody read: each made what the next one replaced.

        True with it if the first of them fits `state`; there the row begins.
        """
        found: list[Write] = []
        is_fitting = False
        while not is_fitting and target.condition not in (NO_TEXT, ABSENT_STATE):
            # No choice here: a version that somebody read names its write, so a row of such writes has one way back.
            made = self._unanswered.that_made(target, used)
            if made is None or (found and self._is_long()):
                break
            found.append(made)
            used.add(made.row)
            is_fitting = state is not None and made.fits(state)
            target = made
        used.difference_update(write.row for write in found)
        return found[::-1], is_fitting

    def _is_long(self) -> bool:
        """Count one more write on the way back; True if there were too many."""
        self._passed += 1
        return self._passed > self._allowed

    def _append_last(self) -> None:
        """Unanswered writes after the last certain one: those whose content, or whose absence, somebody read."""
        seen: list[Write] = []
        for write in self._unanswered.in_order:
            # Nothing certain follows, so nothing forces these writes into the chain. Only a reading shows that one
            # landed.
            if write.is_taken:
                continue
            if write.is_delete:
                absent_ns = times_from(self._found_absent_ns, write.sent_ns)
                if absent_ns is None:
                    continue
                write.until_ns = min(write.until_ns, absent_ns)
            elif write.version == NO_TEXT:
                continue
            seen.append(write)
        waiting = Waiting(seen)
        first = waiting.first()
        while first is not None:
            self._looks += 1
            following = first if first.fits(self._landed.state) else waiting.that_fits(self._landed.state, _FOREVER_NS)
            if following is None:
                return
            self._landed.append(following)
            first = waiting.first()


_FOREVER_NS: Final = 2**63 - 1


def _known(writes: list[Write], target: Write) -> list[Write]:
    """These writes did land, in this order, before `target`: what each made and until when is known now."""
    for write, following in zip(reversed(writes), reversed([*writes, target][1:]), strict=True):
        if not write.is_delete:
            write.version = following.condition
        write.until_ns = min(write.until_ns, following.until_ns)
    return writes
