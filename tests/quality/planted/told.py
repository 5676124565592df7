"""Bugs in what a holder is told: a loss that nobody hears of, and a loss that never was."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.provider import LockContext, LockEvent, LockEventKind
from lockref.runtime import MonoNs
from lockref.storage.lease import Lease
from lockref.storage.provider import StorageLock
from lockref.stores.port import Version
from tests.quality.planted.strangers import PlainLock


class LosesInSilence(StorageLock):
    """The guard says no after a loss; listener, event and callback never hear of it (H12)."""

    def _lose(self, tenure: Any, reason: str) -> None:
        with self._mutex:
            if self._tenure is tenure and tenure.loss_reason is None:
                tenure.loss_reason = reason
                tenure.stopped.set()


class TellsOnlyOfRivals(LosesInSilence):
    """A grant that somebody replaced is reported, one that lapsed is not (H4, H12)."""

    def _supersede(self, tenure: Any, reason: str) -> None:
        tenure.is_superseded = True
        StorageLock._lose(self, tenure, reason)


class TellsOfTheFirstLossOnly(LosesInSilence):
    """One report in a lifetime: the second grant that is lost is lost in silence (H12)."""

    _has_told = False

    def _lose(self, tenure: Any, reason: str) -> None:
        if self._has_told:
            super()._lose(tenure, reason)
            return
        StorageLock._lose(self, tenure, reason)
        self._has_told = tenure.loss.is_set()


class TellsWhenUnlocked(LosesInSilence):
    """A loss is kept until unlock, which is too late for whoever works in between (H12)."""

    def unlock(self) -> None:
        tenure = self._tenure
        if tenure is not None and tenure.loss_reason is not None:
            tenure.loss.set()
            self._notices.lost(self._grant_of(tenure), self._loss_error(tenure))
        super().unlock()


class TellsOfDeadlinesOnly(StorageLock):
    """A loss that a renewal finds (404, 412) ends the watch over the deadline, and nobody is told (H12, H15)."""

    def _supersede(self, tenure: Any, reason: str) -> None:
        with self._mutex:
            tenure.is_superseded = True
            tenure.loss_reason = reason
            tenure.stopped.set()


class RenewsWithoutExtending(StorageLock):
    """Renewals land, and the holder goes on believing in its first deadline alone: work is dropped early (H1)."""

    def _extend(self, tenure: Any, extended: Lease) -> MonoNs | None:
        first = dataclasses.replace(extended.attempt, deadline=tenure.lease.attempt.deadline)
        return super()._extend(tenure, Lease(extended.version, first))


class ExtendsOnce(StorageLock):
    """The first renewal moves the deadline, the later ones do not (H1)."""

    def _extend(self, tenure: Any, extended: Lease) -> MonoNs | None:
        if tenure.lease.attempt.sent != tenure.granted_at:
            kept = dataclasses.replace(extended.attempt, deadline=tenure.lease.attempt.deadline)
            extended = Lease(extended.version, kept)
        return super()._extend(tenure, extended)


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


class TellsTwice(StorageLock):
    """Reports every loss twice."""

    def _lose(self, tenure: Any, reason: str) -> None:
        was_told = tenure.loss.is_set()
        super()._lose(tenure, reason)
        if tenure.loss.is_set() and not was_told:
            self._notices.lost(self._grant_of(tenure), self._loss_error(tenure))


class TellsEarly(StorageLock):
    """Gives up half a renewal interval before it must, and says so."""

    def _remaining_ns(self, tenure: Any) -> int:
        return max(0, super()._remaining_ns(tenure) - self.terms.renew_interval_ns // 2)
