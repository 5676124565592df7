"""The smallest lock that people write, once sound and six times with one mistake.

Create if absent with a stamp, take over when the stamp has passed, delete to release: no renewals, no tokens, and no
thought of which task calls. It is what a gate must pass, and each of the others what it must not.
"""

from __future__ import annotations

import contextlib
import json

from lockref import Grant, LockContext, LockError, Outcome, OutcomeUnknown, RecordView, ReleaseFailed
from lockref.errors import CorruptRecord, LockLost, LockNotHeld, StoreRejected
from lockref.runtime import NS_PER_S, WallNs
from lockref.stores.port import ReadReply, Version, WriteReply


class TinyLock:
    """Sound."""

    def __init__(self, context: LockContext) -> None:
        self.runtime = context.runtime
        self.settings = context.settings
        self.timeout_ns = context.settings.validity_ns // 10
        self.store = context.open_store(self.timeout_ns)
        self.key = context.settings.key
        self.me = context.runtime.token_bytes(8).hex()
        self.version: Version | None = None
        self.mono_end_ns = 0
        self.wall_end_ns = 0

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        try:
            record = json.loads(body)
            return RecordView(owner=record["by"], valid_until_ns=WallNs(record["until"]), nonce=record["nonce"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def grant(self) -> Grant | None:
        return None if self.version is None else Grant(owner=self.me, version=self.version)

    def holds(self) -> bool:
        is_in_time = self.runtime.monotonic_ns() < self.mono_end_ns and self.runtime.wall_ns() < self.wall_end_ns
        return self.version is not None and is_in_time

    def try_lock(self) -> bool:
        return self.acquire(0)

    def lock(self, timeout_s: float) -> bool:
        return self.acquire(int(timeout_s * NS_PER_S))

    def acquire(self, timeout_ns: int) -> bool:
        if self.holds():
            raise LockError("it is held here already, and cannot be entered twice")
        give_up_ns = self.runtime.monotonic_ns() + max(timeout_ns, 3 * self.timeout_ns)
        while True:
            answer = self.attempt(give_up_ns)
            if answer:
                return True
            left_ns = give_up_ns - self.runtime.monotonic_ns()
            if timeout_ns == 0 or left_ns <= 0:
                if answer is None:
                    raise OutcomeUnknown("nobody else was seen to hold it")
                return False
            self.runtime.sleep(min(self.settings.poll_interval_ns // 2, left_ns))

    def attempt(self, give_up_ns: int) -> bool | None:
        """True: granted. False: somebody else has it. None: not known."""
        found = self.store.read(self.key)
        if found.outcome is Outcome.REJECTED:
            raise StoreRejected(found.reason)
        if found.outcome is not Outcome.APPLIED:
            return None
        if found.body is not None:
            view = self.decode_record(found.body)
            if view is None:
                raise CorruptRecord(f"{self.key} holds no record of this lock")
            if view.owner != self.me and not self.is_over(view):
                return False
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        if mono_ns >= give_up_ns:
            return None
        body = self.body(wall_ns + self.settings.validity_ns)
        reply = self.write(body, found)
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(reply.reason)
        version, answer = reply.version, None
        if reply.outcome in (Outcome.PRECONDITION_FAILED, Outcome.AMBIGUOUS):
            version, answer = self.look_again(body, found, give_up_ns)
        if version is None:
            return answer
        self.begin(version, mono_ns, wall_ns)
        if self.holds():
            return True
        self.version = None
        return None

    def write(self, body: bytes, found: ReadReply) -> WriteReply:
        if found.version is None:
            return self.store.put_if_absent(self.key, body)
        return self.store.put_if_version(self.key, body, found.version)

    def look_again(self, body: bytes, found: ReadReply, give_up_ns: int) -> tuple[Version | None, bool | None]:
        """After an answer that may hide a write of ours: its version, or whether somebody else has the lock."""
        if self.runtime.monotonic_ns() >= give_up_ns:
            return None, None
        seen = self.store.read(self.key)
        if seen.outcome is not Outcome.APPLIED:
            return None, None
        if seen.body == body:
            return seen.version, True
        # While the version is the one that we wrote on, our write may still land.
        return None, False if seen.body is not None and seen.version != found.version else None

    def is_over(self, view: RecordView) -> bool:
        assert view.valid_until_ns is not None
        return self.runtime.wall_ns() > view.valid_until_ns + self.settings.drift_bound_ns

    def begin(self, version: Version, mono_ns: int, wall_ns: int) -> None:
        """mono_ns, wall_ns: from before the write was sent."""
        usable_ns = self.settings.validity_ns - NS_PER_S // 2
        self.version, self.mono_end_ns, self.wall_end_ns = version, mono_ns + usable_ns, wall_ns + usable_ns

    def body(self, until_ns: int) -> bytes:
        nonce = self.runtime.token_bytes(8).hex()
        return json.dumps({"by": self.me, "until": until_ns, "nonce": nonce}).encode()

    def unlock(self) -> None:
        version, was_held = self.version, self.holds()
        if version is None:
            raise LockNotHeld("it is not locked here")
        self.version = None
        self.release(version)
        if not was_held:
            raise LockLost("it had lapsed before unlock")

    def release(self, version: Version) -> None:
        for _ in range(3):
            if self.store.delete(self.key, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED and seen.version != version:
                return
            self.runtime.sleep(self.settings.poll_interval_ns // 4)
        raise ReleaseFailed("the store did not take the record away")

    def close(self) -> None:
        with contextlib.suppress(LockError):
            self.unlock()


class LeavesWhatLapsed(TinyLock):
    """Sound: what has lapsed is not given back, and the next grant of the same process takes its own record over."""

    def unlock(self) -> None:
        if self.version is not None and not self.holds():
            self.version = None
            raise LockLost("it had lapsed before unlock")
        super().unlock()


class DeletesWithoutACondition(TinyLock):
    """A holder that lapsed deletes its successor's record (S6)."""

    def release(self, version: Version) -> None:
        for _ in range(3):
            if self.store.delete(self.key).outcome is Outcome.APPLIED:
                return
            self.runtime.sleep(self.settings.poll_interval_ns // 4)
        raise ReleaseFailed("the store did not take the record away")


class LooksAtNoClock(TinyLock):
    """The guard says yes until unlock, however long that takes (S3)."""

    def holds(self) -> bool:
        return self.version is not None


class CountsFromTheAnswer(TinyLock):
    """The deadline counts from when the grant was heard, and not from when it was sent (S3)."""

    def begin(self, version: Version, mono_ns: int, wall_ns: int) -> None:
        super().begin(version, self.runtime.monotonic_ns(), self.runtime.wall_ns())


class TakesOverTooEarly(TinyLock):
    """A waiter trusts the stamp to the nanosecond, and takes over two seconds before it (S5)."""

    def is_over(self, view: RecordView) -> bool:
        assert view.valid_until_ns is not None
        return self.runtime.wall_ns() > view.valid_until_ns - 2 * NS_PER_S


class DeniesWhatItDoesNotKnow(TinyLock):
    """A write without an answer was refused, so somebody else has the lock (S7)."""

    def look_again(self, body: bytes, found: ReadReply, give_up_ns: int) -> tuple[Version | None, bool | None]:
        return None, False


class WritesOverWhatLapsed(TinyLock):
    """Of two waiters that see a record lapse, each writes its own (S1 to S5): the take-over has no condition."""

    def write(self, body: bytes, found: ReadReply) -> WriteReply:
        return self.store.put_if_absent(self.key, body) if found.version is None else self.store.put(self.key, body)


UNSOUND = (
    DeletesWithoutACondition,
    LooksAtNoClock,
    CountsFromTheAnswer,
    TakesOverTooEarly,
    DeniesWhatItDoesNotKnow,
    WritesOverWhatLapsed,
)


class TwoMistakes(DeletesWithoutACondition, LooksAtNoClock):
    """Two mistakes that have nothing to do with each other."""


class WouldRenew(TinyLock):
    """Declares that it renews, and never does: what its renewals would have shown is missing."""

    claims = ("renews",)


class SaysWhatItIsNot(TinyLock):
    """Its class says that it is re-entrant, gives tokens and has no lease. It has a lease, and the rest is not so."""

    is_reentrant = True
    claims = ("no-lease", "tokens")


class Broken(TinyLock):
    """It fails as soon as it is used."""

    def try_lock(self) -> bool:
        raise KeyError("never written")

    def lock(self, timeout_s: float) -> bool:
        raise KeyError("never written")
