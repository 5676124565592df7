"""Waiting for a lease that tells a duration: each waiter counts for itself, on its own monotonic clock (T1–T5).

A waiter remembers which version it saw and when the answer arrived. Once that version has stood for ρ times its lease,
its holder must have stopped: the holder counts from before its write left, the waiter from after its read returned, and
no clock runs more than ρ times as fast as another. Any other version starts the count anew. The memory outlives a call,
so that a caller who tries again does not begin from nothing (B7).

Rejected: to compare the waiter's wall clock with an instant in the row. Two clocks would then decide (B2, B4).
"""

from __future__ import annotations

from typing import Any, Final

from lockref.delta.record import LeaseItem, whole_seconds
from lockref.errors import LockNotAcquirable
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.values import Reason, Stored, Take, Wait
from lockref.runtime import NS_PER_S, MonoNs
from lockref.stores.port import Version

_INSTANT_S_MIN: Final = 365 * 24 * 3600
"""A number of fewer seconds is a duration, and no instant: dynamodb_lock 0.6 draws the line here."""

_INSTANT_AHEAD_NS_MAX: Final = 3600 * NS_PER_S
"""No lease of 0.6 that a row tells as an instant is believed to be longer than an hour."""


def stands_for_ns(duration_s: int, rate_ratio_ppm: int) -> int:
    """The time for which a state with this lease must have stood still before a take-over: ρ times the lease (T5)."""
    return -(-duration_s * NS_PER_S * rate_ratio_ppm // 10**6)


class Watch:
    """One client's memory of the row: the version that it saw last, and since when that has stood."""

    def __init__(self) -> None:
        self._version: Version | None = None
        self._since_ns = MonoNs(0)

    def saw(self, version: Version | None, now_ns: MonoNs) -> None:
        """A read that was answered at `now_ns` showed this version."""
        if version != self._version:
            self._version, self._since_ns = version, now_ns

    def stood_ns(self, version: Version | None, now_ns: MonoNs) -> int:
        """For how long this version has been seen; 0 for one that was not seen last."""
        return now_ns - self._since_ns if version is not None and version == self._version else 0


class WatchingAcquisition(ReturningAcquisition[LeaseItem]):
    """An acquiring call that takes a lease over once it has stood still for long enough.

    rate_ratio_ppm: ρ in millionths, how much faster one clock may run than another.
    """

    def __init__(self, *arguments: Any, watch: Watch, rate_ratio_ppm: int) -> None:
        super().__init__(*arguments)
        self._watch = watch
        self._rate_ratio_ppm = rate_ratio_ppm

    def look(self) -> Stored[LeaseItem] | None:
        """As `Acquisition.look`. What is watched counts from after the answer (T4)."""
        stored = super().look()
        if stored is not None:
            self._watch.saw(stored.version, self.runtime.monotonic_ns())
        return stored

    def judge(self, known: Stored[LeaseItem]) -> Take | Wait:
        """May the row be taken? Raises LockNotAcquirable where an operator has closed it."""
        record = known.record
        if record is None:
            return Take(Reason.ABSENT)
        if not record.is_acquirable:
            raise LockNotAcquirable(
                f"row {self.cell.key} has isNonAcquirable: an operator lets nobody lock it; wait until that is removed"
            )
        if record.is_released:
            return Take(Reason.RELEASED)
        client = self.client
        nonces = {write.record.nonce for write in client.cleanup.orphans}  # This call's writes are among them.
        if record.owner == client.writer.owner and record.nonce in nonces:
            return Take(Reason.OWN)
        if self._is_left_by_our_own(record):
            return Take(Reason.RESUMED)
        stood_ns = self._watch.stood_ns(known.version, self.runtime.monotonic_ns())
        left_ns = max(self.lapses_after_ns(record) - stood_ns, self._until_instant_ns(record))
        return Take(Reason.LAPSED) if left_ns <= 0 else Wait(left_ns)

    def _is_left_by_our_own(self, record: LeaseItem) -> bool:
        """Did a process of our owner name write it that has provably ended?

        Its own last requests may still be on their way. One to the row meets our version there, and one to the
        protected resource our generation.
        """
        name = self.client.writer.owner.rpartition("/")[0]
        return bool(record.process) and record.name == name and self.runtime.has_ended(record.process)

    def lapses_after_ns(self, record: LeaseItem) -> int:
        """As `stands_for_ns`.

        A number (N) below a year of seconds is a duration, as 0.6 reads it; then the longer one of that and our own
        lease counts. For an instant, our own lease counts here, and `_until_instant_ns` may wait for longer.
        """
        duration_s = record.duration_s
        if duration_s is None:
            duration_s = whole_seconds(self.client.terms.validity_ns)
            if record.ends_s is not None and record.ends_s < _INSTANT_S_MIN:
                duration_s = max(duration_s, record.ends_s)
        return stands_for_ns(duration_s, self._rate_ratio_ppm)

    def _until_instant_ns(self, record: LeaseItem) -> int:
        """The time until the instant that a row of 0.6 tells passes on our wall clock; at most 0 where there is none.

        It only makes a waiter wait longer, beside what its monotonic clock asks (T2): a live holder of 0.6 whose lease
        is longer than ours keeps its row as far as our clock agrees with its own. An instant too far off is damage, or
        from another clock, and blocks nobody (B1): then our own lease decides alone.
        """
        if record.ends_s is None or record.ends_s < _INSTANT_S_MIN:
            return 0
        # 0.6 rounds down to a whole second.
        left_ns = (record.ends_s + 1) * NS_PER_S - self.runtime.wall_ns()
        return left_ns if left_ns <= _INSTANT_AHEAD_NS_MAX else 0
