"""Bugs with what lands late: a renewal beside its unlock, one that failed and landed, one that was found too late."""

from __future__ import annotations

import dataclasses

from lockref.locks.acquisition import Acquisition
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Lease, Moment, Reserved, Stored
from lockref.runtime import NS_PER_S, MonoNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.storage.writer import LockFileWriter
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import (
    RenewalsApart,
    WritesApart,
    after,
    ending,
    look_or_none,
    other,
)
from tests.quality.planted.strangers import PlainLock


class _RenewsWhatItFinds(WritesApart):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().renew(if_version, record)
        if reply.outcome is Outcome.PRECONDITION_FAILED and not reply.missing:
            found = look_or_none(self)
            if found is not None and found.record is not None and found.record.owner == record.owner:
                return super().renew(found.version, record)
        return reply


class RenewsWhatItFinds(StorageLock):
    """A renewal that meets 412 writes once more, on the version that it finds under its own name (S6)."""

    parts = other(cell=_RenewsWhatItFinds)


class PlainRenewsWhatItFinds(PlainLock):
    """The same by a stranger: whoever is named in the record may renew it, released or not (S6)."""

    def renew(self, epoch: int) -> None:
        found = self.store.read(self.settings.key)
        if found.outcome is Outcome.APPLIED and found.body is not None:
            view = self.decode(found.body)
            if view is not None and view.owner == self.me:
                body = self.line((self.runtime.wall_ns() + self.settings.validity_ns) // 10**6, view.token or 0, "held")
                self.put(body, found.version)
        super().renew(epoch)


class _ForcesWhenLate(WritesApart):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().renew(if_version, record)
        return self.overwrite(record) if reply.outcome is Outcome.AMBIGUOUS else reply


class RenewsWithoutConditionWhenLate(StorageLock):
    """A renewal without an answer is sent again without its condition, for it is surely the holder's own (S6)."""

    parts = other(cell=_ForcesWhenLate)


class TakesTheAnswerForTheNextGrant(PlainLock):
    """A renewal's answer counts for whatever the lock is doing by then, an unlocked lock included (H11, M27)."""

    def renew(self, epoch: int) -> None:
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        until_ms = max(self.until_ms, (wall_ns + self.settings.validity_ns) // 10**6)
        reply = self.put(self.line(until_ms, self.token, "held"), self.version)
        if reply.version is not None:
            self.begin(reply.version, mono_ns, wall_ns, until_ms)


class _RefusedIsReleased(WritesApart):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        reply = super().release(if_version, record)
        if reply.outcome is Outcome.PRECONDITION_FAILED and not reply.missing:
            return dataclasses.replace(reply, outcome=Outcome.APPLIED, version=if_version)
        return reply


class RefusedReleaseIsDone(StorageLock):
    """A release that meets 412 has nothing left to do, although it was the lock's own renewal that came first (S7)."""

    parts = other(cell=_RefusedIsReleased)


class _FindsAnotherDeadline(Heartbeat[LockFile]):
    """Before it looks up its open renewals, it moves their deadlines."""

    def _settle(self) -> MonoNs | None:
        pending = self.tenure.pending
        pending[:] = [self.found(attempt) for attempt in pending]
        return super()._settle()

    def found(self, attempt: Attempt[LockFile]) -> Attempt[LockFile]:
        raise NotImplementedError


class _FindsTheNewest(_FindsAnotherDeadline):
    def found(self, attempt: Attempt[LockFile]) -> Attempt[LockFile]:
        return ending(attempt, self.tenure.pending[-1].deadline)


class CountsFromTheNewestAttempt(StorageLock):
    """What landed is an old renewal; the deadline is that of the last one sent (H1, H5)."""

    parts = other(heartbeat=_FindsTheNewest)


class _FindsItNow(_FindsAnotherDeadline):
    def found(self, attempt: Attempt[LockFile]) -> Attempt[LockFile]:
        return ending(attempt, self.cell.rules.deadline_after(self.now(), self.terms))

    def now(self) -> Moment:
        return Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())


class CountsFromTheDiscovery(StorageLock):
    """A renewal that is found in the record counts from the finding (H1, M22)."""

    parts = other(heartbeat=_FindsItNow)


class PlainCountsFromTheDiscovery(PlainLock):
    """The same by a stranger: a record with its own name and token in it is as good as renewed now (H1, M22)."""

    def renew(self, epoch: int) -> None:
        super().renew(epoch)
        seen = self.store.read(self.settings.key)
        if seen.outcome is Outcome.APPLIED and epoch == self.epoch and self.holds() and self.is_mine(seen):
            assert seen.version is not None
            self.begin(seen.version, self.runtime.monotonic_ns(), self.runtime.wall_ns(), self.until_ms)


class _ExtendedBySending(Tenure[LockFile]):
    def send(self, renewal: Attempt[LockFile]) -> bool:
        if not super().send(renewal):
            return False
        self.lease = Lease(self.lease.version, ending(self.lease.attempt, renewal.deadline))
        return True


class ExtendsBeforeTheAnswer(StorageLock):
    """The deadline moves when a renewal is sent, and nobody moves it back when it fails (H1, H4)."""

    parts = other(tenure=_ExtendedBySending)


class _AdoptsItsOwner(Heartbeat[LockFile]):
    def _settle(self) -> MonoNs | None:
        stored, pending = look_or_none(self.cell), self.tenure.pending
        record = None if stored is None else stored.record
        if stored is None or stored.version is None or record is None or record.owner != pending[-1].record.owner:
            return super()._settle()
        return self._landed(Lease(stored.version, dataclasses.replace(pending[-1], record=record)))


class AdoptsAnyRecordOfItsOwn(StorageLock):
    """Any record with its own owner id is its own renewal, with the deadline that it would like (A4, H5)."""

    parts = other(heartbeat=_AdoptsItsOwner)


class _RenewsBeyondTheStamp(RenewalsApart):
    def changed(self, renewal: Attempt[LockFile]) -> Attempt[LockFile]:
        return ending(renewal, after(renewal.sent, self.terms.validity_ns + 2 * self.terms.margin_ns))


class ReadsTheStampBack(StorageLock):
    """Found its own record: believes for as long as the stamp says, without the margin (M6)."""

    parts = other(writer=_RenewsBeyondTheStamp)


class _FindsItsGrantNow(Acquisition[LockFile]):
    """What a look finds of this call's writes counts from the look."""

    def look(self) -> Stored[LockFile] | None:
        stored = super().look()
        own = None if stored is None else self.rules.recognise(stored.record, self.attempts)
        if own is not None:
            now = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
            until = self.rules.deadline_after(now, self.client.terms)
            self.attempts[self.attempts.index(own)] = ending(own, until)
        return stored


class CountsTheGrantFromTheDiscovery(StorageLock):
    """An acquiring write that the same call finds in the record counts from the finding (H1, M22)."""

    parts = other(acquisition=_FindsItsGrantNow)


class PlainIsANewOwnerEachTime(PlainLock):
    """Each attempt has an owner id of its own: what a former attempt of the call left is somebody else's (S7)."""

    def attempt(self, end_ns: int) -> bool | None:
        answer = super().attempt(end_ns)
        # A look that comes too late says nothing; then what was seen last stands.
        self.seen_last = self.seen_last if answer is None and self.runtime.monotonic_ns() >= end_ns else answer
        return self.seen_last

    def acquire(self, timeout_ns: int) -> bool:
        self.seen_last: bool | None = None
        return super().acquire(timeout_ns)

    def enter(self) -> bool:
        if not super().enter():
            return False
        self.me = self.runtime.token_bytes(6).hex()
        return True


class _RoundsTheStampDown(LockFileWriter):
    def attempt(self, stored: Stored[LockFile], reserved: Reserved) -> Attempt[LockFile]:
        attempt = super().attempt(stored, reserved)
        until_ms = attempt.record.valid_until_ms // 1000 * 1000
        return dataclasses.replace(attempt, record=dataclasses.replace(attempt.record, valid_until_ms=until_ms))


class RoundsTheStampDown(StorageLock):
    """The record ends with a whole second, and its holder believes in the fraction (M1)."""

    parts = other(writer=_RoundsTheStampDown)


class PlainRoundsItsDeadlineUp(PlainLock):
    """The holder's own deadline is rounded up to a whole second (M1)."""

    def begin(self, version: Version, mono_ns: int, wall_ns: int, until_ms: int) -> None:
        super().begin(version, mono_ns, wall_ns, until_ms)
        rest_ns = -self.wall_end_ns % NS_PER_S
        self.wall_end_ns += rest_ns
        self.mono_end_ns += rest_ns
