"""Bugs in giving the lock back: no condition, hidden failures, beliefs and heartbeats that outlive the release."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.claims import BELIEF_THROUGH_UNLOCK
from lockref.errors import LockLost, LockNotHeld, ReleaseFailed
from lockref.locks.cleanup import Cleanup
from lockref.locks.decisions import next_token
from lockref.locks.tenure import Tenure
from lockref.locks.values import Ending, Purpose, Stored
from lockref.runtime import NS_PER_S
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import OtherNumbers, WritesApart, extended, look_or_none, other
from tests.quality.planted.takeover import FromMemory


class _OverwritesToRelease(WritesApart):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record)


class UnconditionalRelease(StorageLock):
    """Unlock overwrites whatever is there, a successor's grant included (M4: gcslock)."""

    parts = other(cell=_OverwritesToRelease)


class _DeletesToRelease(WritesApart):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.store.delete(self.key)  # type: ignore[attr-defined]


class DeletesToRelease(StorageLock):
    """Unlock deletes the object, whoever has it by now, and every token with it (M4: Terraform; M15: slatedb)."""

    # Without a fence object, which would survive the deletion.
    parts = other(cell=_DeletesToRelease, tokens=FromMemory)


class _DeletesItsOwn(WritesApart):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        self.token_max = 0
        return self.store.delete(self.key, if_version)  # type: ignore[attr-defined]


class _OneIfAbsent(OtherNumbers):
    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        return next_token(stored, 0)


class ConditionallyDeletes(StorageLock):
    """Unlock deletes its own record only; but tokens start again after it, unless somebody remembers them (M5, M15)."""

    parts = other(cell=_DeletesItsOwn, tokens=_OneIfAbsent)


class _ClearsTheToken(WritesApart):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return super().release(if_version, dataclasses.replace(record, fence=None))


class ClearsTokenOnRelease(StorageLock):
    """The released record carries no token, so the next owner counts from the start (M5: Litestream)."""

    parts = other(cell=_ClearsTheToken, tokens=_OneIfAbsent)


class _Once(Cleanup[LockFile]):
    """One try; what came of it is left to `ended`."""

    def release(self, tenure: Tenure[LockFile]) -> tuple[Ending, None]:
        record = tenure.lease.attempt.record.freed(self.cell.new_nonce())
        return self.ended(self.cell.swap(tenure.lease.version, record, Purpose.RELEASE), record), None

    def ended(self, reply: WriteReply, record: LockFile) -> Ending:
        return Ending.FREED


class ReleasesOnce(StorageLock):
    """One try, then it calls the lock released; a lost or refused request leaves it standing (M25, H7)."""

    parts = other(cleanup=_Once)


class _Never(Cleanup[LockFile]):
    def release(self, tenure: Tenure[LockFile]) -> tuple[Ending, None]:
        return Ending.FREED, None


class NeverReleases(StorageLock):
    """Says "released" and leaves the record to lapse (S7, L3)."""

    parts = other(cleanup=_Never)


class BelievesAfterUnlock(StorageLock):
    """`holds` looks at the last deadline and not at whether the lock was given back (M27)."""

    _last: Any = None

    def holds(self) -> bool:
        self._last = self.tenure or self._last
        return self._last is not None and _is_before_its_deadline(self._last)


class _OnceOrUnknown(_Once):
    def ended(self, reply: WriteReply, record: LockFile) -> Ending:
        return Ending.FREED if reply.outcome is Outcome.APPLIED else Ending.UNKNOWN


class BelievesWhileReleasing(StorageLock):
    """The grant is cleared only after a release that worked: a failed one leaves the client believing (M27, U4, U5)."""

    parts = other(cleanup=_OnceOrUnknown)
    _kept: Tenure[LockFile] | None = None

    def holds(self) -> bool:
        return super().holds() or self._believes()

    @property
    def grant(self) -> Any:
        return self._kept.grant() if self._kept is not None and self._believes() else super().grant

    def lock(self, timeout_s: float) -> bool:
        return self._believes() or super().lock(timeout_s)

    def unlock(self) -> None:
        tenure = self.tenure
        if tenure is None and self._kept is not None and self.cleanup.release(self._kept)[0] is Ending.FREED:
            self._kept = None
            return
        try:
            super().unlock()
        except ReleaseFailed:
            self._kept = tenure
            raise

    def _believes(self) -> bool:
        return self._kept is not None and _is_before_its_deadline(self._kept)


class SaysYesDuringUnlock(StorageLock):
    """`unlock` is slow after its release has landed, and `holds` says yes until it has returned.

    Nobody uses the lock by then, unless the lock declares that its holder may.
    """

    _leaving: Tenure[LockFile] | None = None

    def holds(self) -> bool:
        return super().holds() or (self._leaving is not None and _is_before_its_deadline(self._leaving))

    def unlock(self) -> None:
        self._leaving = self.tenure
        try:
            super().unlock()
            self.runtime.sleep(3 * NS_PER_S)
        finally:
            self._leaving = None


class MayBeUsedDuringUnlock(SaysYesDuringUnlock):
    """The same lock declares that its holder may use it until `unlock` has returned: two may use it at once (S3)."""

    claims = (*StorageLock.claims, BELIEF_THROUGH_UNLOCK)


class StopsWhenItGivesBack(StorageLock):
    """Correct: it declares that its holder may use it until `unlock` has returned, and says no once it has begun."""

    claims = (*StorageLock.claims, BELIEF_THROUGH_UNLOCK)


class SaysYesUntilTheAnswer(StopsWhenItGivesBack):
    """`holds` says yes until the release is answered: a late answer lets two clients hold (S3)."""

    _leaving: Tenure[LockFile] | None = None

    def holds(self) -> bool:
        return super().holds() or (self._leaving is not None and _is_before_its_deadline(self._leaving))

    def unlock(self) -> None:
        self._leaving = self.tenure
        try:
            super().unlock()
        finally:
            self._leaving = None


class SaysYesUntilClosed(StopsWhenItGivesBack):
    """The same of `close` (S3, U16)."""

    _leaving: Tenure[LockFile] | None = None

    def holds(self) -> bool:
        return super().holds() or (self._leaving is not None and _is_before_its_deadline(self._leaving))

    def close(self) -> None:
        self._leaving = self.tenure
        try:
            super().close()
        finally:
            self._leaving = None


class _RemembersItsRelease(WritesApart):
    last_release: Version | None = None

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().release(if_version, record)
        self.last_release = reply.version
        return reply


class BeatsAfterRelease(StorageLock):
    """A heartbeat that was not stopped writes a live record over its own release (M8: awslabs)."""

    parts = other(cell=_RemembersItsRelease)
    cell: _RemembersItsRelease

    def unlock(self) -> None:
        tenure = self.tenure
        super().unlock()
        left = self.cell.last_release
        if tenure is not None and left is not None:
            renewal = extended(tenure.lease.attempt.record, self.cell, self.terms)
            self.runtime.spawn(lambda: self._beat_late(left, renewal), name="heartbeat-late")

    def _beat_late(self, left: Version, renewal: LockFile) -> None:
        self.runtime.sleep(self.terms.renew_interval_ns // 100)
        self.cell.swap(left, renewal, Purpose.RENEW)


class HeartbeatNeverStops(StorageLock):
    """Renewing goes on after unlock, each time on whatever the object holds (M8, M23)."""

    def unlock(self) -> None:
        tenure = self.tenure
        if tenure is not None:
            record = tenure.lease.attempt.record
            self.runtime.spawn(lambda: self._beat_on(record), name="heartbeat-zombie")
        super().unlock()

    def _beat_on(self, record: LockFile) -> None:
        for _ in range(30):
            self.runtime.sleep(self.terms.renew_interval_ns)
            stored = look_or_none(self.cell)
            if stored is not None and stored.record is not None and stored.record.owner == self.owner:
                self.cell.swap(stored.version, extended(record, self.cell, self.terms), Purpose.RENEW)


class AnybodyMayUnlock(StorageLock):
    """Unlock by a task that never locked releases the lock of the one that did (H9)."""

    def unlock(self) -> None:
        if self.tenure is not None:
            self.gate.user = self.tenure.task = self.runtime.current_task()
        super().unlock()


class _FreesAnyOwner(Cleanup[LockFile]):
    def release(self, tenure: Tenure[LockFile]) -> tuple[Ending, None]:
        stored = look_or_none(self.cell)
        if stored is None or stored.version is None or stored.record is None:
            return Ending.UNKNOWN, None
        self.cell.swap(stored.version, stored.record.freed(self.cell.new_nonce()), Purpose.RELEASE)
        return Ending.FREED, None


class UnlockFreesAnyOwner(StorageLock):
    """Unlock reads the record and releases it, whoever owns it (M4)."""

    parts = other(cleanup=_FreesAnyOwner)


class _ForcesTheSecond(_Once):
    cell: WritesApart

    def ended(self, reply: WriteReply, record: LockFile) -> Ending:
        if reply.outcome is not Outcome.APPLIED:
            self.runtime.sleep(self.terms.renew_interval_ns // 4)
            self.cell.overwrite(record)
        return Ending.FREED


class UnlockRetriesWithoutCondition(StorageLock):
    """The first release is conditional; after a failure it is forced (M4)."""

    parts = other(cell=WritesApart, cleanup=_ForcesTheSecond)


class LossIsSilent(StorageLock):
    """Unlock after a loss forgets to forget: the next `lock` of the same client is true at once (U7, M27)."""

    _stays: Tenure[LockFile] | None = None

    def unlock(self) -> None:
        tenure = self.tenure
        try:
            super().unlock()
        except (LockLost, LockNotHeld):
            self._stays = tenure or self._stays
            raise

    def lock(self, timeout_s: float) -> bool:
        return self.holds() or super().lock(timeout_s)

    def holds(self) -> bool:
        return self.tenure is not None or self._stays is not None


def _is_before_its_deadline(tenure: Tenure[LockFile]) -> bool:
    now_ns, deadline = tenure.runtime.monotonic_ns(), tenure.lease.deadline
    return now_ns < deadline.mono_ns and tenure.runtime.wall_ns() < deadline.wall_ns
