"""Bugs in reading a record: what is no record taken for a free lock, or for the holder's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from lockref.errors import CorruptRecord
from lockref.locks.assembly import Parts
from lockref.locks.cell import Cell
from lockref.locks.values import Stored
from lockref.provider import RecordView
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import ReadReply
from lockref.words import Outcome
from tests.quality.planted.broken import other
from tests.quality.planted.strangers import PlainLock

NOBODY = LockFile("nobody", 0, expired=True)


class _Forgiving(Cell[LockFile]):
    """A body that cannot be read counts as released, if `forgives` says so."""

    def __init__(self, *args: Any, forgives: Callable[[bytes], bool], **more: Any) -> None:
        super().__init__(*args, **more)
        self.forgives = forgives

    def look(self) -> Stored[LockFile] | None:
        try:
            return super().look()
        except CorruptRecord:
            reply = self.store.read(self.key)
            if reply.body is None or not self.forgives(reply.body):
                raise
            return Stored(reply.version, NOBODY)


def _is_no_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return True
    return False


def _is_no_object(body: bytes) -> bool:
    try:
        return not isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _forgiving(forgives: Callable[[bytes], bool]) -> Parts:
    return other(cell=partial(_Forgiving, forgives=forgives))


class EmptyIsFree(StorageLock):
    """An object without a byte counts as free: somebody made it, and nobody has written to it yet (D6, H17)."""

    parts = _forgiving(lambda body: not body)


class NoFieldsAreFree(StorageLock):
    """A record without fields names no owner, so it has none (M12, H17)."""

    parts = _forgiving(lambda body: body == b"{}")


class TruncatedIsFree(StorageLock):
    """Half a record is what a writer left that died while it wrote (D6, H17)."""

    parts = _forgiving(lambda body: body.startswith(b"{") and not body.endswith(b"}"))


class NoTextIsFree(StorageLock):
    """Bytes that are no text cannot be a lock (H17)."""

    parts = _forgiving(_is_no_text)


class NoObjectIsFree(StorageLock):
    """JSON that is no object has no holder (M12, H17)."""

    parts = _forgiving(_is_no_object)


class PlainEmptyIsFree(PlainLock):
    """A stranger's `if not body`: no bytes are no object (D6)."""

    def decode(self, body: bytes) -> RecordView | None:
        return super().decode(body) if body else RecordView(owner="nobody", is_released=True)


class PlainSplitsAnything(PlainLock):
    """A stranger's parser: what it cannot split has no owner (M12)."""

    def decode(self, body: bytes) -> RecordView | None:
        return super().decode(body) or RecordView(owner="", is_released=True)


class RenewsOverAnything(PlainLock):
    """The holder knows that it holds, so its renewal replaces whatever else is there (D6, S6)."""

    def renew(self, epoch: int) -> None:
        found: ReadReply = self.store.read(self.settings.key)
        if found.outcome is Outcome.APPLIED and found.body is not None and self.decode(found.body) is None:
            self.version = found.version
        super().renew(epoch)


class _Repairing(Cell[LockFile]):
    def look(self) -> Stored[LockFile] | None:
        try:
            return super().look()
        except CorruptRecord:
            reply = self.store.read(self.key)
            if reply.version is None:
                raise
            written = self.store.put_if_version(self.key, self.serialize(NOBODY), reply.version)
            return Stored(written.version, NOBODY) if written.version else None


class ReplacesWhatItCannotRead(StorageLock):
    """A waiter repairs a record that it cannot read, and then takes what it has repaired (H17)."""

    parts = other(cell=_Repairing)
