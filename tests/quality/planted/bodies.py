"""Bugs in reading a record: what is no record taken for a free lock, or for the holder's own."""

from __future__ import annotations

import json
from typing import Any

from lockref.errors import CorruptRecord
from lockref.provider import RecordView
from lockref.storage import lockfile
from lockref.storage.lease import Stored
from lockref.storage.lockfile import LockFile
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, ReadReply, WriteReply
from tests.quality.planted.strangers import PlainLock

NOBODY = LockFile("nobody", 0, expired=True)


class _Forgives(StorageLock):
    """A body that cannot be read counts as released, if `forgives` says so."""

    def forgives(self, body: bytes) -> bool:
        raise NotImplementedError

    def _read(self) -> Stored | None:
        try:
            return super()._read()
        except CorruptRecord:
            reply = self._store.read(self._key)
            if reply.body is None or not self.forgives(reply.body):
                raise
            return Stored(reply.version, NOBODY)


class EmptyIsFree(_Forgives):
    """An object without a byte counts as free: somebody made it, and nobody has written to it yet (D6, H17)."""

    def forgives(self, body: bytes) -> bool:
        return not body


class NoFieldsAreFree(_Forgives):
    """A record without fields names no owner, so it has none (M12, H17)."""

    def forgives(self, body: bytes) -> bool:
        return body == b"{}"


class TruncatedIsFree(_Forgives):
    """Half a record is what a writer left that died while it wrote (D6, H17)."""

    def forgives(self, body: bytes) -> bool:
        return body.startswith(b"{") and not body.endswith(b"}")


class NoTextIsFree(_Forgives):
    """Bytes that are no text cannot be a lock (H17)."""

    def forgives(self, body: bytes) -> bool:
        try:
            body.decode()
        except UnicodeDecodeError:
            return True
        return False


class NoObjectIsFree(_Forgives):
    """JSON that is no object has no holder (M12, H17)."""

    def forgives(self, body: bytes) -> bool:
        try:
            return not isinstance(json.loads(body), dict)
        except ValueError:
            return False


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


class ReplacesWhatItCannotRead(StorageLock):
    """A waiter repairs a record that it cannot read, and then takes what it has repaired (H17)."""

    def _read(self) -> Stored | None:
        try:
            return super()._read()
        except CorruptRecord:
            reply = self._store.read(self._key)
            if reply.version is not None:
                body = lockfile.serialize(NOBODY)
                written: WriteReply = self._store.put_if_version(self._key, body, reply.version)
                return Stored(written.version, NOBODY) if written.version else None
            raise

    def _next_token(self, known: Any) -> int:
        return super()._next_token(known)
