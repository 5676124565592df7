"""Bugs in giving the lock back: no condition, hidden failures, beliefs and heartbeats that outlive the release."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.errors import LockLost, LockNotHeld
from lockref.storage import lease, lockfile
from lockref.storage.fence import Reserved
from lockref.storage.lockfile import LockFile
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, Version, WriteReply


class UnconditionalRelease(StorageLock):
    """Unlock overwrites whatever is there, a successor's grant included (M4: gcslock)."""

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        return self._store.put(self._key, lockfile.serialize(body))


class DeletesToRelease(StorageLock):
    """Unlock deletes the object, whoever has it by now, and every token with it (M4: Terraform; M15: slatedb)."""

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        return self._store.delete(self._key)

    def _reserve(self, call: Any, known: Any) -> Reserved:
        # Without a fence object, which would survive the deletion.
        return Reserved(lease.next_fence(known, self._fence_seen_max), None)


class ConditionallyDeletes(StorageLock):
    """Unlock deletes its own record only; but tokens start again after it, unless somebody remembers them (M5, M15)."""

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        self._fence_seen_max = 0
        return self._store.delete(self._key, version)

    def _next_token(self, known: Any) -> int:
        return 1 if known.record is None else lease.next_fence(known, 0)


class ClearsTokenOnRelease(StorageLock):
    """The released record carries no token, so the next owner counts from the start (M5: Litestream)."""

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        return super()._release_write(version, dataclasses.replace(body, fence=None))

    def _next_token(self, known: Any) -> int:
        return lease.next_fence(known, 0)


class ReleasesOnce(StorageLock):
    """One try, then it calls the lock released; a lost or refused request leaves it standing (M25, H7)."""

    def _release(self, tenure: Any) -> Any:
        body = lease.released(tenure.lease.attempt.record, self._new_nonce())
        self._release_write(tenure.lease.version, body)
        return _freed()


class NeverReleases(StorageLock):
    """Says "released" and leaves the record to lapse (S7, L3)."""

    def _release(self, tenure: Any) -> Any:
        return _freed()


class BelievesAfterUnlock(StorageLock):
    """`holds` looks at the last deadline and not at whether the lock was given back (M27)."""

    _last: Any = None

    def holds(self) -> bool:
        self._last = self._tenure or self._last
        return self._last is not None and not self._last.lease.deadline.has_passed(self._now())


class BelievesWhileReleasing(StorageLock):
    """The grant is cleared only after a release that worked: a failed one leaves the client believing (M27, U4, U5)."""

    _kept: Any = None

    def _re_enter(self) -> bool:
        if self._kept is not None and not self._kept.lease.deadline.has_passed(self._now()):
            self._tenure, self._user = self._kept, self._runtime.current_task()
            self._idle.clear()
            return True
        return super()._re_enter()

    def _release(self, tenure: Any) -> Any:
        self._kept = tenure
        body = lease.released(tenure.lease.attempt.record, self._new_nonce())
        reply = self._release_write(tenure.lease.version, body)
        if reply.outcome is Outcome.APPLIED:
            self._kept = None
            return _freed()
        return _unknown()


class BeatsAfterRelease(StorageLock):
    """A heartbeat that was not stopped writes a live record over its own release (M8: awslabs)."""

    def _give_back(self, tenure: Any, *, was_held: bool) -> None:
        super()._give_back(tenure, was_held=was_held)
        left = self._left_behind
        if left is not None and left.version is not None:
            renewal = self._new_renewal(lease.Lease(left.version, tenure.lease.attempt))
            self._runtime.spawn(lambda: self._beat_late(renewal), name="heartbeat-late")

    def _beat_late(self, renewal: lease.Attempt) -> None:
        self._runtime.sleep(self.terms.renew_interval_ns // 100)
        self._renew_write(renewal)


class HeartbeatNeverStops(StorageLock):
    """Renewing goes on after unlock, each time on whatever the object holds (M8, M23)."""

    def _give_back(self, tenure: Any, *, was_held: bool) -> None:
        self._runtime.spawn(lambda: self._beat_on(tenure), name="heartbeat-zombie")
        super()._give_back(tenure, was_held=was_held)

    def _beat_on(self, tenure: Any) -> None:
        for _ in range(30):
            self._runtime.sleep(self.terms.renew_interval_ns)
            stored = self._read_or_none()
            if stored is not None and stored.record is not None and stored.record.owner == self.owner:
                assert stored.version is not None
                self._renew_write(self._new_renewal(lease.Lease(stored.version, tenure.lease.attempt)))


class AnybodyMayUnlock(StorageLock):
    """Unlock by a task that never locked releases the lock of the one that did (H9)."""

    def unlock(self) -> None:
        if self._tenure is not None:
            self._tenure.task = self._runtime.current_task()
        super().unlock()


class UnlockFreesAnyOwner(StorageLock):
    """Unlock reads the record and releases it, whoever owns it (M4)."""

    def _release(self, tenure: Any) -> Any:
        stored = self._read_or_none()
        if stored is None or stored.version is None or stored.record is None:
            return _unknown()
        self._release_write(stored.version, lease.released(stored.record, self._new_nonce()))
        return _freed()


class UnlockRetriesWithoutCondition(StorageLock):
    """The first release is conditional; after a failure it is forced (M4)."""

    def _release(self, tenure: Any) -> Any:
        body = lease.released(tenure.lease.attempt.record, self._new_nonce())
        if self._release_write(tenure.lease.version, body).outcome is not Outcome.APPLIED:
            self._runtime.sleep(self.terms.renew_interval_ns // 4)
            self._store.put(self._key, lockfile.serialize(body))
        return _freed()


class LossIsSilent(StorageLock):
    """Unlock after a loss forgets to forget: the next `lock` of the same client is true at once (U7, M27)."""

    def unlock(self) -> None:
        tenure = self._tenure
        try:
            super().unlock()
        except (LockLost, LockNotHeld):
            if tenure is not None:
                self._tenure = tenure
            raise

    def _re_enter(self) -> bool:
        return self._tenure is not None or super()._re_enter()

    def holds(self) -> bool:
        return self._tenure is not None


def _freed() -> Any:
    from lockref.storage.release import Ending

    return Ending.FREED


def _unknown() -> Any:
    from lockref.storage.release import Ending

    return Ending.UNKNOWN
