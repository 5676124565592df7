"""Bugs that nobody planned for: caches, wrong identities, wrong conditions, clean-ups that hit the wrong grant."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.errors import OutcomeUnknown, ReleaseFailed
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs
from lockref.storage import lease, lockfile
from lockref.storage.lease import Attempt, Lease, Stored, Take, Wait
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, WriteReply
from tests.quality.planted.strangers import PlainLock


class TrustsItsLastVersion(StorageLock):
    """What it released last is still free, so the next acquire needs no condition (M17)."""

    _has_released = False

    def _release_write(self, version: Any, body: Any) -> WriteReply:
        self._has_released = True
        return super()._release_write(version, body)

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if self._has_released and attempt.if_version is not None:
            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return super()._acquire_write(attempt)


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


class BlindSecondTry(StorageLock):
    """An acquire without an answer is sent once more, and now without a condition, for it was granted anyway (A1)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._acquire_write(attempt)
        if reply.outcome is Outcome.AMBIGUOUS:
            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return reply


class LeaseFromFirstSight(StorageLock):
    """A holder's lease runs from when it was first seen, however often it is renewed (S5)."""

    _seen: tuple[Any, int] = (None, 0)

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        decision = super()._decide(known, call)
        if known.record is not None:
            holder = (known.record.owner, known.record.fence)
            if holder != self._seen[0]:
                self._seen = (holder, self._runtime.monotonic_ns())
            if isinstance(decision, Wait) and self._runtime.monotonic_ns() - self._seen[1] > self.terms.validity_ns:
                return Take(lease.Reason.LAPSED)
        return decision


class GuardCachesItsAnswer(StorageLock):
    """The guard is asked too often, so its yes is good for three seconds (H2)."""

    _yes_until_ns = 0

    def holds(self) -> bool:
        now_ns = self._runtime.monotonic_ns()
        if now_ns >= self._yes_until_ns and super().holds():
            self._yes_until_ns = now_ns + 3 * NS_PER_S
        return self._tenure is not None and now_ns < self._yes_until_ns


class GivesUpBlindly(StorageLock):
    """A holder that lost its grant releases all the same, on whatever stands there (S6, M4)."""

    def _give_back(self, tenure: Any, *, was_held: bool) -> None:
        if not was_held:
            found = self._store.read(self._key)
            body = lease.released(tenure.lease.attempt.record, self._new_nonce())
            if found.version is not None:
                self._write(found.version, body)
        super()._give_back(tenure, was_held=was_held)


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


class AdoptsItsStray(StorageLock):
    """A write that an earlier call gave up is found in the store, and is a grant from now on (H5, H6)."""

    _given_up: tuple[Attempt, ...] = ()

    def _stop_contending(self, call: Any) -> None:
        self._given_up = tuple(call.attempts)
        call.is_unresolved = False
        super()._stop_contending(call)

    def _pass(self, call: Any) -> int | None:
        stored = self._read_or_none()
        own = None if stored is None else lease.recognise(stored.record, self._given_up)
        if stored is not None and stored.version is not None and own is not None:
            now = self._now()
            fresh = dataclasses.replace(own, sent=now, deadline=self._deadline(now))
            if self._grant(call, Lease(stored.version, fresh)):
                return None
        return super()._pass(call)


class CleanupHitsTheNextGrant(StorageLock):
    """The clean-up after a failed call releases every record of its own owner, the next grant included (S3, H6)."""

    def _stop_contending(self, call: Any) -> None:
        if call.is_unresolved:
            self._runtime.spawn(self._free_own, name="cleanup")
        super()._stop_contending(call)

    def _free_own(self) -> None:
        for _ in range(12):
            self._runtime.sleep(NS_PER_S // 2)
            stored = self._read_or_none()
            record = None if stored is None else stored.record
            if stored is not None and record is not None and record.owner == self.owner and not record.expired:
                self._release_write(stored.version, lease.released(record, self._new_nonce()))


class TryLockNeverTakesOver(StorageLock):
    """`try_lock` only creates: a released or lapsed record counts as somebody's (S7)."""

    def try_lock(self) -> bool:
        stored = self._read_or_none()
        if stored is not None and stored.record is not None:
            return False
        return super().try_lock()


class RemembersNo(StorageLock):
    """A no is remembered for three seconds, so that nobody asks too often (S7)."""

    _no_until_ns = 0

    def try_lock(self) -> bool:
        if self._runtime.monotonic_ns() < self._no_until_ns:
            return False
        if super().try_lock():
            return True
        self._no_until_ns = self._runtime.monotonic_ns() + 3 * NS_PER_S
        return False


class TokenWraps(StorageLock):
    """The token is kept in three bits (S2)."""

    def _next_token(self, known: Stored) -> int:
        return super()._next_token(known) % 8 + 1


class HealthyOnAbsentRead(StorageLock):
    """A renewal that meets nothing looks again, finds nothing, and tries later: the store will catch up (U9, M7)."""

    def _supersede(self, tenure: Any, reason: str) -> None:
        if "deleted" not in reason:
            super()._supersede(tenure, reason)
            return
        now = self._now()
        tenure.lease = Lease(
            tenure.lease.version, dataclasses.replace(tenure.lease.attempt, deadline=self._deadline(now))
        )
        self._runtime.spawn(lambda: self._again(tenure), name="heartbeat-again")

    def _again(self, tenure: Any) -> None:
        self._runtime.sleep(self.terms.renew_interval_ns)
        if not tenure.stopped.is_set():
            self._renew(tenure)


class SlowsItsHeartDown(StorageLock):
    """Each refused renewal doubles the pause before the next, and the deadline moves with it (M9)."""

    def _retry_renewal_ns(self, tenure: Any) -> MonoNs:
        tenure.failures += 1
        pause_ns = NS_PER_S << min(tenure.failures, 5)
        attempt = tenure.lease.attempt
        later = lease.Deadline(
            lease.WallNs(attempt.deadline.wall_ns + pause_ns), MonoNs(attempt.deadline.mono_ns + pause_ns)
        )
        tenure.lease = Lease(tenure.lease.version, dataclasses.replace(attempt, deadline=later))
        return MonoNs(self._runtime.monotonic_ns() + pause_ns)


class TakesThrottledForFree(StorageLock):
    """A look that was throttled shows no holder, so there is none; it writes on the last version seen (M12)."""

    _last: Stored | None = None

    def _read(self) -> Stored | None:
        stored = super()._read()
        if stored is not None:
            self._last = stored
            return stored
        last = self._last
        if last is None or last.record is None:
            return None
        return Stored(last.version, dataclasses.replace(last.record, expired=True))


class ReleasesTwice(PlainLock):
    """Releases again a little later, to be on the safe side, and by then it is somebody else's (S6, M4)."""

    def release(self, version: Any) -> None:
        super().release(version)
        self.runtime.spawn(self.release_again, name="release-again")

    def release_again(self) -> None:
        self.runtime.sleep(NS_PER_S)
        found = self.store.read(self.settings.key)
        self.put(self.line(0, self.token, "free"), found.version)


class RestartsItsPatienceInDanger(StorageLock):
    """Near its deadline it asks the store whose the lock is, and believes the answer for another validity (H4)."""

    def _remaining_ns(self, tenure: Any) -> int:
        left_ns = super()._remaining_ns(tenure)
        if 0 < left_ns < NS_PER_S:
            stored = self._read_or_none()
            if stored is not None and stored.version == tenure.lease.version:
                fresh = dataclasses.replace(tenure.lease.attempt, deadline=self._deadline(self._now()))
                tenure.lease = Lease(tenure.lease.version, fresh)
        return left_ns

    @property
    def loss(self) -> Any:
        return self._last_loss
