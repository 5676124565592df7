"""When does a waiter look again? Any answer is safe.

The answer decides how soon a release is noticed (L3), and what waiting costs.
`adaptive_waiting.py` has another one, which learns.
"""

from __future__ import annotations

from typing import Protocol

from lockref.locks.values import R, Record, Stored
from lockref.runtime import MonoNs


class Waiting(Protocol):
    """The questions that a lock asks of its waiting strategy. Durations in nanoseconds."""

    def begin(self, now_ns: MonoNs) -> int:
        """A call begins: how long to leave the lock to others first (E34)."""
        ...

    def goes_on(self) -> bool:
        """May the call that has begun write on the version that our release left, without a look?"""
        ...

    def note(self) -> str:
        """The end of the nonces of our records, which tells other waiters of us. "" for nothing."""
        ...

    def pause_ns(self, record: Record, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        """After `record`, somebody's live lease, was seen. At most `lapses_in_ns`: until it may be taken over."""
        ...

    def leaves_ns(self, record: Record, *, now_wall_ns: int) -> int:
        """After `record`, a released one, was seen: how long to leave the lock to its owner; 0: take it now."""
        ...

    def pause_after_lost_race_ns(self) -> int:
        """After a conditional write was refused: a grant of somebody else's has just begun."""
        ...

    def won(self, token: int | None, sent_ns: MonoNs) -> None:
        """We were granted the lock, under this token, by a write that was sent then."""
        ...

    def held(self, duration_ns: int) -> None:
        """A grant of ours lasted so long."""
        ...

    def released(self, now_ns: MonoNs, began_ns: MonoNs) -> None:
        """A release of ours landed; it began at `began_ns`."""
        ...


class FixedWaiting:
    """Looks once per interval, as Hudi does. The least that a port needs."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns

    def begin(self, now_ns: MonoNs) -> int:
        return 0

    def goes_on(self) -> bool:
        return True

    def note(self) -> str:
        return ""

    def pause_ns(self, record: Record, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        return min(self._interval_ns, lapses_in_ns)

    def leaves_ns(self, record: Record, *, now_wall_ns: int) -> int:
        return 0

    def pause_after_lost_race_ns(self) -> int:
        return self._interval_ns

    def won(self, token: int | None, sent_ns: MonoNs) -> None: ...
    def held(self, duration_ns: int) -> None: ...
    def released(self, now_ns: MonoNs, began_ns: MonoNs) -> None: ...


class Shortcut(Protocol[R]):
    """A version that need not be read, because a release of our own made it."""

    def take(self) -> Stored[R] | None:
        """The state that our release left, if it probably still stands. Only the first call after it gets the state."""
        ...

    def looked(self, stored: Stored[R]) -> None:
        """A look showed this."""
        ...

    def released(self, left: Stored[R]) -> None:
        """A release of ours has landed, and this is what it left."""
        ...
