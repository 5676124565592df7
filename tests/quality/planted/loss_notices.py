"""Bugs in what a holder is told: a loss that nobody hears of, and a loss that never was."""

from __future__ import annotations

from functools import partial
from typing import Any

from lockref.locks.tenure import Tenure
from lockref.locks.values import Lease
from lockref.provider import LockContext, LockEvent, LockEventKind
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version
from tests.quality.planted.broken import ending, other
from tests.quality.planted.strangers import PlainLock


class _LosesInSilence(Tenure[LockFile]):
    def lose(self, reason: str) -> None:
        if not self.has_ended and self.loss_reason is None:
            self.loss_reason = reason
            self.stopped.set()


class LosesInSilence(StorageLock):
    """The guard says no after a loss; listener, event and callback never hear of it (H12)."""

    parts = other(tenure=_LosesInSilence)


class _TellsOfRivals(_LosesInSilence):
    def supersede(self, reason: str) -> None:
        self.is_superseded = True
        Tenure.lose(self, reason)


class TellsOnlyOfRivals(StorageLock):
    """A grant that somebody replaced is reported, one that lapsed is not (H4, H12)."""

    parts = other(tenure=_TellsOfRivals)


class _TellsOnce(_LosesInSilence):
    def __init__(self, *args: Any, told: list[str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.told = told

    def lose(self, reason: str) -> None:
        if self.told:
            super().lose(reason)
            return
        Tenure.lose(self, reason)
        if self.loss.is_set():
            self.told.append(reason)


class TellsOfTheFirstLossOnly(StorageLock):
    """One report in a lifetime: the second grant that is lost is lost in silence (H12)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.parts = other(tenure=partial(_TellsOnce, told=[]))  # type: ignore[misc]
        super().__init__(*args, **options)


class TellsWhenUnlocked(LosesInSilence):
    """A loss is kept until unlock, which is too late for whoever works in between (H12)."""

    def unlock(self) -> None:
        tenure = self.tenure
        if tenure is not None and tenure.loss_reason is not None:
            tenure.loss.set()
            self.notices.lost(tenure.grant(), tenure.loss_error())
        super().unlock()


class _SupersededInSilence(Tenure[LockFile]):
    def supersede(self, reason: str) -> None:
        self.is_superseded = True
        self.loss_reason = reason
        self.stopped.set()


class TellsOfDeadlinesOnly(StorageLock):
    """A loss that a renewal finds (404, 412) ends the watch over the deadline, and nobody is told (H12, H15)."""

    parts = other(tenure=_SupersededInSilence)


class _NotExtended(Tenure[LockFile]):
    def extend(self, extended: Lease[LockFile]) -> bool:
        return super().extend(Lease(extended.version, ending(extended.attempt, self.lease.deadline)))


class RenewsWithoutExtending(StorageLock):
    """Renewals land, and the holder goes on believing in its first deadline alone: work is dropped early (H1)."""

    parts = other(tenure=_NotExtended)


class _ExtendedOnce(_NotExtended):
    def extend(self, extended: Lease[LockFile]) -> bool:
        if self.lease.attempt.sent == self.granted_at:
            return Tenure.extend(self, extended)
        return super().extend(extended)


class ExtendsOnce(StorageLock):
    """The first renewal moves the deadline, the later ones do not (H1)."""

    parts = other(tenure=_ExtendedOnce)


class PlainForgetsToExtend(PlainLock):
    """The same in a lock of another make: what a renewal brought is the version alone."""

    def begin(self, version: Version, mono_ns: int, wall_ns: int, until_ms: int) -> None:
        if self.version is None:
            super().begin(version, mono_ns, wall_ns, until_ms)
        else:
            self.version, self.until_ms = version, until_ms


# From here on correct.


class TalkativePlain(PlainLock):
    """Tells its listener of grants and releases, and claims nothing of losses: the listener is optional."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.listener = context.listener

    def acquire(self, timeout_ns: int) -> bool:
        is_granted = super().acquire(timeout_ns)
        if is_granted:
            self.listener(LockEvent(kind=LockEventKind.GRANTED, grant=self.grant))
        return is_granted

    def unlock(self) -> None:
        super().unlock()
        self.listener(LockEvent(kind=LockEventKind.RELEASED))


class _LostTwice(Tenure[LockFile]):
    def lose(self, reason: str) -> None:
        was_told = self.loss.is_set()
        super().lose(reason)
        if self.loss.is_set() and not was_told:
            self.notices.lost(self.grant(), self.loss_error())


class TellsTwice(StorageLock):
    """Reports every loss twice."""

    parts = other(tenure=_LostTwice)


class _GivesUpEarly(Tenure[LockFile]):
    def remaining_ns(self) -> int:
        lease = self.lease
        early_ns = (lease.deadline.mono_ns - lease.attempt.sent.mono_ns) // 20
        return max(0, super().remaining_ns() - early_ns)


class TellsEarly(StorageLock):
    """Gives up a twentieth of its lease before it must, and says so."""

    parts = other(tenure=_GivesUpEarly)
