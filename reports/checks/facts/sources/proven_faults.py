"""Which conditional writes a store certainly applied against their condition, in a real run.

Nobody saw the order of the writes there, and a walk along them finds one order of many. That the walk met a write that
fits nowhere proves nothing: an unanswered write that it placed elsewhere, or a blind one under way, may be the cause.
Two things prove a fault, in every order:

- *Too many*: more confirmed writes replaced one state than writes can have made it, or two of them replaced it and
  none that can have made it again was under way meanwhile.
- *Too late*: some confirmed write took effect after all that can have made the state, and before the accused one was
  sent.

A write without a definite answer can have made a state if its content can be that state's (any, if nobody knows what
the state held). It takes effect at any time from its sending on, or never. Cost: n log n in the writes of one lock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Final

from reports.checks.facts.columns import NO_TEXT
from reports.checks.facts.sources.chain_writes import ABSENT_STATE, MANY_CONTENTS, Write

NEVER_NS: Final = -(2**62)
"""Before every write of a run."""

FOREVER_NS: Final = 2**63 - 1


class ProvenFaults:
    """The proofs that the writes of one lock allow.

    confirmed: the writes that were answered "applied". unanswered: those that can have landed without such an answer;
    where somebody read one, `until_ns` and `version` tell when and as what. contents: by version, what readings found
    under it. shown_ns: by version, when an answer first showed it or a request first named it. seen_ns: when the first
    request about the lock was answered by what stands there.
    """

    def __init__(
        self,
        confirmed: list[Write],
        unanswered: list[Write],
        contents: dict[int, set[int]],
        shown_ns: dict[int, int],
        seen_ns: int,
    ) -> None:
        self._shown_ns, self._seen_ns = shown_ns, seen_ns
        sent = Counter(write.content for write in (*confirmed, *unanswered) if not write.is_delete)
        # Where no content was sent twice, each is new (a nonce), and no state comes again.
        self._repeats = NO_TEXT in sent or any(count > 1 for count in sent.values())
        self._contents = {version: found - {NO_TEXT} for version, found in contents.items()}
        named: dict[int, list[Write]] = defaultdict(list)
        nameless: dict[int, list[Write]] = defaultdict(list)
        for write in confirmed:
            if write.version != NO_TEXT and not write.is_delete:
                named[write.version].append(write)
                self._contents.setdefault(write.version, set()).update({write.content} - {NO_TEXT})
        for write in unanswered:
            # Where contents are equal, nobody knows which one was read, and which one lands later.
            if write.version != NO_TEXT and sent[write.content] == 1 and not write.is_delete:
                named[write.version].append(write)
        told = {write.row for writes in named.values() for write in writes}
        for write in (*confirmed, *unanswered):
            if write.row not in told and not write.is_delete:
                nameless[write.content].append(write)
        self._named = {version: _Makers(writes) for version, writes in named.items()}
        self._nameless = {content: _Makers(writes, is_open=True) for content, writes in nameless.items()}
        self._any = _Makers((write for writes in nameless.values() for write in writes), is_open=True)
        self._most_alike = max((len(writes) for content, writes in nameless.items() if content != NO_TEXT), default=0)
        self._most_alike += len(nameless.get(NO_TEXT, ()))
        self._deletes = _Makers(write for write in (*confirmed, *unanswered) if write.is_delete)
        in_time = sorted(confirmed, key=lambda write: write.until_ns)
        self._answered_ns = [write.until_ns for write in in_time]
        self._latest_sent_ns = list(accumulate((write.sent_ns for write in in_time), max))

    def rows(self, in_order: list[Write]) -> set[int]:
        """The rows of the confirmed writes that the store applied wrongly, those of `in_order`.

        Of two that cannot both be right the later one in that order is named.
        """
        found = {write.row for write in in_order if write.condition != NO_TEXT and self._is_too_late(write)}
        users: dict[int, list[Write]] = defaultdict(list)
        for write in in_order:
            # A delete of what is not there changes nothing, whatever the store answered.
            if write.condition != NO_TEXT and not write.is_delete:
                users[write.condition].append(write)
        for state, those in users.items():
            if len(those) > 1:
                found |= self._too_many(state, those)
        return found

    def _is_too_late(self, write: Write) -> bool:
        until_ns = max((makers.until_ns for makers in self._makers(write.condition)), default=NEVER_NS)
        if write.is_delete:
            until_ns = max(until_ns, self._deletes.until_without_ns(write))
        # The confirmed writes that were answered before it was sent: when was the last one of them sent?
        place = bisect_left(self._answered_ns, write.sent_ns) - 1
        return place >= 0 and self._latest_sent_ns[place] > until_ns

    def _too_many(self, state: int, users: list[Write]) -> set[int]:
        makers = self._makers(state)
        found = {write.row for write in users[self._most_made(state, makers) :]}
        place = {write.row: number for number, write in enumerate(users)}
        for one, other in pairwise(sorted(users, key=lambda write: write.sent_ns)):
            until_ns = max(one.until_ns, other.until_ns)
            if not any(each.under_way(one.sent_ns, until_ns) for each in makers):
                found.add(max(one, other, key=lambda write: place[write.row]).row)
        return found

    def _most_made(self, state: int, makers: list[_Makers]) -> int:
        """The greatest number of times that this state can have stood there; the beginning counts as one."""
        count = sum(len(each) for each in makers)
        if state != ABSENT_STATE and not self._knows_content(state):
            count = len(self._named.get(state, ())) + self._most_alike
        first_ns = min((each.sent_ns for each in makers), default=FOREVER_NS)
        is_old = state == ABSENT_STATE or count == 0 or self._shown_ns.get(state, first_ns) < first_ns
        # What was seen before all that can have made it was another state, so it was not there from the beginning.
        may_be_old = self._repeats and self._seen_ns > first_ns
        return count + int(is_old or may_be_old)

    def _makers(self, state: int) -> list[_Makers]:
        """All that can have made this state."""
        if state == ABSENT_STATE:
            return [self._deletes]
        if self._knows_content(state):
            groups = [self._nameless.get(content) for content in (NO_TEXT, *sorted(self._contents[state]))]
        else:
            groups = [self._any]
        return [each for each in (self._named.get(state), *groups) if each is not None and len(each)]

    def _knows_content(self, state: int) -> bool:
        return 0 < len(self._contents.get(state, ())) <= MANY_CONTENTS


class _Makers:
    """Writes that can have made one state. is_open: they may take effect at any time from their sending on."""

    def __init__(self, writes: Iterable[Write], *, is_open: bool = False) -> None:
        spans = [(write.sent_ns, FOREVER_NS if is_open else write.until_ns, write.row) for write in writes]
        self._begin = sorted(span[0] for span in spans)
        self._end = sorted(span[1] for span in spans)
        self._last = sorted(((span[1], span[2]) for span in spans), reverse=True)[:2]

    def __len__(self) -> int:
        return len(self._begin)

    @property
    def sent_ns(self) -> int:
        """When the first of them was sent."""
        return self._begin[0] if self._begin else FOREVER_NS

    @property
    def until_ns(self) -> int:
        """The latest time at which one of them can have taken effect."""
        return self._end[-1] if self._end else NEVER_NS

    def until_without_ns(self, write: Write) -> int:
        """The same of all but this one."""
        return max((until_ns for until_ns, row in self._last if row != write.row), default=NEVER_NS)

    def under_way(self, since_ns: int, until_ns: int) -> bool:
        """True if one of them may have taken effect between these times."""
        return bisect_right(self._begin, until_ns) > bisect_left(self._end, since_ns)
