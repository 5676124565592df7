"""Correct locks that differ from the hardened one in what they are free to choose."""

from __future__ import annotations

import dataclasses

from lockref.locks.decisions import deadline_after
from lockref.locks.values import Deadline, LeaseTerms, Moment, Stored
from lockref.provider import LockContext, RecordView
from lockref.runtime import NS_PER_S
from lockref.storage import lockfile
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from tests.quality.planted.broken import OtherNumbers, other, other_rules, postponed


class EagerPoller(StorageLock):
    """Looks twice as often as it was told."""

    @classmethod
    def from_context(cls, context: LockContext) -> EagerPoller:
        settings = dataclasses.replace(context.settings, poll_interval_ns=context.settings.poll_interval_ns // 2)
        return super().from_context(dataclasses.replace(context, settings=settings))


class EagerRenewer(StorageLock):
    """Renews half as often again as it was told, and gives each request less time."""

    @classmethod
    def from_context(cls, context: LockContext) -> EagerRenewer:
        settings = dataclasses.replace(context.settings, renew_interval_ns=context.settings.renew_interval_ns * 2 // 3)
        return super().from_context(dataclasses.replace(context, settings=settings))


def _a_second_early(sent: Moment, terms: LeaseTerms) -> Deadline:
    return postponed(deadline_after(sent, terms), -NS_PER_S, -NS_PER_S)


class EarlyStopper(StorageLock):
    """A second more of margin."""

    parts = other_rules(deadline_after=_a_second_early)


class _Sparse(OtherNumbers):
    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        return None if token is None else token + 6


class SparseTokens(StorageLock):
    """Tokens rise, but not by one."""

    parts = other(tokens=_Sparse)


def _without_token(body: bytes) -> RecordView | None:
    view = lockfile.decode(body)
    return None if view is None else dataclasses.replace(view, token=None)


class TokenElsewhere(StorageLock):
    """Hands out tokens that its records, as others are told to read them, do not carry."""

    decode_record = staticmethod(_without_token)
