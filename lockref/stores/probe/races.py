"""Races on a store: of requests in flight together that carry the same condition, one may win.

Each round is judged by the answers and by what is read afterwards: the winner's
bytes must stay. A round in which nobody won (everybody met a conflict, was
throttled or got no answer) is void: it neither acquits nor convicts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.stores.probe.readings import RaceEnd, read_race
from lockref.stores.probe.start_barrier import race
from lockref.words import Outcome

if TYPE_CHECKING:
    from lockref.stores.probe.bounded_request import Asking
    from lockref.stores.probe.measured import ConditionResult

ROUNDS_DEFAULT: Final = 16
RACES_NS_DEFAULT: Final = 1500 * NS_PER_MS
_KINDS: Final = 3
_MAY_HAVE_LANDED: Final = (Outcome.AMBIGUOUS, Outcome.THROTTLED)
"""Answers that do not say what became of the request."""
_CLEANUP_NS: Final = 5 * NS_PER_S


class Races:
    """Creates, replacements, and deletes against replacements, each in several rounds."""

    def __init__(self, asking: Asking, base: str, *, racers: int, rounds: int, budget_ns: int) -> None:
        self._asking = asking
        self._store = asking.store
        self._base = base
        self._racers = racers
        self._rounds = rounds
        self._share_ns = budget_ns // _KINDS

    def run(self) -> None:
        found = self._asking.found
        self._repeat("create_race", self._create_round)
        key = f"{self._base}-race"
        self._make(key)
        try:
            self._repeat("replace_race", lambda finding, number: self._replace_round(finding, key, number))
            if found.findings["delete"].status == "kept":
                self._repeat("delete_race", lambda finding, number: self._delete_round(finding, key, number))
            else:
                found.findings["delete_race"].detail = f"conditional delete: {found.conditional_delete}"
        finally:
            self._store.delete(key)

    def _repeat(self, name: str, round_: Callable[[ConditionResult, int], None]) -> None:
        """Rounds until there are enough, or no time for one more like the last."""
        finding, runtime = self._asking.found.findings[name], self._asking.runtime
        finding.racers = self._racers
        end_ns = runtime.monotonic_ns() + self._share_ns
        for number in range(self._rounds):
            began_ns = runtime.monotonic_ns()
            self._asking.extend(_CLEANUP_NS)
            round_(finding, number)
            now_ns = runtime.monotonic_ns()
            if now_ns + (now_ns - began_ns) > end_ns:
                break
        if finding.faulty:
            finding.detail += f", in {finding.faulty} of {finding.rounds} rounds"

    def _create_round(self, finding: ConditionResult, number: int) -> None:
        key = f"{self._base}-race-{number}"
        bodies = [_body("create", number, racer) for racer in range(self._racers)]
        try:
            attempts = [functools.partial(self._store.put_if_absent, key, body) for body in bodies]
            replies = race(self._asking.runtime, attempts)
            self._require_answers("race to create an object", replies)
            self._judge(finding, bodies, replies, self._asking.read(key), before=None)
        finally:
            self._store.delete(key)

    def _replace_round(self, finding: ConditionResult, key: str, number: int) -> None:
        before = self._current(key)
        bodies = [_body("replace", number, racer) for racer in range(self._racers)]
        replies = self._race_to_replace(key, bodies, before)
        self._require_answers("race to replace an object", replies)
        self._judge(finding, bodies, replies, self._asking.read(key), before=before.body)

    def _delete_round(self, finding: ConditionResult, key: str, number: int) -> None:
        """Half of the racers replace, half delete; not both kinds may win (C9)."""
        before = self._current(key)
        bodies = [_body("spare", number, racer) for racer in range((self._racers + 1) // 2)]
        replies = self._race_to_replace(key, bodies, before, deletes=self._racers // 2)
        self._require_answers("race to delete an object", replies)
        replaced, deleted = _winners(replies[: len(bodies)]), _winners(replies[len(bodies) :])
        after = self._asking.read(key)
        if deleted and replaced:
            finding.rounds += 1
            finding.winners_max = max(finding.winners_max, len(replaced) + 1)
            self._faulty(finding, "let a delete and a replacement of one version both succeed")
        elif deleted:
            finding.rounds += 1
            finding.winners_max = max(finding.winners_max, 1)
            if after.is_absent:
                finding.kept()
            else:
                self._faulty(finding, "confirmed a delete, and the object is there after a race")
        else:
            self._judge(
                finding, bodies, replies[: len(bodies)], after, before=before.body, deletes=replies[len(bodies) :]
            )

    def _race_to_replace(
        self, key: str, bodies: list[bytes], before: ReadReply, *, deletes: int = 0
    ) -> list[WriteReply]:
        version = before.version or Version("0")
        attempts = [functools.partial(self._store.put_if_version, key, body, version) for body in bodies]
        attempts += [functools.partial(self._store.delete, key, version)] * deletes
        return race(self._asking.runtime, attempts)

    def _judge(
        self,
        finding: ConditionResult,
        bodies: list[bytes],
        replies: list[WriteReply],
        after: ReadReply,
        *,
        before: bytes | None,
        deletes: Sequence[WriteReply] = (),
    ) -> None:
        """One round: at most one winner, whose bytes are there. deletes: answers to deletes, none of them a success."""
        winners = _winners(replies)
        left: list[bytes | None] = [*bodies, *[None] * len(deletes)]
        answers = [*replies, *deletes]
        unknown = [what for what, reply in zip(left, answers, strict=True) if reply.outcome in _MAY_HAVE_LANDED]
        end = read_race([bodies[number] for number in winners], unknown, before=before, after=after.body)
        if end is RaceEnd.VOID:
            finding.void += 1
            finding.detail = finding.detail or end.value
            return
        finding.rounds += 1
        finding.winners_max = max(finding.winners_max, len(winners))
        if end is RaceEnd.RIGHT:
            finding.kept()
        elif end is RaceEnd.SEVERAL:
            what = "creates of one object" if before is None else "replacements of one version"
            self._faulty(finding, f"let {len(winners)} of {len(replies)} simultaneous {what} succeed")
        elif end is RaceEnd.NOT_SHOWN:
            # An old read says nothing of the condition (C21).
            self._asking.found.findings["read_after_write"].ignored("does not hold what was written after a race")
        else:
            self._faulty(finding, end.value)

    def _faulty(self, finding: ConditionResult, detail: str) -> None:
        finding.faulty += 1
        finding.ignored(detail)

    def _require_answers(self, what: str, replies: list[WriteReply]) -> None:
        """Raise if the store refuses us, or answers nobody: that proves nothing either way."""
        odd = [reply for reply in replies if reply.outcome in (Outcome.AMBIGUOUS, Outcome.REJECTED)]
        if any(reply.outcome is Outcome.REJECTED for reply in odd) or len(odd) == len(replies):
            raise self._asking.unavailable(what, odd[0])

    def _current(self, key: str) -> ReadReply:
        reply = self._asking.read(key)
        if reply.is_absent:
            self._make(key)
            reply = self._asking.read(key)
        return reply

    def _make(self, key: str) -> None:
        nonce = self._asking.runtime.token_bytes(4).hex().encode()
        self._asking.version("create an object", lambda: self._store.put_if_absent(key, b"start " + nonce))


def _winners(replies: list[WriteReply]) -> list[int]:
    return [number for number, reply in enumerate(replies) if reply.outcome is Outcome.APPLIED]


def _body(kind: str, number: int, racer: int) -> bytes:
    return b"%s round %d racer %d" % (kind.encode(), number, racer)
