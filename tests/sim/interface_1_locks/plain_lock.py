"""A lease in one line of text. It is not changed when lockref is: it is what a stranger has at home."""

from __future__ import annotations

from typing import Any, ClassVar

from lockref.errors import LockError, LockLost, LockNotHeld, OutcomeUnknown, ReleaseFailed, StoreRejected
from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, Task, WallNs
from lockref.stores.port import ReadReply, Version
from lockref.words import Outcome


def decode_line(body: bytes) -> RecordView | None:
    """`owner until_ms token state nonce`, separated by spaces."""
    parts = body.decode("ascii", "replace").split(" ")
    if len(parts) != 5 or not parts[1].isdecimal() or not parts[2].isdecimal() or parts[3] not in ("held", "free"):
        return None
    return RecordView(
        owner=parts[0],
        token=int(parts[2]),
        valid_until_ns=WallNs(int(parts[1]) * NS_PER_MS),
        is_released=parts[3] == "free",
        nonce=parts[4],
    )


class PlainLock:
    """Correct: a lease in one line of text, renewed from a heartbeat; tokens rise by ten. Not re-entrant."""

    decode_record: ClassVar[Any] = staticmethod(decode_line)
    renews = True

    def __init__(self, context: LockContext) -> None:
        self.runtime = context.runtime
        self.settings = context.settings
        self.key = context.settings.key
        self.timeout_ns = context.settings.renew_interval_ns // 3
        self.store = context.open_store(self.timeout_ns)
        self.me = context.runtime.token_bytes(6).hex()
        self.mutex = context.runtime.mutex()
        self.user: Task | None = None
        self.version: Version | None = None
        self.token = 0
        self.token_seen = 0
        self.epoch = 0
        self.mono_end_ns = 0
        self.wall_end_ns = 0
        self.until_ms = 0

    # What it believes.

    def holds(self) -> bool:
        return (
            self.version is not None
            and self.runtime.monotonic_ns() < self.mono_end_ns
            and self.runtime.wall_ns() < self.wall_end_ns
        )

    @property
    def grant(self) -> Grant | None:
        if self.version is None:
            return None
        return Grant(owner=self.me, token=self.token, version=self.version, deadline_ns=MonoNs(self.mono_end_ns))

    # The record.

    def line(self, until_ms: int, token: int, state: str) -> bytes:
        return f"{self.me} {until_ms} {token} {state} {self.runtime.token_bytes(4).hex()}".encode()

    def decode(self, body: bytes) -> RecordView | None:
        return decode_line(body)

    def put(self, body: bytes, version: Version | None) -> Any:
        if version is None:
            return self.store.put_if_absent(self.key, body)
        return self.store.put_if_version(self.key, body, version)

    def is_free(self, view: RecordView) -> bool:
        return (
            view.is_released
            or view.valid_until_ns is None
            or self.runtime.wall_ns() > view.valid_until_ns + self.settings.drift_bound_ns
        )

    def next_token(self, view: RecordView | None) -> int:
        return self.token_seen + 10

    def saw(self, found: ReadReply) -> None:
        """Told of each look at a lock that it wants."""

    # Acquiring.

    def try_lock(self) -> bool:
        return self.acquire(0)

    def lock(self, timeout_s: float) -> bool:
        return self.acquire(int(timeout_s * NS_PER_S))

    def acquire(self, timeout_ns: int) -> bool:
        end_ns = self.runtime.monotonic_ns() + max(timeout_ns, 3 * self.timeout_ns)
        is_granted = False
        try:
            while True:
                answer = self.attempt(end_ns)
                if answer:
                    is_granted = True
                    return True
                left_ns = end_ns - self.runtime.monotonic_ns()
                if left_ns <= 0 or timeout_ns == 0:
                    if answer is None:
                        raise OutcomeUnknown("not granted, and nobody else was seen to have it")
                    return False
                self.runtime.sleep(min(left_ns, self.settings.poll_interval_ns))
        finally:
            if not is_granted:
                self.leave()

    def enter(self) -> bool:
        me = self.runtime.current_task()
        with self.mutex:
            if self.user is not None and self.user != me and (self.user.is_alive() or self.holds()):
                return False
            self.user, self.version = me, None
            return True

    def leave(self) -> None:
        with self.mutex:
            if self.user == self.runtime.current_task():
                self.user = None

    def attempt(self, end_ns: int) -> bool | None:
        if not self.enter():
            return False if self.holds() else None
        found = self.store.read(self.key)
        if found.outcome is Outcome.REJECTED:
            raise StoreRejected(found.reason)
        if found.outcome is not Outcome.APPLIED or self.runtime.monotonic_ns() >= end_ns:
            return None
        self.saw(found)
        view = None
        if found.body is not None:
            view = self.decode(found.body)
            if view is None:
                raise LockError("somebody else's object is at the lock's place")
            self.token_seen = max(self.token_seen, view.token or 0)
            if not self.is_free(view) and view.owner != self.me:
                return False
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        token, until_ms = self.next_token(view), (wall_ns + self.settings.validity_ns) // NS_PER_MS
        body = self.line(until_ms, token, "held")
        reply = self.put(body, found.version)
        version = reply.version
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(reply.reason)
        if reply.outcome in (Outcome.AMBIGUOUS, Outcome.PRECONDITION_FAILED):
            version = self.landed(body, end_ns)
        if version is None:
            return None
        self.token = self.token_seen = token
        self.begin(version, mono_ns, wall_ns, until_ms)
        if not self.holds():
            self.version = None
            return None
        self.epoch += 1
        epoch = self.epoch
        if self.renews:
            self.runtime.spawn(lambda: self.beat(epoch), name="heartbeat")
        return True

    def landed(self, body: bytes, end_ns: int) -> Version | None:
        if self.runtime.monotonic_ns() >= end_ns:
            return None
        seen = self.store.read(self.key)
        return seen.version if seen.outcome is Outcome.APPLIED and seen.body == body else None

    def begin(self, version: Version, mono_ns: int, wall_ns: int, until_ms: int) -> None:
        usable_ns = self.settings.validity_ns - self.settings.drift_bound_ns
        self.version, self.until_ms = version, until_ms
        self.mono_end_ns, self.wall_end_ns = mono_ns + usable_ns, wall_ns + usable_ns

    # Keeping.

    def beat(self, epoch: int) -> None:
        while True:
            self.runtime.sleep(self.settings.renew_interval_ns)
            if epoch != self.epoch or not self.holds():
                return
            if self.user is None or not self.user.is_alive():
                return
            self.renew(epoch)

    def renew(self, epoch: int) -> None:
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        until_ms = max(self.until_ms, (wall_ns + self.settings.validity_ns) // NS_PER_MS)
        body = self.line(until_ms, self.token, "held")
        reply = self.put(body, self.version)
        version = reply.version
        if reply.outcome is Outcome.AMBIGUOUS or reply.outcome is Outcome.PRECONDITION_FAILED:
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                version = seen.version if seen.body == body else None
                if version is None and epoch == self.epoch and seen.version != self.version:
                    # An earlier renewal of ours that was not heard is younger than what we know; all else is a loss.
                    self.version = seen.version if self.is_mine(seen) else None
        if version is not None and epoch == self.epoch and self.holds():
            self.begin(version, mono_ns, wall_ns, until_ms)

    def is_mine(self, seen: ReadReply) -> bool:
        view = None if seen.body is None else self.decode(seen.body)
        return view is not None and view.owner == self.me and view.token == self.token and not view.is_released

    # Giving back.

    def unlock(self) -> None:
        if self.user != self.runtime.current_task() or (self.version is None and self.until_ms == 0):
            raise LockNotHeld("this task has not locked it")
        was_held, version = self.holds(), self.version
        self.version, self.until_ms = None, 0
        self.epoch += 1
        try:
            if version is not None:
                self.release(version)
        finally:
            self.leave()
        if not was_held:
            raise LockLost("lost before unlock", token=self.token, reason="lapsed or replaced")

    def release(self, version: Version) -> None:
        body = self.line(self.runtime.wall_ns() // NS_PER_MS, self.token, "free")
        for _ in range(4):
            if self.put(body, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED:
                if not self.is_mine(seen):
                    return
                assert seen.version is not None
                version = seen.version
            self.runtime.sleep(self.timeout_ns)
        raise ReleaseFailed("the store did not take the release")

    def close(self) -> None:
        self.epoch += 1
