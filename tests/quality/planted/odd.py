"""Bugs that nobody planned for: caches, wrong identities, wrong conditions, clean-ups that hit the wrong grant."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from lockref.errors import OutcomeUnknown, ReleaseFailed
from lockref.locks.cell import Cell
from lockref.locks.cleanup import Cleanup
from lockref.locks.decisions import recognise
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Lease, Moment, Purpose, Reason, Stored, Take, Wait
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import (
    OtherNumbers,
    WritesApart,
    counted_from_now,
    ending,
    look_or_none,
    other,
    postponed,
)
from tests.quality.planted.strangers import PlainLock


class _TrustsItsRelease(WritesApart):
    has_released = False

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        self.has_released = True
        return super().release(if_version, record)

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        if self.has_released and if_version is not None:
            return self.overwrite(record)
        return super().acquire(if_version, record)


class TrustsItsLastVersion(StorageLock):
    """What it released last is still free, so the next acquire needs no condition (M17)."""

    parts = other(cell=_TrustsItsRelease)


class OwnerIsTheHost(PlainLock):
    """Its identity is that of its machine: after a restart the dead one's record is its own, token and all (S2, D1)."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.me = f"host-{context.runtime.process_id() // 1000}"

    def attempt(self, end_ns: int) -> bool | None:
        found = self.store.read(self.settings.key)
        view = None if found.body is None else self.decode(found.body)
        if view is None or view.owner != self.me or view.is_released or not self.enter():
            return super().attempt(end_ns)
        assert found.version is not None
        self.token = self.token_seen = view.token or 0
        self.begin(found.version, self.runtime.monotonic_ns(), self.runtime.wall_ns(), 0)
        self.epoch += 1
        epoch = self.epoch
        self.runtime.spawn(lambda: self.beat(epoch), name="heartbeat")
        return True


class CountsTicks(PlainLock):
    """Time is the number of naps that its watchdog took, and a paused process takes none (H1, H2)."""

    ticks = 0

    def begin(self, version: Any, mono_ns: int, wall_ns: int, until_ms: int) -> None:
        super().begin(version, mono_ns, wall_ns, until_ms)
        self.ticks = 0

    def holds(self) -> bool:
        return self.version is not None and self.ticks < 9

    def beat(self, epoch: int) -> None:
        while epoch == self.epoch and self.holds():
            self.runtime.sleep(self.settings.renew_interval_ns)
            self.ticks += 1
            if epoch == self.epoch and self.user is not None and self.user.is_alive():
                self.renew(epoch)


class SwallowsReleaseFailure(StorageLock):
    """A release that failed is logged, and unlock returns as if nothing had happened (S7, H24)."""

    def unlock(self) -> None:
        try:
            super().unlock()
        except ReleaseFailed:
            return


class RoundsItsTimeoutUp(StorageLock):
    """The timeout is counted in whole polls of ten seconds (L5)."""

    def lock(self, timeout_s: float) -> bool:
        return super().lock(-(-timeout_s // 10) * 10)


class UnlockJoinsTheHeartbeat(PlainLock):
    """Unlock waits for its heartbeat, which waits for the store (L5, D9)."""

    beating: Any = None

    def beat(self, epoch: int) -> None:
        self.beating = self.runtime.current_task()
        super().beat(epoch)

    def renew(self, epoch: int) -> None:
        while self.store.read(self.settings.key).outcome is not Outcome.APPLIED:
            self.runtime.sleep(100 * NS_PER_MS)
        super().renew(epoch)

    def unlock(self) -> None:
        self.epoch += 1
        if self.beating is not None:
            self.beating.join()
            self.beating = None
        super().unlock()


class _ForcesTheSecondTry(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().acquire(if_version, record)
        return self.overwrite(record) if reply.outcome is Outcome.AMBIGUOUS else reply


class BlindSecondTry(StorageLock):
    """An acquire without an answer is sent once more, and now without a condition, for it was granted anyway (A1)."""

    parts = other(cell=_ForcesTheSecondTry)


class _CountsFromFirstSight(ReturningAcquisition[LockFile]):
    """Once a holder has been in its way for a validity, it takes over."""

    holder: Any = None
    since_ns = 0

    def decide(self, known: Stored[LockFile]) -> Take | Wait:
        decision = super().decide(known)
        now_ns = self.runtime.monotonic_ns()
        holder = None if known.record is None else (known.record.owner, known.record.fence)
        if holder != self.holder:
            self.holder, self.since_ns = holder, now_ns
        if isinstance(decision, Wait) and now_ns - self.since_ns > self.client.terms.validity_ns:
            return Take(Reason.LAPSED)
        return decision


class LeaseFromFirstSight(StorageLock):
    """A holder's lease runs from when it was first seen, however often it is renewed (S5)."""

    parts = other(acquisition=_CountsFromFirstSight)


class GuardCachesItsAnswer(StorageLock):
    """The guard is asked too often, so its yes is good for three seconds (H2)."""

    _yes_until_ns = 0

    def holds(self) -> bool:
        now_ns = self.runtime.monotonic_ns()
        if now_ns >= self._yes_until_ns and super().holds():
            self._yes_until_ns = now_ns + 3 * NS_PER_S
        return self.tenure is not None and now_ns < self._yes_until_ns


class GivesUpBlindly(StorageLock):
    """A holder that lost its grant releases all the same, on whatever stands there (S6, M4)."""

    def unlock(self) -> None:
        tenure = self.tenure
        if tenure is not None and self.gate.is_mine() and not tenure.is_in_force():
            found = self.cell.store.read(self.cell.key)
            if found.version is not None:
                freed = tenure.lease.attempt.record.freed(self.cell.new_nonce())
                self.cell.swap(found.version, freed, Purpose.RELEASE)
        super().unlock()


class WaitsAnewForEachOwner(PlainLock):
    """The time to wait begins again whenever another holder is seen (L5)."""

    def acquire(self, timeout_ns: int) -> bool:
        end_ns = self.runtime.monotonic_ns() + max(timeout_ns, 3 * self.timeout_ns)
        seen = None
        is_granted = False
        try:
            while True:
                answer = self.attempt(self.runtime.monotonic_ns() + 3 * self.timeout_ns)
                if answer:
                    is_granted = True
                    return True
                found = self.store.read(self.settings.key)
                view = None if found.body is None else self.decode(found.body)
                if view is not None and timeout_ns and (view.owner, view.token) != seen:
                    seen = (view.owner, view.token)
                    end_ns = self.runtime.monotonic_ns() + timeout_ns
                if end_ns <= self.runtime.monotonic_ns() or timeout_ns == 0:
                    if answer is None:
                        raise OutcomeUnknown("not granted, and nobody else was seen to have it")
                    return False
                self.runtime.sleep(self.settings.poll_interval_ns)
        finally:
            if not is_granted:
                self.leave()


class _GivesUp(Cleanup[LockFile]):
    given_up: tuple[Attempt[LockFile], ...] = ()

    def abandon(self, attempts: Collection[Attempt[LockFile]], *, unsettled: Sequence[Attempt[LockFile]]) -> None:
        self.given_up = tuple(attempts)
        super().abandon(attempts, unsettled=())


class _Adopts(ReturningAcquisition[LockFile]):
    def make_pass(self, known: Stored[LockFile] | None = None) -> int | None:
        stored = look_or_none(self.cell)
        cleanup = self.client.cleanup
        assert isinstance(cleanup, _GivesUp)
        orphan = None if stored is None else recognise(stored.record, cleanup.given_up)
        if stored is not None and stored.version is not None and orphan is not None:
            now = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
            fresh = dataclasses.replace(orphan, sent=now, deadline=self.rules.deadline_after(now, self.client.terms))
            if self.client.begin(Lease(stored.version, fresh)):
                return None
        return super().make_pass(known)


class AdoptsItsOrphan(StorageLock):
    """A write that an earlier call gave up is found in the store, and is a grant from now on (H5, H6)."""

    parts = other(acquisition=_Adopts, cleanup=_GivesUp)


class _FreesItsOwner(Cleanup[LockFile]):
    def abandon(self, attempts: Collection[Attempt[LockFile]], *, unsettled: Sequence[Attempt[LockFile]]) -> None:
        if unsettled:
            owner = unsettled[-1].record.owner
            self.runtime.spawn(lambda: self.free(owner), name="cleanup")
        super().abandon(attempts, unsettled=unsettled)

    def free(self, owner: str | None) -> None:
        for _ in range(12):
            self.runtime.sleep(NS_PER_S // 2)
            stored = look_or_none(self.cell)
            record = None if stored is None else stored.record
            if stored is not None and record is not None and record.owner == owner and not record.expired:
                self.cell.swap(stored.version, record.freed(self.cell.new_nonce()), Purpose.RELEASE)


class CleanupHitsTheNextGrant(StorageLock):
    """The clean-up after a failed call releases every record of its own owner, the next grant included (S3, H6)."""

    parts = other(cleanup=_FreesItsOwner)


class TryLockNeverTakesOver(StorageLock):
    """`try_lock` only creates: a released or lapsed record counts as somebody's (S7)."""

    def try_lock(self) -> bool:
        stored = look_or_none(self.cell)
        if stored is not None and stored.record is not None:
            return False
        return super().try_lock()


class RemembersNo(StorageLock):
    """A no is remembered for three seconds, so that nobody asks too often (S7)."""

    _no_until_ns = 0

    def try_lock(self) -> bool:
        if self.runtime.monotonic_ns() < self._no_until_ns:
            return False
        if super().try_lock():
            return True
        self._no_until_ns = self.runtime.monotonic_ns() + 3 * NS_PER_S
        return False


class _Wraps(OtherNumbers):
    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        return None if token is None else token % 8 + 1


class TokenWraps(StorageLock):
    """The token is kept in three bits (S2)."""

    parts = other(tokens=_Wraps)


class _WaitsForTheStore(WritesApart):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().renew(if_version, record)
        if reply.missing:
            found = look_or_none(self)
            if found is not None and found.record is None:
                return WriteReply(outcome=Outcome.APPLIED, version=if_version)
        return reply


class HealthyOnAbsentRead(StorageLock):
    """A renewal that meets nothing looks again, finds nothing, and tries later: the store will catch up (U9, M7)."""

    parts = other(cell=_WaitsForTheStore)


class _SlowsDown(Heartbeat[LockFile]):
    def _later(self) -> MonoNs:
        super()._later()
        pause_ns = NS_PER_S << min(self._failures, 5)
        lease = self.tenure.lease
        self.tenure.lease = Lease(lease.version, ending(lease.attempt, postponed(lease.deadline, pause_ns, pause_ns)))
        return MonoNs(self.runtime.monotonic_ns() + pause_ns)


class SlowsItsHeartDown(StorageLock):
    """Each refused renewal doubles the pause before the next, and the deadline moves with it (M9)."""

    parts = other(heartbeat=_SlowsDown)


class _ThrottledIsFree(Cell[LockFile]):
    last: Stored[LockFile] | None = None

    def look(self) -> Stored[LockFile] | None:
        stored = super().look()
        if stored is not None:
            self.last = stored
            return stored
        last = self.last
        if last is None or last.record is None:
            return None
        return Stored(last.version, dataclasses.replace(last.record, expired=True))


class TakesThrottledForFree(StorageLock):
    """A look that was throttled shows no holder, so there is none; it writes on the last version seen (M12)."""

    parts = other(cell=_ThrottledIsFree)


class ReleasesTwice(PlainLock):
    """Releases again a little later, to be on the safe side, and by then it is somebody else's (S6, M4)."""

    def release(self, version: Any) -> None:
        super().release(version)
        self.runtime.spawn(self.release_again, name="release-again")

    def release_again(self) -> None:
        self.runtime.sleep(NS_PER_S)
        found = self.store.read(self.settings.key)
        self.put(self.line(0, self.token, "free"), found.version)


class _AsksInDanger(Tenure[LockFile]):
    cell: Cell[LockFile] | None = None

    def remaining_ns(self) -> int:
        left_ns = super().remaining_ns()
        if self.cell is not None and 0 < left_ns < NS_PER_S:
            stored = look_or_none(self.cell)
            if stored is not None and stored.version == self.lease.version:
                self.lease = counted_from_now(self.lease, self.runtime)
        return left_ns


class _LendsItsCell(Heartbeat[LockFile]):
    tenure: _AsksInDanger

    def start(self) -> None:
        self.tenure.cell = self.cell
        super().start()


class RestartsItsPatienceInDanger(StorageLock):
    """Near its deadline it asks the store whose the lock is, and believes the answer for another validity (H4)."""

    parts = other(tenure=_AsksInDanger, heartbeat=_LendsItsCell)
