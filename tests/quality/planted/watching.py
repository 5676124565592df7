"""A lock without any wall clock: whoever sees the same version for a whole validity takes over (M14).

The holder changes the record with every heartbeat, and a contender measures on
its own monotonic clock how long it has not changed. It rests on versions that
differ, and on S3 a version is a hash of the bytes: a heartbeat that writes the
same bytes again is no sign of life.
"""

from __future__ import annotations

from lockref.claims import LEASE
from lockref.provider import LockContext, LockSettings, RecordView
from lockref.runtime import NS_PER_S
from lockref.stores.port import ReadReply, Version
from tests.quality.planted.strangers import PlainLock

_GRACE_NS = NS_PER_S // 20
"""The clock of the waiter may be the faster one."""


def decode_watched(body: bytes) -> RecordView | None:
    """`owner token state nonce`, separated by spaces: no time at all."""
    parts = body.decode("ascii", "replace").split(" ")
    if len(parts) != 4 or not parts[1].isdecimal() or parts[2] not in ("held", "free"):
        return None
    return RecordView(owner=parts[0], token=int(parts[1]), is_released=parts[2] == "free", nonce=parts[3])


class WatchingLock(PlainLock):
    """Correct: records carry no time, and are good for a validity from their sending."""

    claims = (LEASE,)
    decode_record = staticmethod(decode_watched)

    @staticmethod
    def watch_ns(settings: LockSettings) -> int:
        # A heartbeat may have come right after a look, so it is seen one poll late.
        return settings.validity_ns + _GRACE_NS + settings.poll_interval_ns

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.watched: Version | None = None
        self.watched_since_ns = 0

    def decode(self, body: bytes) -> RecordView | None:
        return decode_watched(body)

    def line(self, until_ms: int, token: int, state: str) -> bytes:
        return f"{self.me} {token} {state} {self.nonce()}".encode()

    def nonce(self) -> str:
        return self.runtime.token_bytes(4).hex()

    def saw(self, found: ReadReply) -> None:
        if found.version != self.watched:
            self.watched, self.watched_since_ns = found.version, self.runtime.monotonic_ns()

    def is_free(self, view: RecordView) -> bool:
        watched_ns = self.runtime.monotonic_ns() - self.watched_since_ns
        return view.is_released or watched_ns > self.settings.validity_ns + _GRACE_NS


class SameBytesAgain(WatchingLock):
    """Records carry no nonce, so on S3 a heartbeat does not change the version (M14, A6)."""

    def nonce(self) -> str:
        return "-"
