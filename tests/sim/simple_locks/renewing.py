"""A heartbeat in a task of its own renews the lease, and a grant ends at once when its record is gone."""

import contextlib
import json

from lockref import Grant, LockError, LockNotHeld, Outcome, OutcomeUnknown, RecordView, ReleaseFailed
from lockref.errors import CorruptRecord, LockLost


class HeartbeatLock:
    def __init__(self, context):
        self.rt, self.s = context.runtime, context.settings
        self.store = context.open_store(self.s.validity_ns // 10)
        self.id = self.rt.token_bytes(8).hex()
        self.version = self.stop = None
        self.deadline = self.wall_deadline = 0
        self.sent = (0, 0)
        self.lock_state = self.rt.mutex()

    @staticmethod
    def decode_record(body):
        try:
            r = json.loads(body)
            return RecordView(owner=r["id"], valid_until_ns=r["until"], nonce=r["beat"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def grant(self):
        return Grant(owner=self.id, version=self.version) if self.version else None

    def holds(self):
        in_time = self.rt.monotonic_ns() < self.deadline and self.rt.wall_ns() < self.wall_deadline
        return self.version is not None and in_time

    def is_free(self, seen):
        if seen.body is None:
            return True
        record = self.decode_record(seen.body)
        if record is None:
            raise CorruptRecord(repr(seen.body))
        return record.owner == self.id or self.rt.wall_ns() > record.valid_until_ns + self.s.drift_bound_ns

    def try_lock(self):
        return self.lock(0)

    def lock(self, timeout_s):
        if self.holds():
            raise LockError("locked here")
        end = self.rt.monotonic_ns() + max(int(timeout_s * 10**9), self.s.validity_ns // 5)
        while True:
            answer = self.attempt(end)
            left = end - self.rt.monotonic_ns()
            if answer:
                return True
            if left <= 0 or timeout_s == 0:
                if answer is None:
                    raise OutcomeUnknown("it may have been free")
                return False
            self.rt.sleep(min(left, self.s.poll_interval_ns))

    def attempt(self, end):
        seen = self.store.read(self.s.key)
        if seen.outcome is not Outcome.APPLIED:
            return None
        if not self.is_free(seen):
            return False
        if self.rt.monotonic_ns() > end:
            return None
        version = self.written(seen.version)
        if version is None or not self.holds_from(version):
            return None
        self.stop = self.rt.event()
        self.rt.spawn(lambda stop=self.stop: self.beat(stop), name="heartbeat")
        return True

    def written(self, version):
        """Write the record on this version. The version that it has now, or None where that is not known."""
        mono, wall = self.rt.monotonic_ns(), self.rt.wall_ns()
        if self.holds():
            # A wall clock that was set back must not take back what the record has promised.
            wall = max(wall, self.sent[1] + mono - self.sent[0])
        self.sent = (mono, wall)
        record = {"id": self.id, "until": self.sent[1] + self.s.validity_ns, "beat": self.rt.token_bytes(8).hex()}
        body = json.dumps(record).encode()
        if version is None:
            reply = self.store.put_if_absent(self.s.key, body)
        else:
            reply = self.store.put_if_version(self.s.key, body, version)
        if reply.version is not None:
            return reply.version
        seen = self.store.read(self.s.key)
        return seen.version if seen.outcome is Outcome.APPLIED and seen.body == body else None

    def holds_from(self, version):
        usable = self.s.validity_ns * 9 // 10
        self.version, self.deadline, self.wall_deadline = version, self.sent[0] + usable, self.sent[1] + usable
        if not self.holds():
            self.version = None
        return self.version is not None

    def beat(self, stop):
        while not stop.wait(self.s.renew_interval_ns):
            with self.lock_state:
                if stop.is_set() or not self.holds():
                    return
                version = self.written(self.version)
                if version is not None:
                    self.holds_from(version)
                elif self.is_lost(self.version):
                    self.version = None
                    return

    def is_lost(self, version):
        """Somebody else wrote or deleted it. An earlier write of our own that has landed meanwhile is no loss."""
        seen = self.store.read(self.s.key)
        if seen.outcome is not Outcome.APPLIED:
            return False
        record = None if seen.body is None else self.decode_record(seen.body)
        if record is None or record.owner != self.id:
            return seen.version != version
        self.version = seen.version
        return False

    def unlock(self):
        if self.stop is None:
            raise LockNotHeld("not locked")
        self.stop.set()
        with self.lock_state:
            was_held, version, self.version, self.stop = self.holds(), self.version, None, None
            if version is not None:
                self.release(version)
        if not was_held:
            raise LockLost("too late")

    def release(self, version):
        for _ in range(3):
            if self.store.delete(self.s.key, version).outcome is Outcome.APPLIED:
                return
            seen = self.store.read(self.s.key)
            if seen.outcome is Outcome.APPLIED:
                record = None if seen.body is None else self.decode_record(seen.body)
                if record is None or record.owner != self.id:
                    return
                # A renewal whose answer was lost has landed: that is what is to be given back.
                version = seen.version
        raise ReleaseFailed("still there")

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
