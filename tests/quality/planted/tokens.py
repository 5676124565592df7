"""Bugs in what a lock says of its token: the record is right or tells nothing, the number in the holder's hands is not.

Where no record shows tokens, only what the calls returned can accuse. And in the mark that keeps tokens rising.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from lockref.locks.fence import FenceMark
from lockref.locks.tenure import Tenure
from lockref.provider import Grant, RecordView
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from tests.quality.planted.broken import other
from tests.quality.planted.strangers import HiddenLock, PlainLock
from tests.quality.planted.variants import TokenElsewhere


class _ShowsTheNext(Tenure[LockFile]):
    def grant(self) -> Grant:
        grant = super().grant()
        return dataclasses.replace(grant, token=None if grant.token is None else grant.token + 1)


class ShowsTheNextToken(StorageLock):
    """`grant.token` is one more than the record says: it rises as it should, and fences nobody whom it should (H21)."""

    parts = other(tenure=_ShowsTheNext)


class _ShowsItsNumber(Tenure[LockFile]):
    def __init__(self, *args: Any, given: list[object], **more: Any) -> None:
        super().__init__(*args, **more)
        given.append(self)
        self.number = len(given)

    def grant(self) -> Grant:
        return dataclasses.replace(super().grant(), token=self.number)


class ShowsItsOwnCount(StorageLock):
    """`grant.token` counts this client's own grants, whatever the record says (H21)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.parts = other(tenure=partial(_ShowsItsNumber, given=[]))  # type: ignore[misc]
        super().__init__(*args, **options)


class HiddenCount(ShowsItsOwnCount):
    """The same, and the records, as others are told to read them, carry no token that could contradict it (S2)."""

    decode_record = staticmethod(TokenElsewhere.decode_record)


class HiddenRestart(HiddenLock):
    """Tokens start again after each release, in records that nobody else can read (S2, M15)."""

    def next_token(self, view: RecordView | None) -> int:
        return 10 if view is None or view.is_released else super().next_token(view)


class _RaisedByPut(FenceMark):
    def _write(self, version: Version | None, body: bytes) -> WriteReply:
        return self._store.put(self._key, body)  # type: ignore[attr-defined]


class RaisesTheMarkByPut(StorageLock):
    """The fence object is written without a condition, so that a late write lowers the mark (H21, S2)."""

    parts = other(tokens=_RaisedByPut)


class NoTokenAfterTakeover(StorageLock):
    """A grant that replaces a lapsed one shows no token, so the resource never learns of a later grant (H21)."""

    _has_taken_over = False

    def lock(self, timeout_s: float) -> bool:
        before = self.cell.look()
        record = None if before is None else before.record
        self._has_taken_over = record is not None and not record.expired
        return super().lock(timeout_s)

    @property
    def grant(self) -> Grant | None:
        grant = super().grant
        return dataclasses.replace(grant, token=None) if grant is not None and self._has_taken_over else grant


class ShowsTheNewestToken(PlainLock):
    """`grant.token` is the newest number that it has read, its successor's too: whoever asks anew shows that (H21)."""

    def beat(self, epoch: int) -> None:
        super().beat(epoch)
        while epoch == self.epoch:
            self.runtime.sleep(self.settings.renew_interval_ns)
            found = self.store.read(self.key)
            view = None if found.body is None else self.decode(found.body)
            self.token_seen = max(self.token_seen, 0 if view is None else view.token or 0)

    @property
    def grant(self) -> Grant | None:
        grant = super().grant
        return None if grant is None else dataclasses.replace(grant, token=self.token_seen)


class CountsItsRenewals(PlainLock):
    """`grant.token` grows with each renewal, and the record keeps the number of the grant (S7)."""

    renewals = 0

    def begin(self, version: Version, mono_ns: int, wall_ns: int, until_ms: int) -> None:
        self.renewals = self.renewals + 1 if self.version is not None else 0
        super().begin(version, mono_ns, wall_ns, until_ms)

    @property
    def grant(self) -> Grant | None:
        grant = super().grant
        return None if grant is None else dataclasses.replace(grant, token=self.token + self.renewals)
