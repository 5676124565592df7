"""Bugs in reading the store's answers: silence, conflicts and refusals taken for more than they say."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from lockref.errors import CorruptRecord, LockError, OutcomeUnknown
from lockref.locks.cleanup import Cleanup
from lockref.locks.decisions import decide
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.rules import Rules
from lockref.locks.tenure import Tenure
from lockref.locks.values import UNFENCED, Attempt, Ending, Lease, Purpose, Reason, Reserved, Step, Stored, Take, Wait
from lockref.provider import Grant
from lockref.runtime import NS_PER_S, MonoNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import WritesApart, extended, look_or_none, other, other_rules

NOBODY = LockFile("nobody", 0, expired=True)


class _DeniesSilence(ReturningAcquisition[LockFile]):
    """Does not look up what became of its write."""

    def run(self) -> bool:
        try:
            return super().run()
        except OutcomeUnknown:
            return False

    def look(self) -> Stored[LockFile] | None:
        if self.attempts:
            raise OutcomeUnknown("somebody will have it")
        return super().look()


class _LeftStanding(Cleanup[LockFile]):
    def abandon(self, attempts: Collection[Attempt[LockFile]], *, unsettled: Sequence[Attempt[LockFile]]) -> None:
        super().abandon(attempts, unsettled=())


class DeniesOnTimeout(StorageLock):
    """An acquire without an answer is reported as denied, and left standing (A1, M10)."""

    parts = other(acquisition=_DeniesSilence, cleanup=_LeftStanding)


class _SilenceIsYes(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().acquire(if_version, record)
        if reply.outcome is Outcome.AMBIGUOUS:
            return WriteReply(outcome=Outcome.APPLIED, version=Version("assumed"))
        return reply


class BelievesSilence(StorageLock):
    """An acquire without an answer counts as granted (A1: timeout taken for success)."""

    parts = other(cell=_SilenceIsYes)


class _ServerErrorIsYes(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().acquire(if_version, record)
        if reply.outcome is Outcome.AMBIGUOUS and reply.status is not None:
            return WriteReply(outcome=Outcome.APPLIED, version=Version("assumed"))
        return reply


class BelievesServerErrors(StorageLock):
    """500 on acquire counts as granted, a timeout does not (M24)."""

    parts = other(cell=_ServerErrorIsYes)


class _ForgetsAt412(ReturningAcquisition[LockFile]):
    """After a 412 it knows no write of its own any more, so that its own record reads like a rival's."""

    def write(self, known: Stored[LockFile], reserved: Reserved) -> tuple[Step, Stored[LockFile] | None]:
        step, now_known = super().write(known, reserved)
        if self.answer is Outcome.PRECONDITION_FAILED:
            self.attempts.clear()
            self.is_unresolved = False
        return step, now_known

    def _note(self, record: LockFile | None) -> None:
        self.has_seen_other |= record is not None and not record.is_released


def _forgets_its_writes(stored: Stored[LockFile], *, own_nonces: Any, **known: Any) -> Take | Wait:
    return decide(stored, own_nonces=(), **known)


class Own412IsDenial(StorageLock):
    """A 412 on its own write, sent twice below, is somebody else's lock (M10, A2, E17)."""

    parts = other(
        acquisition=_ForgetsAt412,
        rules=dataclasses.replace(StorageLock.parts.rules, decide=_forgets_its_writes),
    )


class _Denies(ReturningAcquisition[LockFile]):
    """Takes some refusals for a no."""

    def __init__(self, *args: Any, refusal: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.refusal = refusal

    def write(self, known: Stored[LockFile], reserved: Reserved) -> tuple[Step, Stored[LockFile] | None]:
        step, now_known = super().write(known, reserved)
        if step is Step.AGAIN and self.refusal in self.trouble:
            self.has_seen_other, self.is_unresolved, self.waits_until_ns = True, False, 0
        return step, now_known


class ConflictIsDenial(StorageLock):
    """409 is read as "somebody has it" (M11: object_store PR #852)."""

    parts = other(acquisition=partial(_Denies, refusal="conflict"))


class ThrottleIsDenial(StorageLock):
    """503 and 429 are read as "somebody has it" (S7)."""

    parts = other(acquisition=partial(_Denies, refusal="throttled"))


class _RemembersRefusals(ReturningAcquisition[LockFile]):
    def write(self, known: Stored[LockFile], reserved: Reserved) -> tuple[Step, Stored[LockFile] | None]:
        step, now_known = super().write(known, reserved)
        if step is Step.AGAIN:
            self.has_seen_other, self.is_unresolved = True, False
        return step, now_known


class LastRefusalIsDenial(StorageLock):
    """Tries again after a 409, 429 or 503, but remembers it as "somebody has it" when the time is up (S7)."""

    parts = other(acquisition=_RemembersRefusals)


class FalseOnUnknown(StorageLock):
    """Where nothing is known it says false (S7)."""

    parts = other_rules(is_denied=lambda **_known: True)


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


class _ByOwner(ReturningAcquisition[LockFile]):
    def make_pass(self, known: Stored[LockFile] | None = None) -> int | None:
        stored = self.cell.look()
        record = None if stored is None else stored.record
        is_mine = record is not None and record.owner == self.client.writer.owner and not record.expired
        if is_mine and stored is not None and stored.version is not None:
            attempt = self.attempts[-1] if self.attempts else self.client.writer.attempt(stored, UNFENCED)
            if self.client.begin(Lease(stored.version, dataclasses.replace(attempt, record=record))):
                return None
        return super().make_pass(known)


class RecognisesByOwner(StorageLock):
    """A record with its own owner id is its own live grant, whichever write made it (M23, A4)."""

    parts = other(acquisition=_ByOwner)


def _own_by_name(stored: Stored[LockFile], *, owner: str, **known: Any) -> Take | Wait:
    record = stored.record
    if record is not None and record.owner == owner and not record.expired:
        return Take(Reason.OWN)
    return decide(stored, owner=owner, **known)


class SameOwnerEverywhere(StorageLock):
    """The owner id is the application's name: every client takes the others' record for its own (M23, H22)."""

    parts = other(rules=Rules(decide=_own_by_name), owner=lambda _runtime: "etl-job")


class _CorruptIsFree(WritesApart):
    def look(self) -> Stored[LockFile] | None:
        try:
            return super().look()
        except CorruptRecord:
            reply = self.store.read(self.key)
            return Stored(reply.version, NOBODY) if reply.version else None


class TakesOverCorrupt(StorageLock):
    """A record that cannot be read counts as nobody's (D6, H17)."""

    parts = other(cell=_CorruptIsFree)


class _NothingIsAbsent(WritesApart):
    def look(self) -> Stored[LockFile] | None:
        return super().look() or Stored(None, None)

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if if_version is None else super().acquire(if_version, record)


class MissingFieldsMeanFree(StorageLock):
    """A read that failed counts as an absent object, and the first creation has no condition (M12)."""

    parts = other(cell=_NothingIsAbsent)


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


class _InsistsOnRelease(Cleanup[LockFile]):
    def release(self, tenure: Tenure[LockFile]) -> tuple[Ending, None]:
        lease = tenure.lease
        while True:
            record = lease.attempt.record.freed(self.cell.new_nonce())
            reply = self.cell.swap(lease.version, record, Purpose.RELEASE)
            if reply.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                return Ending.FREED, None
            self.runtime.sleep(self.terms.renew_interval_ns)


class UnlockWaitsForEver(StorageLock):
    """`unlock` tries until the store takes it (L5)."""

    parts = other(cleanup=_InsistsOnRelease)


class _KeepsOrphansAlive(Cleanup[LockFile]):
    def abandon(self, attempts: Collection[Attempt[LockFile]], *, unsettled: Sequence[Attempt[LockFile]]) -> None:
        if unsettled:
            self.runtime.spawn(lambda: self.keep(list(attempts)[-1].record), name="heartbeat-orphan")
        super().abandon(attempts, unsettled=())

    def keep(self, record: LockFile) -> None:
        for _ in range(60):
            self.runtime.sleep(self.terms.renew_interval_ns)
            stored = look_or_none(self.cell)
            if stored is not None and stored.record == record:
                record = extended(record, self.cell, self.terms)
                self.cell.swap(stored.version, record, Purpose.RENEW)


class AbandonsUnknown(StorageLock):
    """An acquire that has landed or may have is raised and forgotten; renewals keep it alive (L6)."""

    parts = other(cleanup=_KeepsOrphansAlive)


class _NeverTooLate(Tenure[LockFile]):
    def announce(self) -> bool:
        self.is_announced = True
        return True

    def remaining_ns(self) -> int:
        return max(NS_PER_S, super().remaining_ns())


class _NeverRenews(Heartbeat[LockFile]):
    def renew(self) -> MonoNs | None:
        return MonoNs(self.runtime.monotonic_ns() + self.terms.renew_interval_ns)


class GrantsTooLate(StorageLock):
    """`lock` may say true after the lease it won has run out (H3, E10)."""

    parts = other(tenure=_NeverTooLate, heartbeat=_NeverRenews)

    def holds(self) -> bool:
        tenure = self.tenure
        return tenure is not None and tenure.loss_reason is None

    @property
    def grant(self) -> Grant | None:
        tenure = self.tenure
        return None if tenure is None else tenure.grant()
