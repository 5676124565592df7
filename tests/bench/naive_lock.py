"""The lock that most people write first: an object that is created to lock and deleted to unlock.

It has no lease, no renewal and no token: a holder that dies keeps it for ever. So it is no lock to use. It is the rival
of `tests.bench.contention`, because nothing needs fewer requests: a grant costs one create and one delete.
"""

from __future__ import annotations

from typing import Final

from lockref.errors import LockNotHeld, ReleaseFailed
from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_S
from lockref.words import Outcome

JITTER: Final = (0.5, 1.5)
"""The least and the most of a pause between two looks, as shares of the poll interval."""

REQUEST_TIMEOUT_NS: Final = 20 * NS_PER_S


class NaiveLock:
    """`put_if_absent` to lock, `delete` on the version to unlock, a jittered poll in between."""

    claims = ("no-lease",)

    def __init__(self, context: LockContext) -> None:
        self._runtime = context.runtime
        self._key = context.settings.key
        self._interval_ns = context.settings.poll_interval_ns
        self._store = context.open_store(REQUEST_TIMEOUT_NS)
        self._owner = context.runtime.token_bytes(8).hex()
        self._grant: Grant | None = None

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        """The owner and the nonce of a record; None for other bytes."""
        owner, _, nonce = body.decode("utf-8", "replace").partition("/")
        return RecordView(owner=owner, nonce=nonce) if nonce else None

    @property
    def grant(self) -> Grant | None:
        return self._grant

    def holds(self) -> bool:
        return self._grant is not None

    def try_lock(self) -> bool:
        # The nonce tells two grants of one owner apart, where versions are hashes.
        body = f"{self._owner}/{self._runtime.token_bytes(8).hex()}".encode()
        reply = self._store.put_if_absent(self._key, body)
        if reply.outcome is Outcome.APPLIED:
            self._grant = Grant(self._owner, version=reply.version)
        return self._grant is not None

    def lock(self, timeout_s: float) -> bool:
        until_ns = self._runtime.monotonic_ns() + round(timeout_s * NS_PER_S)
        while not self.try_lock():
            left_ns = until_ns - self._runtime.monotonic_ns()
            if left_ns <= 0:
                return False
            pause_ns = round(self._interval_ns * self._runtime.random.uniform(*JITTER))
            self._runtime.sleep(min(pause_ns, left_ns))
        return True

    def unlock(self) -> None:
        grant, self._grant = self._grant, None
        if grant is None:
            raise LockNotHeld("unlock without a grant")
        reply = self._store.delete(self._key, grant.version)
        if reply.outcome is not Outcome.APPLIED:
            raise ReleaseFailed(f"the delete was answered by {reply.in_words()}")

    def close(self) -> None:
        self._store.close()
