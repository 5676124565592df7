"""Bugs with what lands late: a renewal beside its unlock, one that failed and landed, one that was found too late."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.runtime import MonoNs
from lockref.storage import lease, lockfile
from lockref.storage.lease import Attempt, Lease, Stored
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, Version, WriteReply
from tests.quality.planted.strangers import PlainLock


class RenewsWhatItFinds(StorageLock):
    """A renewal that meets 412 writes once more, on the version that it finds under its own name (S6)."""

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._renew_write(attempt)
        if reply.outcome is Outcome.PRECONDITION_FAILED and not reply.missing:
            found = self._store.read(self._key)
            record = None if found.body is None else lockfile.decode(found.body)
            if record is not None and record.owner == self.owner and found.version is not None:
                return self._store.put_if_version(self._key, lockfile.serialize(attempt.record), found.version)
        return reply


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


class RenewsWithoutConditionWhenLate(StorageLock):
    """A renewal without an answer is sent again without its condition, for it is surely the holder's own (S6)."""

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        reply = super()._renew_write(attempt)
        if reply.outcome is Outcome.AMBIGUOUS:
            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return reply


class TakesTheAnswerForTheNextGrant(PlainLock):
    """A renewal's answer counts for whatever the lock is doing by then, an unlocked lock included (H11, M27)."""

    def renew(self, epoch: int) -> None:
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        until_ms = max(self.until_ms, (wall_ns + self.settings.validity_ns) // 10**6)
        reply = self.put(self.line(until_ms, self.token, "held"), self.version)
        if reply.version is not None:
            self.begin(reply.version, mono_ns, wall_ns, until_ms)


class RefusedReleaseIsDone(StorageLock):
    """A release that meets 412 has nothing left to do, although it was the lock's own renewal that came first (S7)."""

    def _release_write(self, version: Version | None, body: Any) -> WriteReply:
        reply = super()._release_write(version, body)
        if reply.outcome is Outcome.PRECONDITION_FAILED and not reply.missing:
            return dataclasses.replace(reply, outcome=Outcome.APPLIED, version=version)
        return reply


class CountsFromTheNewestAttempt(StorageLock):
    """What landed is an old renewal; the deadline is that of the last one sent (H1, H5)."""

    def _resolve_renewal(self, tenure: Any) -> MonoNs | None:
        newest = tenure.pending[-1].deadline
        tenure.pending[:] = [dataclasses.replace(attempt, deadline=newest) for attempt in tenure.pending]
        return super()._resolve_renewal(tenure)


class CountsFromTheDiscovery(StorageLock):
    """A renewal that is found in the record counts from the finding (H1, M22)."""

    def _resolve_renewal(self, tenure: Any) -> MonoNs | None:
        def found(attempt: Attempt) -> Attempt:
            return dataclasses.replace(attempt, deadline=self._deadline(self._now()))

        tenure.pending[:] = [found(attempt) for attempt in tenure.pending]
        return super()._resolve_renewal(tenure)


class PlainCountsFromTheDiscovery(PlainLock):
    """The same by a stranger: a record with its own name and token in it is as good as renewed now (H1, M22)."""

    def renew(self, epoch: int) -> None:
        super().renew(epoch)
        seen = self.store.read(self.settings.key)
        if seen.outcome is Outcome.APPLIED and epoch == self.epoch and self.holds() and self.is_mine(seen):
            assert seen.version is not None
            self.begin(seen.version, self.runtime.monotonic_ns(), self.runtime.wall_ns(), self.until_ms)


class ExtendsBeforeTheAnswer(StorageLock):
    """The deadline moves when a renewal is sent, and nobody moves it back when it fails (H1, H4)."""

    def _renew_write(self, attempt: Attempt) -> WriteReply:
        tenure = self._tenure
        if tenure is not None:
            current = tenure.lease.attempt
            tenure.lease = Lease(tenure.lease.version, dataclasses.replace(current, deadline=attempt.deadline))
        return super()._renew_write(attempt)


class AdoptsAnyRecordOfItsOwn(StorageLock):
    """Any record with its own owner id is its own renewal, with the deadline that it would like (A4, H5)."""

    def _resolve_renewal(self, tenure: Any) -> MonoNs | None:
        stored: Stored | None = self._read_or_none()
        record = None if stored is None else stored.record
        if stored is not None and stored.version is not None and record is not None and record.owner == self.owner:
            attempt = dataclasses.replace(tenure.pending[-1], record=record)
            return self._extend(tenure, Lease(stored.version, attempt))
        return super()._resolve_renewal(tenure)


class ReadsTheStampBack(StorageLock):
    """Found its own record: believes for as long as the stamp says, without the margin (M6)."""

    def _deadline(self, sent: lease.Moment) -> lease.Deadline:
        if self._tenure is None:
            return super()._deadline(sent)
        whole_ns = self.terms.validity_ns + 2 * self.terms.margin_ns
        return lease.Deadline(lease.WallNs(sent.wall_ns + whole_ns), MonoNs(sent.mono_ns + whole_ns))
