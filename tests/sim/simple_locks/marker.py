"""Create a file to lock, delete it to unlock: no lease, no token, no clock."""

import contextlib

from lockref import Grant, LockContext, LockError, LockNotHeld, Outcome, OutcomeUnknown, RecordView, ReleaseFailed


class MarkerLock:
    claims = ("no-lease",)

    def __init__(self, context: LockContext) -> None:
        self.rt, self.key = context.runtime, context.settings.key
        self.pause_ns = context.settings.poll_interval_ns
        self.store = context.open_store(context.settings.validity_ns // 10)
        self.me = self.rt.token_bytes(6).hex()
        self.version = None

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        text = body.decode("ascii", "replace")
        return RecordView(owner=text.split()[0], nonce=text) if text.startswith("marker-") else None

    @property
    def grant(self):
        return Grant(owner=f"marker-{self.me}", version=self.version) if self.version else None

    def holds(self):
        return self.version is not None

    def try_lock(self):
        return self.attempt(None)

    def attempt(self, until):
        if self.version:
            raise LockError("already locked here")
        mine = f"marker-{self.me} {self.rt.token_bytes(6).hex()}".encode()
        made = self.store.put_if_absent(self.key, mine)
        if made.outcome is Outcome.APPLIED:
            self.version = made.version
            return True
        if until is not None and self.rt.monotonic_ns() >= until:
            raise OutcomeUnknown("no time is left to look")
        # Whatever the answer was: only the object itself tells who has the lock.
        seen = self.store.read(self.key)
        if seen.outcome is Outcome.APPLIED and seen.body == mine:
            self.version = seen.version
            return True
        if seen.outcome is Outcome.APPLIED and seen.body and not seen.body.startswith(b"marker-" + self.me.encode()):
            return False
        raise OutcomeUnknown("nobody was seen to have it")

    def lock(self, timeout_s):
        until = self.rt.monotonic_ns() + int(timeout_s * 1e9)
        while True:
            try:
                if self.attempt(until):
                    return True
                unknown = None
            except OutcomeUnknown as error:
                unknown = error
            left = until - self.rt.monotonic_ns()
            if left <= 0:
                if unknown:
                    raise unknown
                return False
            self.rt.sleep(min(left, self.pause_ns))

    def unlock(self):
        if not self.version:
            raise LockNotHeld("not locked here")
        version, self.version = self.version, None
        self.release(version)

    def release(self, version):
        for _ in range(4):
            if self.store.delete(self.key, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.key)
            if seen.outcome is Outcome.APPLIED and seen.version != version:
                return
            self.rt.sleep(self.pause_ns // 4)
        raise ReleaseFailed("the marker is still there")

    def close(self):
        if self.version:
            with contextlib.suppress(ReleaseFailed):
                self.unlock()


class SaysNothingOfItself(MarkerLock):
    """The same; whoever runs it says that it has no lease."""

    claims = ()
