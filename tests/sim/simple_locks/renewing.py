"""A heartbeat in a task renews the lease every third of it; waiters count by their own clocks, and compare none."""

import contextlib
import json

from lockref import Grant, LockError, LockNotHeld, Outcome, OutcomeUnknown, ReleaseFailed
from lockref.errors import CorruptRecord, LockLost
from lockref.provider import LockView


class HeartbeatLock:
    def __init__(self, context):
        self.rt, self.s = context.runtime, context.settings
        self.store = context.open_store(self.s.validity_ns // 10)
        self.id = self.rt.token_bytes(8).hex()
        self.version = self.stop = None
        self.deadline = self.wall_deadline = 0
        self.watched = (None, 0)
        self.lock_state = self.rt.mutex()

    @staticmethod
    def decode_state(_key, body):
        try:
            r = json.loads(body)
            return [LockView(r["id"], duration_ns=r["for"], nonce=r["beat"])]
        except (ValueError, KeyError, TypeError):
            return []

    @property
    def grant(self):
        return Grant(owner=self.id, version=self.version) if self.version else None

    def holds(self):
        return (
            self.version is not None
            and self.rt.monotonic_ns() < self.deadline
            and self.rt.wall_ns() < self.wall_deadline
        )

    def body(self):
        return json.dumps({"id": self.id, "for": self.s.validity_ns, "beat": self.rt.token_bytes(8).hex()}).encode()

    def is_free(self, seen):
        if seen.body is None:
            return True
        if not self.decode_state("", seen.body):
            raise CorruptRecord(repr(seen.body))
        if self.watched[0] != seen.version:
            self.watched = (seen.version, self.rt.monotonic_ns())
        # A hundredth more, for a clock of ours that runs fast.
        return self.rt.monotonic_ns() - self.watched[1] > self.s.validity_ns * 101 // 100

    def try_lock(self):
        return self.lock(0)

    def lock(self, timeout_s):
        if self.holds():
            raise LockError("locked here")
        end = self.rt.monotonic_ns() + int(timeout_s * 10**9)
        while True:
            answer = self.attempt()
            left = end - self.rt.monotonic_ns()
            if answer:
                return True
            if left <= 0:
                if answer is None:
                    raise OutcomeUnknown("it may have been free")
                return False
            self.rt.sleep(min(left, self.s.poll_interval_ns))

    def attempt(self):
        began = self.rt.monotonic_ns()
        seen = self.store.read(self.s.key)
        if seen.outcome is not Outcome.APPLIED:
            return None
        if not self.is_free(seen):
            return False if self.is_young(seen, began) else None
        at, wall, body = self.rt.monotonic_ns(), self.rt.wall_ns(), self.body()
        if seen.body is None:
            reply = self.store.put_if_absent(self.s.key, body)
        else:
            reply = self.store.put_if_version(self.s.key, body, seen.version)
        version = reply.version or self.landed(body)
        if version is None:
            return None
        self.version = version
        self.extend(at, wall)
        if not self.holds():
            self.version = None
            return None
        self.stop = self.rt.event()
        self.rt.spawn(lambda stop=self.stop: self.beat(stop), name="heartbeat")
        return True

    def is_young(self, seen, began):
        """Whoever sees a record for the first time cannot know whether it has lapsed."""
        return self.watched[1] > began or json.loads(seen.body)["id"] != self.id

    def landed(self, body):
        seen = self.store.read(self.s.key)
        return seen.version if seen.outcome is Outcome.APPLIED and seen.body == body else None

    def extend(self, at, wall):
        usable = self.s.validity_ns * 9 // 10
        self.deadline, self.wall_deadline = at + usable, wall + usable

    def beat(self, stop):
        while not stop.wait(self.s.renew_interval_ns):
            with self.lock_state:
                if stop.is_set() or not self.holds():
                    return
                at, wall, body = self.rt.monotonic_ns(), self.rt.wall_ns(), self.body()
                reply = self.store.put_if_version(self.s.key, body, self.version)
                version = reply.version or self.landed(body)
                if version is not None:
                    self.version = version
                    self.extend(at, wall)

    def unlock(self):
        if self.version is None:
            raise LockNotHeld("not locked")
        self.stop.set()
        with self.lock_state:
            was_held, version, self.version = self.holds(), self.version, None
            for _ in range(3):
                if self.store.delete(self.s.key, version).outcome is Outcome.APPLIED:
                    break
                seen = self.store.read(self.s.key)
                if seen.outcome is Outcome.APPLIED and seen.version != version:
                    break
            else:
                raise ReleaseFailed("still there")
        if not was_held:
            raise LockLost("too late")

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
