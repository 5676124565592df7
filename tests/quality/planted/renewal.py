"""Bugs in keeping the lock: renewals without condition, errors taken for health, losses that nobody acts on."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from lockref.locks.assembly import Parts
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Deadline, Lease, Purpose
from lockref.runtime import NS_PER_MS, MonoNs, WallNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import FOREVER_NS, RenewalsApart, WritesApart, ending, other


class _OverwritesToRenew(WritesApart):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record)


class RenewsUnconditionally(StorageLock):
    """The heartbeat writes without If-Match, over a successor if there is one."""

    parts = other(cell=_OverwritesToRenew)


class _RenewsBlindly(Heartbeat[LockFile]):
    def renew(self) -> MonoNs | None:
        renewal = self.writer.renewal(self.tenure.lease)
        reply = self.cell.swap(None, renewal.record, Purpose.RENEW)
        if reply.version is not None and not self.tenure.has_ended:
            self.tenure.lease = Lease(reply.version, renewal)
        return MonoNs(self.runtime.monotonic_ns() + self.terms.renew_interval_ns)


class RenewsBlindlyAfterPause(StorageLock):
    """As above, and it does not ask its deadline before it writes."""

    parts = other(cell=_OverwritesToRenew, heartbeat=_RenewsBlindly)


class _Healthy(WritesApart):
    """Counts some failed renewals as done."""

    def __init__(self, *args: Any, believed: Outcome, **more: Any) -> None:
        super().__init__(*args, **more)
        self.believed = believed

    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().renew(if_version, record)
        if reply.outcome is self.believed:
            return WriteReply(outcome=Outcome.APPLIED, version=if_version, status=reply.status)
        return reply


def _healthy_on(believed: Outcome) -> Parts:
    return other(cell=partial(_Healthy, believed=believed))


class HealthyOnUnknown(StorageLock):
    """Timeouts and 5xx on renewal count as healthy (M7, M24: awslabs; E6)."""

    parts = _healthy_on(Outcome.AMBIGUOUS)


class HealthyOnThrottle(StorageLock):
    """429 and 503 SlowDown on renewal count as healthy (M24)."""

    parts = _healthy_on(Outcome.THROTTLED)


class HealthyOnConflict(StorageLock):
    """409 on renewal counts as healthy (M7)."""

    parts = _healthy_on(Outcome.CONFLICT)


class HealthyOnMissing(StorageLock):
    """404 on renewal counts as healthy: the holder never learns that its record is gone (M7, U9)."""

    parts = _healthy_on(Outcome.PRECONDITION_FAILED)


class _Recreates(WritesApart):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().renew(if_version, record)
        return super().renew(None, record) if reply.missing else reply


class RecreatesMissing(StorageLock):
    """A renewal that finds no object creates it anew (H15)."""

    parts = other(cell=_Recreates)


class _LowersTheStamp(RenewalsApart):
    def changed(self, renewal: Attempt[LockFile]) -> Attempt[LockFile]:
        low_ms = -(-(renewal.sent.wall_ns + self.terms.validity_ns) // NS_PER_MS)
        free = ending(renewal, Deadline(WallNs(FOREVER_NS), renewal.deadline.mono_ns))
        return dataclasses.replace(free, record=dataclasses.replace(renewal.record, valid_until_ms=low_ms))


class LowersValidUntil(StorageLock):
    """A renewal writes what its wall clock says now; after a step back the record ends before the holder does (H19)."""

    parts = other(writer=_LowersTheStamp)


class _HalvesTheStamp(RenewalsApart):
    def changed(self, renewal: Attempt[LockFile]) -> Attempt[LockFile]:
        half_ms = renewal.record.valid_until_ms - self.terms.validity_ns // 2 // NS_PER_MS
        return dataclasses.replace(renewal, record=dataclasses.replace(renewal.record, valid_until_ms=half_ms))


class RenewsWithHalfTheValidity(StorageLock):
    """A renewal writes half the validity and believes in all of it."""

    parts = other(writer=_HalvesTheStamp)


class _CarriesOn(Tenure[LockFile]):
    def is_in_force(self) -> bool:
        return not self.has_ended

    def supersede(self, reason: str) -> None:
        """Carries on."""

    def lose(self, reason: str) -> None:
        """Carries on."""


class KeptAfterLostRenewal(StorageLock):
    """A renewal that met somebody else's record changes nothing: the lock stays in memory (M27)."""

    parts = other(tenure=_CarriesOn)


class _AsReported(Tenure[LockFile]):
    def is_in_force(self) -> bool:
        return not self.has_ended and self.loss_reason is None and not self.is_superseded

    def remaining_ns(self) -> int:
        return FOREVER_NS


class _Dies(Heartbeat[LockFile]):
    def renew(self) -> MonoNs | None:
        return None


class HeartbeatDiesUnnoticed(StorageLock):
    """The first renewal kills the heartbeat, and the guard only asks whether somebody reported a loss (U15)."""

    parts = other(tenure=_AsReported, heartbeat=_Dies)


class _LosesAt412(Heartbeat[LockFile]):
    def _settle(self) -> MonoNs | None:
        self.tenure.supersede("412")
        return None


class Own412IsLoss(StorageLock):
    """The 412 that a renewal meets from its own earlier write counts as a loss, and nobody releases (M10: opentofu)."""

    parts = other(heartbeat=_LosesAt412)

    def unlock(self) -> None:
        tenure = self.tenure
        if tenure is not None and self.gate.is_mine() and not tenure.is_in_force():
            tenure.is_superseded = True
        super().unlock()


class Own412IsLossUnclaimed(Own412IsLoss):
    """The same in a lock that reports its losses and does not claim to: its guard says no as well."""

    claims = ()


class _LosesAtNotNow(Heartbeat[LockFile]):
    def _later(self) -> MonoNs:
        self.tenure.supersede("not now")
        return super()._later()


class NotNowIsLoss(StorageLock):
    """A renewal that is refused for the moment, by 409 or 429, counts as a loss (M11)."""

    parts = other(heartbeat=_LosesAtNotNow)


class _StopsInDanger(Heartbeat[LockFile]):
    def _later(self) -> MonoNs:
        lease = self.tenure.lease
        if self._failures >= 2:
            self.tenure.stopped.set()
            endless = ending(lease.attempt, Deadline(WallNs(FOREVER_NS), MonoNs(FOREVER_NS)))
            self.tenure.lease = Lease(lease.version, endless)
        return super()._later()


class DangerStopsTheHeart(StorageLock):
    """After three failed renewals it stops renewing and stays in force (M9: python_dynamodb_lock)."""

    parts = other(heartbeat=_StopsInDanger)


class _Revives(Tenure[LockFile]):
    def is_in_force(self) -> bool:
        if self.has_ended:
            return False
        self.has_lapsed = False
        return self.loss_reason is None or "before it could be renewed" in self.loss_reason


class RevivesByLateRenewal(StorageLock):
    """A renewal that lands after the deadline brings the belief back (H4)."""

    parts = other(tenure=_Revives)


class _NeverAsksTheOwner(Heartbeat[LockFile]):
    def is_owner_alive(self) -> bool:
        return True


class RenewsForDeadOwner(StorageLock):
    """The heartbeat goes on for a thread that has died, so nobody ever gets the lock (H13, U10)."""

    parts = other(heartbeat=_NeverAsksTheOwner)
