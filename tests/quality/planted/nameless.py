"""Locks whose records say little: one name for all clients and no token, or no record at all where nobody holds.

A record of the first kind is no more than a state, a stamp and a nonce. A lock of the second kind takes over in two
writes: it deletes the record that has run out, and then creates its own.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.errors import ReleaseFailed
from lockref.provider import Grant, RecordView
from lockref.runtime import NS_PER_MS, MonoNs
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.quality.planted.habits import GivesNoTokens
from tests.quality.planted.strangers import PlainLock, decode_line

NAME = "locked"


def decode_state(body: bytes) -> RecordView | None:
    """As `decode_line`. Whose record it is, and which grant's, only its writer knows."""
    view = decode_line(body)
    return None if view is None else dataclasses.replace(view, owner=NAME, token=None)


class WritesOneName(PlainLock):
    """Correct: for others its record is a state and a stamp; the lock itself knows its writes by what stands there."""

    decode_record = staticmethod(decode_state)

    @property
    def grant(self) -> Grant | None:
        if self.version is None:
            return None
        return Grant(owner=NAME, token=None, version=self.version, deadline_ns=MonoNs(self.mono_end_ns))


class DeletesWhatRanOut(GivesNoTokens):
    """Correct: unlock deletes the record on condition, and so does a take-over before it creates its own."""

    def put(self, body: bytes, version: Version | None) -> Any:
        if version is None or self.version is not None:
            return super().put(body, version)
        reply = self.remove(version)
        if reply.outcome is Outcome.APPLIED:
            return super().put(body, None)
        # Whatever became of the deletion, no record of ours was written.
        return reply if reply.outcome is Outcome.REJECTED else dataclasses.replace(reply, outcome=Outcome.CONFLICT)

    def remove(self, version: Version) -> Any:
        return self.store.delete(self.key, version)

    def release(self, version: Version) -> None:
        for _ in range(4):
            if self.store.delete(self.key, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if not self.is_mine(seen):
                    return
                assert seen.version is not None, "what was read has a version"
                version = seen.version
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the record away")


# From here on everything is wrong.


class TakesOneNameTooEarly(WritesOneName):
    """A record is as good as free two renewals before its stamp (S5)."""

    def is_free(self, view: RecordView) -> bool:
        assert view.valid_until_ns is not None, "a line has a stamp"
        early_ns = 2 * self.settings.renew_interval_ns
        return view.is_released or self.runtime.wall_ns() > view.valid_until_ns - early_ns


class FreesAnyRecordOfItsName(WritesOneName):
    """Its release has no condition, for the record has its name (S6, M4)."""

    def release(self, version: Version) -> None:
        self.store.put(self.key, self.line(self.runtime.wall_ns() // NS_PER_MS, self.token, "free"))


class TakesAnyRecordForItsOwn(WritesOneName):
    """A write without an answer: a held record stands there, so it landed (A4, H5)."""

    def landed(self, body: bytes, end_ns: int) -> Version | None:
        seen = self.store.read(self.key) if self.runtime.monotonic_ns() < end_ns else None
        view = None if seen is None or seen.body is None else self.decode(seen.body)
        return None if seen is None or view is None or view.is_released else seen.version


class DeletesWithoutCondition(DeletesWhatRanOut):
    """A take-over deletes whatever stands there by then (S6, M4)."""

    def remove(self, version: Version) -> Any:
        return self.store.delete(self.key, None)


class DeletesTooEarly(DeletesWhatRanOut):
    """A take-over deletes the record two renewals before its stamp, on condition (S5)."""

    def is_free(self, view: RecordView) -> bool:
        assert view.valid_until_ns is not None, "a line has a stamp"
        early_ns = 2 * self.settings.renew_interval_ns
        return view.is_released or self.runtime.wall_ns() > view.valid_until_ns - early_ns
