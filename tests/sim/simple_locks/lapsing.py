"""A lapsed record stays, and the next one takes it over by compare-and-set. The holder's process is let in again."""

import json

from lockref import Grant, LockLost, LockNotHeld, Outcome, OutcomeUnknown, RecordView, ReleaseFailed
from lockref.errors import CorruptRecord

OK, LOST_RACE = Outcome.APPLIED, Outcome.PRECONDITION_FAILED


def record_in(body):
    try:
        r = json.loads(body)
        return RecordView(owner=r["name"], valid_until_ns=r["end"], nonce=r["n"])
    except (ValueError, KeyError, TypeError):
        return None


class LapsingLock:
    is_reentrant = True

    def __init__(self, context):
        self.runtime, self.conf = context.runtime, context.settings
        self.tick = context.settings.poll_interval_ns
        self.store = context.open_store(self.tick)
        self.name = context.runtime.token_bytes(8).hex()
        self.depth, self.version, self.end = 0, None, (0, 0)

    decode_record = staticmethod(record_in)
    grant = property(lambda self: Grant(owner=self.name, version=self.version) if self.depth else None)

    def holds(self):
        return self.depth > 0 and self.runtime.monotonic_ns() < self.end[0] and self.runtime.wall_ns() < self.end[1]

    def parse(self, body):
        view = record_in(body)
        if view is None:
            raise CorruptRecord("the lock object holds no record")
        return view

    def try_lock(self):
        if self.holds():
            self.depth += 1
            return True
        found = self.store.read(self.conf.key)
        if found.outcome is not OK:
            raise OutcomeUnknown(found.reason)
        if found.body is not None:
            record = self.parse(found.body)
            if record.owner != self.name and self.runtime.wall_ns() <= record.valid_until_ns + self.conf.drift_bound_ns:
                return False
        mono, wall = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        end = wall + self.conf.validity_ns
        mine = json.dumps({"name": self.name, "end": end, "n": self.runtime.token_bytes(8).hex()}).encode()
        if found.version is None:
            reply = self.store.put_if_absent(self.conf.key, mine)
        else:
            reply = self.store.put_if_version(self.conf.key, mine, found.version)
        version = reply.version
        if version is None:
            again = self.store.read(self.conf.key)
            if again.outcome is not OK or again.version == found.version or again.body is None:
                raise OutcomeUnknown("the write had no answer")
            if again.body != mine:
                return self.parse(again.body).owner == self.name and self.unknown()
            version = again.version
        lasts = self.conf.validity_ns * 95 // 100
        self.depth, self.version, self.end = 1, version, (mono + lasts, wall + lasts)
        return True

    def unknown(self):
        raise OutcomeUnknown("an earlier write of this process landed meanwhile")

    def lock(self, timeout_s):
        deadline = self.runtime.monotonic_ns() + int(timeout_s * 10**9)
        while True:
            last = None
            try:
                if self.try_lock():
                    return True
            except OutcomeUnknown as error:
                last = error
            if self.runtime.monotonic_ns() >= deadline:
                if last is not None:
                    raise last
                return False
            self.runtime.sleep(min(self.tick // 2, deadline - self.runtime.monotonic_ns()) or 1)

    def unlock(self):
        if self.depth == 0:
            raise LockNotHeld("unlock without lock")
        if not self.holds():
            self.depth = 0
            raise LockLost("the lease is over; its record stays until somebody takes it over")
        self.depth -= 1
        if self.depth == 0:
            self.release(self.version)

    def release(self, version):
        for _ in range(3):
            if self.store.delete(self.conf.key, version).outcome is OK:
                return
            seen = self.store.read(self.conf.key)
            if seen.outcome is OK and seen.version != version:
                return
        raise ReleaseFailed("the record is still there, and will lapse")

    def close(self):
        self.depth = min(self.depth, 1)
        try:
            if self.depth:
                self.unlock()
        except (LockLost, ReleaseFailed):
            pass


class CrashesOnAnEmptyRecord(LapsingLock):
    """It takes for granted that the object holds a record: a stranger's bytes end it with an error of Python."""

    def parse(self, body):
        record = json.loads(body or b"{}")
        return RecordView(owner=record["name"], valid_until_ns=record["end"], nonce=record["n"])


class OpaqueLock(LapsingLock):
    """Nobody but the lock itself can read what it writes."""

    is_reentrant = False
    decode_record = staticmethod(lambda _body: None)
