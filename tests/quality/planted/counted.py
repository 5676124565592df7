"""Locks whose tokens are counted in an object of their own, which is written once the lock is won."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from lockref.provider import Grant, RecordView
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.strangers import PlainLock, decode_line


def _without_token(body: bytes) -> RecordView | None:
    view = decode_line(body)
    return None if view is None else dataclasses.replace(view, token=None)


class CountsByCondition(PlainLock):
    """Correct: whoever wins the lock raises the count on the state that it has read, and is granted nothing without."""

    decode_record: ClassVar = staticmethod(_without_token)
    counted = 0

    def attempt(self, end_ns: int) -> bool | None:
        granted = super().attempt(end_ns)
        if not granted:
            return granted
        while not (is_counted := self.count()) and self.holds() and self.runtime.monotonic_ns() < end_ns:
            self.runtime.sleep(self.settings.poll_interval_ns)
        if is_counted and self.holds():
            return True
        # Its record stays until it lapses: the next attempt takes it over as its owner's.
        self.version = None
        self.epoch += 1
        return None

    def count(self) -> bool:
        """Take the next number. False: nobody knows whose it is."""
        key = f"{self.key}.count"
        found = self.store.read(key)
        if found.outcome is not Outcome.APPLIED:
            return False
        number = 1 + int(found.body or b"0")
        reply = self.raise_count(key, b"%d" % number, found.version)
        if reply.outcome is not Outcome.APPLIED:
            return False
        self.counted = number
        return True

    def raise_count(self, key: str, body: bytes, version: Version | None) -> WriteReply:
        if version is None:
            return self.store.put_if_absent(key, body)
        return self.store.put_if_version(key, body, version)

    @property
    def grant(self) -> Grant | None:
        grant = super().grant
        return None if grant is None else dataclasses.replace(grant, token=self.counted)


class CountsByPut(CountsByCondition):
    """The count is raised without a condition: whoever stands still before that write lowers it again (H21, S2)."""

    def raise_count(self, key: str, body: bytes, version: Version | None) -> WriteReply:
        return self.store.put(key, body)
