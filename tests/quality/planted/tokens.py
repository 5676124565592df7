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
from tests.quality.planted.strangers import HiddenLock
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
