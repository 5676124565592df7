"""Bugs that wait for a second fault: the first one brings the lock into a state in which the second one hurts it.

A lock that is careless after a bad answer only is right in nearly every run. A plan must strike the same client twice,
the second time in the right place. A partition strikes many times, and may do alone.
"""

from __future__ import annotations

from typing import Any

from lockref.locks.values import Stored
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import WritesApart, other
from tests.quality.planted.registry import Bug


class _Shaken(WritesApart):
    """Remembers that an answer was bad."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.is_shaken = False

    def noting(self, reply: WriteReply, outcome: Outcome) -> WriteReply:
        self.is_shaken = self.is_shaken or reply.outcome is outcome
        return reply


class _RenewsBlindlyAfterSilence(_Shaken):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().acquire(if_version, record), Outcome.AMBIGUOUS)

    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().renew(if_version, record)


class RenewsBlindlyAfterALostGrant(StorageLock):
    """A grant whose answer was lost is renewed without a condition: the version is not known for sure (C1, M4)."""

    parts = other(cell=_RenewsBlindlyAfterSilence)


class _ReleasesBlindlyAfterSilence(_Shaken):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().renew(if_version, record), Outcome.AMBIGUOUS)

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().release(if_version, record)


class ReleasesBlindlyAfterALostRenewal(StorageLock):
    """After a renewal without an answer the lock is given back without a condition (M4, S6)."""

    parts = other(cell=_ReleasesBlindlyAfterSilence)


class _ReleasesBlindlyAfterALostGrant(_Shaken):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().acquire(if_version, record), Outcome.AMBIGUOUS)

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().release(if_version, record)


class ReleasesBlindlyAfterALostGrant(StorageLock):
    """A grant whose answer was lost is given back without a condition (M4, S6)."""

    parts = other(cell=_ReleasesBlindlyAfterALostGrant)


class _RenewsBlindlyAfterAConflict(_Shaken):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().acquire(if_version, record), Outcome.CONFLICT)

    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().renew(if_version, record)


class RenewsBlindlyAfterAConflict(StorageLock):
    """A grant that came after a 409 is renewed without a condition (C1, A5)."""

    parts = other(cell=_RenewsBlindlyAfterAConflict)


class _ReleasesBlindlyAfterAThrottledRenewal(_Shaken):
    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().renew(if_version, record), Outcome.THROTTLED)

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().release(if_version, record)


class ReleasesBlindlyAfterAThrottledRenewal(StorageLock):
    """After a renewal that was throttled the lock is given back without a condition (M24, S6)."""

    parts = other(cell=_ReleasesBlindlyAfterAThrottledRenewal)


class _TakesBlindlyAfterALostRelease(_Shaken):
    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.noting(super().release(if_version, record), Outcome.AMBIGUOUS)

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().acquire(if_version, record)


class TakesBlindlyAfterALostRelease(StorageLock):
    """After a release without an answer the next grant is written without a condition (U4, S1)."""

    parts = other(cell=_TakesBlindlyAfterALostRelease)


class _RenewsBlindlyAfterALostRead(_Shaken):
    def look(self) -> Stored[LockFile] | None:
        found = super().look()
        self.is_shaken = self.is_shaken or found is None
        return found

    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.is_shaken else super().renew(if_version, record)


class RenewsBlindlyAfterALostRead(StorageLock):
    """A client that once got no answer to a read renews without a condition (C1, S6)."""

    parts = other(cell=_RenewsBlindlyAfterALostRead)


PAIRED = (
    Bug("pairs:RenewsBlindlyAfterALostGrant", "C1 M4", "swarm", "S1 S6"),
    Bug("pairs:ReleasesBlindlyAfterALostRenewal", "M4 S6", "swarm", "S1 S6"),
    Bug("pairs:ReleasesBlindlyAfterALostGrant", "M4 S6", "swarm", "S1 S6"),
    Bug("pairs:RenewsBlindlyAfterAConflict", "C1 A5", "swarm", "S1 S6"),
    Bug("pairs:ReleasesBlindlyAfterAThrottledRenewal", "M24 S6", "swarm", "S1 S6"),
    Bug("pairs:TakesBlindlyAfterALostRelease", "U4 S1", "swarm", "S1 S5"),
    Bug("pairs:RenewsBlindlyAfterALostRead", "C1 S6", "swarm", "S1 S6"),
)
"""The bugs that need a pair of faults. No seed of a scenario is known to show each: `swarm` may."""
