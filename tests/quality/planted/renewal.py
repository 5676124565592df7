"""Bugs in keeping the lock: renewals without condition, errors taken for health, losses that nobody acts on."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.runtime import MonoNs, WallNs
from lockref.storage import lockfile
from lockref.storage.lease import Attempt, Deadline, Lease
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, WriteReply

FOREVER_NS = 10**18


class RenewsUnconditionally(StorageLock):
    """The heartbeat writes without If-Match, over a successor if there is one."""

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        return self._store.put(self._key, lockfile.serialize(attempt.record))


class RenewsBlindlyAfterPause(StorageLock):
    """As above, and it does not ask its deadline before it writes."""

    def _renew(self, tenure: Any) -> MonoNs | None:
        attempt = self._new_renewal(tenure.lease)
        reply = self._store.put(self._key, lockfile.serialize(attempt.record))
        if reply.version is not None and self._tenure is tenure:
            tenure.lease = Lease(reply.version, attempt)
        return MonoNs(self._runtime.monotonic_ns() + self.terms.renew_interval_ns)


class _Extends(StorageLock):
    """Counts some failed renewals as done."""

    believed: tuple[Outcome, ...] = ()
    believes_missing = False

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._renew_write(attempt)
        if reply.outcome in self.believed and (self.believes_missing or not reply.missing):
            return WriteReply(outcome=Outcome.APPLIED, version=attempt.if_version, status=reply.status)
        return reply


class HealthyOnUnknown(_Extends):
    """Timeouts and 5xx on renewal count as healthy (M7, M24: awslabs; E6)."""

    believed = (Outcome.AMBIGUOUS,)


class HealthyOnThrottle(_Extends):
    """429 and 503 SlowDown on renewal count as healthy (M24)."""

    believed = (Outcome.THROTTLED,)


class HealthyOnConflict(_Extends):
    """409 on renewal counts as healthy (M7)."""

    believed = (Outcome.CONFLICT,)


class HealthyOnMissing(_Extends):
    """404 on renewal counts as healthy: the holder never learns that its record is gone (M7, U9)."""

    believed = (Outcome.PRECONDITION_FAILED,)
    believes_missing = True


class RecreatesMissing(StorageLock):
    """A renewal that finds no object creates it anew (H15)."""

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._renew_write(attempt)
        return self._write(None, attempt.record) if reply.missing else reply


class LowersValidUntil(StorageLock):
    """A renewal writes what its wall clock says now; after a step back the record ends before the holder does (H19)."""

    def _new_renewal(self, current: Lease) -> Attempt:
        attempt = super()._new_renewal(current)
        low_ms = -(-(attempt.sent.wall_ns + self.terms.validity_ns) // 10**6)
        wall_free = Deadline(WallNs(4 * FOREVER_NS), attempt.deadline.mono_ns)
        return dataclasses.replace(
            attempt, record=dataclasses.replace(attempt.record, valid_until_ms=low_ms), deadline=wall_free
        )


class RenewsWithHalfTheValidity(StorageLock):
    """A renewal writes half the validity and believes in all of it."""

    def _new_renewal(self, current: Lease) -> Attempt:
        attempt = super()._new_renewal(current)
        half_ms = attempt.record.valid_until_ms - self.terms.validity_ns // 2 // 10**6
        return dataclasses.replace(attempt, record=dataclasses.replace(attempt.record, valid_until_ms=half_ms))


class KeptAfterLostRenewal(StorageLock):
    """A renewal that met somebody else's record changes nothing: the lock stays in memory (M27)."""

    def _supersede(self, tenure: Any, reason: str) -> None:
        """Carries on."""

    def _lose(self, tenure: Any, reason: str) -> None:
        """Carries on."""

    def _is_in_force(self, tenure: Any) -> bool:
        return self._tenure is tenure


class HeartbeatDiesUnnoticed(StorageLock):
    """The first renewal kills the heartbeat, and the guard only asks whether somebody reported a loss (U15)."""

    def _renew(self, tenure: Any) -> MonoNs | None:
        return None

    def _is_in_force(self, tenure: Any) -> bool:
        return tenure.loss_reason is None and not tenure.is_superseded

    def _remaining_ns(self, tenure: Any) -> int:
        return FOREVER_NS


class Own412IsLoss(StorageLock):
    """The 412 that a renewal meets from its own earlier write counts as a loss, and nobody releases (M10: opentofu)."""

    def _resolve_renewal(self, tenure: Any) -> MonoNs | None:
        self._supersede(tenure, "412")
        return None

    def _give_back(self, tenure: Any, *, was_held: bool) -> None:
        tenure.is_superseded = tenure.is_superseded or not was_held
        super()._give_back(tenure, was_held=was_held)


class DangerStopsTheHeart(StorageLock):
    """After three failed renewals it stops renewing and stays in force (M9: python_dynamodb_lock)."""

    def _retry_renewal_ns(self, tenure: Any) -> MonoNs:
        if tenure.failures >= 2:
            tenure.stopped.set()
            tenure.lease = Lease(
                tenure.lease.version,
                dataclasses.replace(
                    tenure.lease.attempt, deadline=Deadline(WallNs(4 * FOREVER_NS), MonoNs(4 * FOREVER_NS))
                ),
            )
        return super()._retry_renewal_ns(tenure)


class RevivesByLateRenewal(StorageLock):
    """A renewal that lands after the deadline brings the belief back (H4)."""

    def _is_in_force(self, tenure: Any) -> bool:
        tenure.has_lapsed = False
        return tenure.loss_reason is None or "before it could be renewed" in tenure.loss_reason


class RenewsForDeadOwner(StorageLock):
    """The heartbeat goes on for a thread that has died, so nobody ever gets the lock (H13, U10)."""

    def _renew(self, tenure: Any) -> MonoNs | None:
        tenure.task = _Immortal(tenure.task)
        return super()._renew(tenure)


class _Immortal:
    def __init__(self, task: Any) -> None:
        self._task = task

    @property
    def name(self) -> str:
        return str(self._task.name)

    def is_alive(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return bool(self._task == other)

    def __hash__(self) -> int:
        return hash(self._task)
