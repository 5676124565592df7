"""Correct locks that differ from the hardened one in what they are free to choose."""

from __future__ import annotations

import dataclasses

from lockref.provider import LockContext, RecordView
from lockref.runtime import NS_PER_S, MonoNs, WallNs
from lockref.storage import lockfile
from lockref.storage.lease import Deadline, Moment, Stored
from lockref.storage.provider import StorageLock


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


class EarlyStopper(StorageLock):
    """A second more of margin."""

    def _deadline(self, sent: Moment) -> Deadline:
        usual = super()._deadline(sent)
        return Deadline(WallNs(usual.wall_ns - NS_PER_S), MonoNs(usual.mono_ns - NS_PER_S))


class SparseTokens(StorageLock):
    """Tokens rise, but not by one."""

    def _next_token(self, known: Stored) -> int:
        return super()._next_token(known) + 6


def _without_token(body: bytes) -> RecordView | None:
    view = lockfile.decode(body)
    return None if view is None else dataclasses.replace(view, token=None)


class TokenElsewhere(StorageLock):
    """Hands out tokens that its records, as others are told to read them, do not carry."""

    decode_record = staticmethod(_without_token)
