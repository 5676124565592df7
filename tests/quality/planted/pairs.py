"""Bugs that wait for a second fault: the first one brings the lock into a state in which the second one hurts it.

A lock that is careless after a bad answer only is right in nearly every run. A plan must strike the same client twice,
the second time in the right place. A partition strikes many times, and may do alone.
"""

from __future__ import annotations

from typing import Any

from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import WritesApart, other


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
