"""The beliefs of all participants: which instance believed to hold which lock, and from when to when.

Processes of one machine read one monotonic clock, in Java (`System.nanoTime`) as in Python, so what ours were told and
what Helix called back can be put in one order. A belief begins with the callback that grants. It ends with the one that
takes back, or when the process was asked to leave or was killed. Nothing else ends it: a holder that nobody tells goes
on to believe (Z8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockref.helix.participant.application import Listener
from lockref.runtime import MonoNs, ThreadRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """until_ns: None while it lasts. Both in nanoseconds of the monotonic clock."""

    lock: str
    instance: str
    since_ns: int
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """One callback of Helix: the lock moves from one state to another."""

    at_ns: int
    instance: str
    lock: str
    source: str
    target: str


class Told(Listener):
    """The beliefs of one participant of ours, from what its listener was told. alarms: the faults that it found."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.alarms: list[str] = []
        self._runtime = ThreadRuntime()
        self._mutex = self._runtime.mutex()
        self._since: dict[str, MonoNs] = {}
        self._ended: list[Belief] = []

    def granted(self, lock: str, token: int) -> None:
        with self._mutex:
            self._since[lock] = self._runtime.monotonic_ns()

    def revoked(self, lock: str) -> None:
        with self._mutex:
            since_ns = self._since.pop(lock, None)
            if since_ns is not None:
                now_ns = self._runtime.monotonic_ns()
                self._ended.append(Belief(lock=lock, instance=self.instance, since_ns=since_ns, until_ns=now_ns))

    def lost(self, lock: str, reason: str) -> None:
        self.revoked(lock)

    def alarm(self, text: str) -> None:
        self.alarms.append(text)

    def beliefs(self) -> list[Belief]:
        with self._mutex:
            lasting = [Belief(lock=lock, instance=self.instance, since_ns=at) for lock, at in self._since.items()]
            return [*self._ended, *lasting]


@dataclass(frozen=True, slots=True)
class Left:
    """An instance was asked to leave, or was killed."""

    at_ns: int
    instance: str


def from_callbacks(heard: Iterable[Heard | Left], *, top: str) -> list[Belief]:
    """The beliefs of participants of Helix. top: the state of a holder."""
    found: list[Belief] = []
    since: dict[tuple[str, str], int] = {}
    for each in sorted(heard, key=lambda one: one.at_ns):
        ended: list[tuple[str, str]] = []
        if isinstance(each, Left):
            ended = [who for who in since if who[1] == each.instance]
        elif each.target == top:
            since.setdefault((each.lock, each.instance), each.at_ns)
        elif each.source == top and (each.lock, each.instance) in since:
            ended = [(each.lock, each.instance)]
        found += [Belief(lock=who[0], instance=who[1], since_ns=since.pop(who), until_ns=each.at_ns) for who in ended]
    return [*found, *(Belief(lock=who[0], instance=who[1], since_ns=since_ns) for who, since_ns in since.items())]


def overlaps(beliefs: Sequence[Belief]) -> list[tuple[Belief, Belief]]:
    """Pairs of instances that believed at the same time to hold the same lock."""
    found: list[tuple[Belief, Belief]] = []
    by_lock: dict[str, list[Belief]] = {}
    for each in sorted(beliefs, key=lambda one: one.since_ns):
        earlier = by_lock.setdefault(each.lock, [])
        found += [
            (one, each)
            for one in earlier
            if one.instance != each.instance and (one.until_ns is None or one.until_ns > each.since_ns)
        ]
        earlier.append(each)
    return found


def handoff_gaps_ns(beliefs: Iterable[Belief], *, since_ns: int) -> list[int]:
    """For every lock that came to another instance since then: how long nobody believed to hold it.

    Negative where two did for so long. A holder that goes on to believe is left to `overlaps`.
    """
    found: list[int] = []
    before: dict[str, Belief] = {}
    for each in sorted(beliefs, key=lambda one: one.since_ns):
        earlier = before.get(each.lock)
        before[each.lock] = each
        if earlier is None or earlier.instance == each.instance or earlier.until_ns is None:
            continue
        if each.since_ns >= since_ns:
            found.append(each.since_ns - earlier.until_ns)
    return found
