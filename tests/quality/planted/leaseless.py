"""Locks without a lease: create if absent to lock, delete to unlock, and nothing lapses. The most common lock on S3.

A correct one knows its own record by a nonce, so that an answer that was lost is no denial, deletes what it wrote and
nothing else, and takes away what a failed call of its own left behind. It cannot free what a dead holder left.
"""

from __future__ import annotations

import json

from lockref.claims import NO_LEASE
from lockref.errors import LockError, LockNotHeld, OutcomeUnknown, ReleaseFailed, StoreRejected
from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_S, Task
from lockref.stores.port import Version
from lockref.words import Outcome

PATIENCE_NS = 60 * NS_PER_S
"""For how long what a failed call left behind is looked for."""


class CreateAndDelete:
    """Correct, as far as a lock without a lease can be: nobody frees what a dead holder left (e03: L1, L2)."""

    def __init__(self, context: LockContext) -> None:
        self.runtime, self.settings = context.runtime, context.settings
        self.timeout_ns = context.settings.renew_interval_ns // 3
        self.store = context.open_store(self.timeout_ns)
        self.mutex = context.runtime.mutex()
        self.me = context.runtime.token_bytes(6).hex()
        self.user: Task | None = None
        self.version: Version | None = None
        self.forsaken: list[bytes] = []

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        try:
            record = json.loads(body)
            return RecordView(owner=record["by"], nonce=record["nonce"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def grant(self) -> Grant | None:
        return None if self.version is None else Grant(owner=self.me, version=self.version)

    def holds(self) -> bool:
        return self.version is not None

    def body(self) -> bytes:
        return json.dumps({"by": self.me, "nonce": self.runtime.token_bytes(6).hex()}).encode()

    def try_lock(self) -> bool:
        return self.acquire(0)

    def lock(self, timeout_s: float) -> bool:
        return self.acquire(int(timeout_s * NS_PER_S))

    def acquire(self, timeout_ns: int) -> bool:
        end_ns = self.runtime.monotonic_ns() + max(timeout_ns, 3 * self.timeout_ns)
        me = self.runtime.current_task()
        while True:
            answer = self.attempt(me, end_ns)
            if answer:
                return True
            left_ns = end_ns - self.runtime.monotonic_ns()
            if left_ns <= 0 or timeout_ns == 0:
                if answer is None:
                    raise OutcomeUnknown("not granted, and nobody else was seen to have it")
                return False
            self.runtime.sleep(min(left_ns, self.settings.poll_interval_ns))

    def attempt(self, me: Task, end_ns: int) -> bool | None:
        """True: granted. False: somebody else has it. None: not known."""
        with self.mutex:
            if self.user is not None and self.user != me:
                return False if self.holds() else None
            self.user = me
        version, answer = None, None
        try:
            version, answer = self.create(self.body(), end_ns)
        finally:
            with self.mutex:
                self.version = version
                if version is None:
                    self.user = None
        return answer

    def create(self, body: bytes, end_ns: int) -> tuple[Version | None, bool | None]:
        reply = self.store.put_if_absent(self.settings.key, body)
        if reply.outcome is Outcome.APPLIED:
            return reply.version, True
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(reply.reason)
        if reply.outcome is Outcome.THROTTLED:
            return None, None
        # Somebody else's record, or our own, sent twice below us or answered by nobody: a look tells.
        is_open = reply.outcome is Outcome.AMBIGUOUS
        seen = self.store.read(self.settings.key) if self.runtime.monotonic_ns() < end_ns else None
        if seen is not None and seen.outcome is Outcome.APPLIED and seen.body == body:
            return seen.version, True
        is_known = seen is not None and seen.outcome is Outcome.APPLIED and seen.body is not None
        if is_open:
            # Also beside another's record: a request on its way may arrive after that one has gone.
            self.forsake(body)
        mine = is_known and seen is not None and seen.body in self.forsaken
        return None, False if is_known and not mine else None

    def forsake(self, body: bytes) -> None:
        """A write that nobody answered may still land: then it is taken away again."""
        self.forsaken.append(body)
        self.runtime.spawn(lambda: self.take_away(body), name="cleanup")

    def take_away(self, body: bytes) -> None:
        end_ns = self.runtime.monotonic_ns() + PATIENCE_NS
        while self.runtime.monotonic_ns() < end_ns:
            seen = self.store.read(self.settings.key)
            if seen.outcome is Outcome.APPLIED and seen.body == body:
                self.store.delete(self.settings.key, seen.version)
            self.runtime.sleep(self.settings.poll_interval_ns)

    def unlock(self) -> None:
        if self.user != self.runtime.current_task() or self.version is None:
            raise LockNotHeld("this task has not locked it")
        version, self.version = self.version, None
        try:
            self.give_back(version)
        finally:
            self.user = None

    def give_back(self, version: Version) -> None:
        for _ in range(5):
            if self.store.delete(self.settings.key, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.settings.key)
            if seen.outcome is Outcome.APPLIED and seen.version != version:
                return
            self.runtime.sleep(self.timeout_ns)
        self.runtime.spawn(lambda: self.take_away_version(version), name="cleanup")
        raise ReleaseFailed("the store did not take the record away")

    def take_away_version(self, version: Version) -> None:
        """A release that failed goes on behind: nothing else would free the lock."""
        end_ns = self.runtime.monotonic_ns() + PATIENCE_NS
        while self.runtime.monotonic_ns() < end_ns:
            seen = self.store.read(self.settings.key)
            if seen.outcome is Outcome.APPLIED and seen.version != version:
                return
            self.store.delete(self.settings.key, version)
            self.runtime.sleep(self.settings.poll_interval_ns)

    def close(self) -> None:
        try:
            self.unlock()
        except LockError:
            return


class CreateAndDeleteAsDeclared(CreateAndDelete):
    """Correct: the same, and it says of itself that it has no lease."""

    claims = (NO_LEASE,)


# From here on everything is wrong.


class DeniesWithoutALook(CreateAndDeleteAsDeclared):
    """A write that nobody answered was refused, so somebody has it (S7); no lease is no excuse."""

    def create(self, body: bytes, end_ns: int) -> tuple[Version | None, bool | None]:
        version, answer = super().create(body, end_ns)
        return version, bool(answer)


class ForgetsToDelete(CreateAndDeleteAsDeclared):
    """Unlock is done when it is sent once, whatever became of it (S7)."""

    def give_back(self, version: Version) -> None:
        self.store.delete(self.settings.key, version)


class BreaksTheLock(CreateAndDeleteAsDeclared):
    """Whoever has waited for five seconds writes over what stands there (S3, S5)."""

    def acquire(self, timeout_ns: int) -> bool:
        try:
            if super().acquire(min(timeout_ns, 5 * NS_PER_S)):
                return True
        except OutcomeUnknown:
            pass
        if timeout_ns < 5 * NS_PER_S:
            return False
        reply = self.store.put(self.settings.key, self.body())
        self.user, self.version = self.runtime.current_task(), reply.version
        return self.version is not None


class LeavesWhatItForsook(CreateAndDelete):
    """A call whose write nobody answered gives up and looks no more: what landed stands for ever (L1, L6).

    It does not say that it has no lease. One that does, and says "unknown", leaves that to an operator.
    """

    def forsake(self, body: bytes) -> None:
        self.forsaken.append(body)


class DeletesWhateverStands(CreateAndDeleteAsDeclared):
    """A release deletes the object whatever its version is: also the record of whoever came after (S6)."""

    def give_back(self, version: Version) -> None:
        for _ in range(5):
            if self.store.delete(self.settings.key, None).outcome is Outcome.APPLIED:
                return
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the record away")
