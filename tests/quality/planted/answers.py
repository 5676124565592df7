"""Bugs in reading the store's answers: silence, conflicts and refusals taken for more than they say."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.errors import CorruptRecord, LockError, OutcomeUnknown
from lockref.provider import Grant
from lockref.runtime import MonoNs
from lockref.storage import lease
from lockref.storage.lease import Attempt, Lease, Step, Stored, Take, Wait
from lockref.storage.lockfile import LockFile
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, Version, WriteReply


class DeniesOnTimeout(StorageLock):
    """An acquire without an answer is reported as denied, and left standing (A1, M10)."""

    def _pass(self, call: Any) -> int | None:
        attempts = len(call.attempts)
        pause_ns = super()._pass(call)
        if pause_ns is not None and len(call.attempts) > attempts and call.is_unresolved:
            call.deadline_ns = call.waits_until_ns = 0
        return pause_ns

    def _answer_without_grant(self, call: Any) -> bool:
        return False

    def _stop_contending(self, call: Any) -> None:
        call.is_unresolved = False
        call.attempts.clear()
        super()._stop_contending(call)

    def _look(self, call: Any) -> Stored | None:
        if call.attempts:
            call.deadline_ns = call.waits_until_ns = 0
            return None
        return super()._look(call)


class BelievesSilence(StorageLock):
    """An acquire without an answer counts as granted (A1: timeout taken for success)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._acquire_write(attempt)
        if reply.outcome is Outcome.AMBIGUOUS:
            return WriteReply(outcome=Outcome.APPLIED, version=Version("assumed"))
        return reply


class BelievesServerErrors(StorageLock):
    """500 on acquire counts as granted, a timeout does not (M24)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._acquire_write(attempt)
        if reply.outcome is Outcome.AMBIGUOUS and reply.status is not None:
            return WriteReply(outcome=Outcome.APPLIED, version=Version("assumed"))
        return reply


class Own412IsDenial(StorageLock):
    """A 412 on its own write, sent twice below, is somebody else's lock (M10, A2, E17)."""

    def _interpret(self, reply: WriteReply) -> Step:
        return Step.AGAIN if reply.outcome is Outcome.PRECONDITION_FAILED else super()._interpret(reply)

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        return lease.decide(
            known, owner=self.owner, own_nonces=(), now_wall_ns=self._runtime.wall_ns(), terms=self.terms
        )


class ConflictIsDenial(StorageLock):
    """409 is read as "somebody has it" (M11: object_store PR #852)."""

    def _attempt(self, call: Any, known: Stored) -> tuple[Step, Version | None]:
        step, version = super()._attempt(call, known)
        if step is Step.AGAIN and "conflict" in call.trouble:
            call.has_seen_other, call.waits_until_ns = True, 0
        return step, version


class ThrottleIsDenial(StorageLock):
    """503 and 429 are read as "somebody has it" (S7)."""

    def _attempt(self, call: Any, known: Stored) -> tuple[Step, Version | None]:
        step, version = super()._attempt(call, known)
        if step is Step.AGAIN and "throttled" in call.trouble:
            call.has_seen_other, call.waits_until_ns = True, 0
        return step, version


class LastRefusalIsDenial(StorageLock):
    """Tries again after a 409, 429 or 503, but remembers it as "somebody has it" when the time is up (S7)."""

    def _attempt(self, call: Any, known: Stored) -> tuple[Step, Version | None]:
        step, version = super()._attempt(call, known)
        if step is Step.AGAIN:
            call.has_seen_other, call.is_unresolved = True, False
        return step, version


class FalseOnUnknown(StorageLock):
    """Where nothing is known it says false (S7)."""

    def _answer_without_grant(self, call: Any) -> bool:
        return False


class FalseOnAnyError(StorageLock):
    """Every error of `lock` becomes false (S7)."""

    def lock(self, timeout_s: float) -> bool:
        try:
            return super().lock(timeout_s)
        except LockError:
            return False

    def try_lock(self) -> bool:
        try:
            return super().try_lock()
        except LockError:
            return False


class RecognisesByOwner(StorageLock):
    """A record with its own owner id is its own live grant, whichever write made it (M23, A4)."""

    def _pass(self, call: Any) -> int | None:
        stored = self._read()
        last = call.attempts[-1] if call.attempts else None
        record = None if stored is None else stored.record
        if (
            stored is not None and stored.version is not None and record is not None
            and record.owner == self.owner and not record.expired
        ):  # fmt: skip
            attempt = last or self._new_attempt(stored)
            if self._grant(call, Lease(stored.version, dataclasses.replace(attempt, record=record))):
                return None
        return super()._pass(call)


class SameOwnerEverywhere(StorageLock):
    """The owner id is the application's name: every client takes the others' record for its own (M23, H22)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.owner = "etl-job"

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        record = known.record
        if record is not None and record.owner == self.owner and not record.expired:
            return Take(lease.Reason.OWN)
        return super()._decide(known, call)


class TakesOverCorrupt(StorageLock):
    """A record that cannot be read counts as nobody's (D6, H17)."""

    def _read(self) -> Stored | None:
        try:
            return super()._read()
        except CorruptRecord:
            reply = self._store.read(self._key)
            return Stored(reply.version, LockFile("nobody", 0, expired=True)) if reply.version else None


class MissingFieldsMeanFree(StorageLock):
    """A read that failed counts as an absent object; only the write's condition stands in between (M12)."""

    def _read(self) -> Stored | None:
        return super()._read() or Stored(None, None)

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if attempt.if_version is None:
            from lockref.storage import lockfile

            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return super()._acquire_write(attempt)


class LoopsForEver(StorageLock):
    """`lock` tries again until it has an answer, however long the store is away (L5)."""

    def lock(self, timeout_s: float) -> bool:
        while True:
            try:
                return super().lock(timeout_s)
            except OutcomeUnknown:
                continue


class WaitsForEver(StorageLock):
    """`lock` ignores its timeout (L5)."""

    def lock(self, timeout_s: float) -> bool:
        return super().lock(10_000)


class UnlockWaitsForEver(StorageLock):
    """`unlock` tries until the store takes it (L5)."""

    def _give_back(self, tenure: Any, *, was_held: bool) -> None:
        while True:
            reply = self._release_write(
                tenure.lease.version, lease.released(tenure.lease.attempt.record, self._new_nonce())
            )
            if reply.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                return
            self._runtime.sleep(self.terms.renew_interval_ns)


class AbandonsUnknown(StorageLock):
    """An acquire that has landed or may have is raised and forgotten; renewals keep it alive (L6)."""

    def _stop_contending(self, call: Any) -> None:
        if call.attempts and (call.is_unresolved or call.tenure is not None):
            attempt = call.attempts[-1]
            self._runtime.spawn(lambda: self._keep(attempt), name="heartbeat-orphan")
        call.is_unresolved = False
        if call.tenure is not None:
            self._withdraw(call.tenure)
            call.tenure = None
        super()._stop_contending(call)

    def _keep(self, attempt: Attempt) -> None:
        for _ in range(60):
            self._runtime.sleep(self.terms.renew_interval_ns)
            stored = self._read_or_none()
            if stored is not None and stored.version is not None and stored.record == attempt.record:
                attempt = self._new_renewal(Lease(stored.version, attempt))
                self._renew_write(attempt)


class GrantsTooLate(StorageLock):
    """`lock` may say true after the lease it won has run out (H3, E10)."""

    def _is_in_time(self, tenure: Any) -> bool:
        tenure.is_announced = True
        return True

    def holds(self) -> bool:
        tenure = self._tenure
        return tenure is not None and tenure.loss_reason is None

    @property
    def grant(self) -> Grant | None:
        tenure = self._tenure
        return None if tenure is None else self._grant_of(tenure)

    def _remaining_ns(self, tenure: Any) -> int:
        return max(self.terms.renew_interval_ns, super()._remaining_ns(tenure))

    def _renew(self, tenure: Any) -> MonoNs | None:
        return MonoNs(self._runtime.monotonic_ns() + self.terms.renew_interval_ns)
