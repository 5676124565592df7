"""Correct locks with habits of their own: how often they renew, look, read and count is theirs to choose.

A scenario that counts requests, or knows the reference's steps, would accuse
them, or would silently show nothing. `python -m tests.quality.planted.correct_locks`
prints what every scenario says of each.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.errors import ReleaseFailed
from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_MS, MonoNs
from lockref.storage.lock import StorageLock
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.quality.planted.strangers import PlainLock, decode_line


def _with(context: LockContext, **settings: Any) -> LockContext:
    return dataclasses.replace(context, settings=dataclasses.replace(context.settings, **settings))


class _RenewsMoreOften(StorageLock):
    """The reference, renewing a whole number of times as often as it was told."""

    times = 1

    @classmethod
    def from_context(cls, context: LockContext) -> _RenewsMoreOften:
        return super().from_context(_with(context, renew_interval_ns=context.settings.renew_interval_ns // cls.times))


class RenewsThreeTimesAsOften(_RenewsMoreOften):
    times = 3


class RenewsFiveTimesAsOften(_RenewsMoreOften):
    times = 5


class RenewsTenTimesAsOften(_RenewsMoreOften):
    times = 10


class PlainRenewsFiveTimesAsOften(PlainLock):
    """Another protocol, five renewals where one was asked for; each request has its usual time."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.settings = dataclasses.replace(self.settings, renew_interval_ns=self.settings.renew_interval_ns // 5)


class RenewsRarely(PlainLock):
    """Three times in a validity, as leases commonly are, whatever it was told."""

    renews_after_percent = 33

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        interval_ns = self.settings.validity_ns * self.renews_after_percent // 100
        self.settings = dataclasses.replace(self.settings, renew_interval_ns=interval_ns)


class RenewsAtHalf(RenewsRarely):
    """Once in the middle of a validity."""

    renews_after_percent = 50


class RenewsLate(RenewsRarely):
    """Once in a validity, when 30 % of it is left, as many sessions are kept."""

    renews_after_percent = 70


class RenewsWhenUsed(PlainLock):
    """Renews only what was asked for since the last renewal: an idle holder lets its lease lapse."""

    was_asked = False

    def holds(self) -> bool:
        self.was_asked = True
        return super().holds()

    def renew(self, epoch: int) -> None:
        if self.was_asked:
            super().renew(epoch)
        # The heartbeat asks as well; only others count.
        self.was_asked = False

    def beat(self, epoch: int) -> None:
        while True:
            self.runtime.sleep(self.settings.renew_interval_ns)
            if epoch != self.epoch or not super().holds() or self.user is None or not self.user.is_alive():
                return
            self.renew(epoch)


class HasItsOwnKey(PlainLock):
    """Keeps its record where it likes."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.key = "locks/of/mine"


class PollsFiveTimesAsOften(StorageLock):
    """Looks five times as often as it was told."""

    @classmethod
    def from_context(cls, context: LockContext) -> PollsFiveTimesAsOften:
        return super().from_context(_with(context, poll_interval_ns=context.settings.poll_interval_ns // 5))


class _ReleasesAtOnce(PlainLock):
    """Does not wait where a renewal of its own was under way and came first: its call would last too long (L5)."""

    def release(self, version: Version) -> None:
        for _ in range(4):
            body = self.line(self.runtime.wall_ns() // NS_PER_MS, self.token, "free")
            if self.put(body, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if seen.version is None or not self.is_mine(seen):
                    return
                if seen.version != version:
                    version = seen.version
                    continue
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the release")


class ReadsBeforeEachWrite(_ReleasesAtOnce):
    """One more look before whatever it writes; the condition stays that of the first."""

    def put(self, body: bytes, version: Version | None) -> Any:
        self.store.read(self.key)
        return super().put(body, version)


class LooksTwice(PlainLock):
    """Two reads for each acquire."""

    def attempt(self, end_ns: int) -> bool | None:
        self.store.read(self.key)
        return None if self.runtime.monotonic_ns() >= end_ns else super().attempt(end_ns)


class VerifiesEachWrite(_ReleasesAtOnce):
    """Reads what it wrote, and believes the write's own answer all the same."""

    def put(self, body: bytes, version: Version | None) -> Any:
        reply = super().put(body, version)
        self.store.read(self.key)
        return reply


class CountsFromZero(PlainLock):
    """Its first token is 0."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.token_seen = -1

    def next_token(self, view: RecordView | None) -> int:
        return self.token_seen + 1


def decode_tokenless(body: bytes) -> RecordView | None:
    """`PlainLock`'s line, whose number tells grants apart and is no token."""
    view = decode_line(body)
    return None if view is None else dataclasses.replace(view, token=None)


class GivesNoTokens(PlainLock):
    """Nothing that a resource could compare. The record's nonce keeps its own writes apart."""

    decode_record = staticmethod(decode_tokenless)

    @property
    def grant(self) -> Grant | None:
        if self.version is None:
            return None
        return Grant(owner=self.me, token=None, version=self.version, deadline_ns=MonoNs(self.mono_end_ns))
