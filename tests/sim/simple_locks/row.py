"""A row in a table, as people do with DynamoDB: a condition expression on each write, and a number as the version."""

import contextlib

from lockref import Grant, LockError, LockLost, LockNotHeld, Outcome, OutcomeUnknown
from lockref.dynamodb.table import KEY, TABLE, VERSION, absent, equals, number, text, value_in
from lockref.errors import CorruptRecord, ReleaseFailed
from lockref.provider import LockView


class RowLock:
    stands_on = TABLE.name

    def __init__(self, context):
        self.rt, self.s = context.runtime, context.settings
        self.table = context.open(TABLE, timeout_ns=self.s.validity_ns // 10)
        self.me = self.rt.token_bytes(8).hex()
        self.rvn = None
        self.until = self.wall_until = 0

    @staticmethod
    def decode_state(_key, body):
        import json

        try:
            item = json.loads(body)
            owner, until = value_in(item, "holder", "S"), value_in(item, "until", "N")
            return [LockView(owner, valid_until_ns=int(until), nonce=value_in(item, VERSION, "S"))]
        except (ValueError, TypeError, AttributeError):
            return []

    @property
    def grant(self):
        return Grant(owner=self.me, version=self.rvn) if self.rvn else None

    def holds(self):
        return self.rvn is not None and self.rt.monotonic_ns() < self.until and self.rt.wall_ns() < self.wall_until

    def try_lock(self):
        if self.holds():
            raise LockError("held here")
        row = self.table.get(self.s.key)
        if row.outcome is not Outcome.APPLIED:
            raise OutcomeUnknown("no answer")
        if (found := row.item()) is not None:
            holder, until = value_in(found, "holder", "S"), value_in(found, "until", "N")
            if holder is None or until is None:
                raise CorruptRecord("the row has no holder")
            if holder != self.me and self.rt.wall_ns() <= int(until) + self.s.drift_bound_ns:
                return False
        now, wall, rvn = self.rt.monotonic_ns(), self.rt.wall_ns(), self.rt.token_bytes(8).hex()
        item = {"holder": text(self.me), "until": number(wall + self.s.validity_ns), VERSION: text(rvn)}
        put = self.table.put(self.s.key, item, *self.condition(row))
        if put.outcome is not Outcome.APPLIED:
            seen = self.table.get(self.s.key)
            if seen.outcome is not Outcome.APPLIED or seen.version != rvn:
                raise OutcomeUnknown("the write may still land")
        self.rvn, usable = rvn, self.s.validity_ns - 600_000_000
        self.until, self.wall_until = now + usable, wall + usable
        if not self.holds():
            self.rvn = None
            raise OutcomeUnknown("the answer came too late")
        return True

    def condition(self, row):
        return (absent(KEY),) if row.item() is None else (equals(VERSION, text(row.version)),)

    def lock(self, timeout_s):
        end = self.rt.monotonic_ns() + int(timeout_s * 1e9)
        while True:
            try:
                if self.try_lock():
                    return True
            except OutcomeUnknown:
                if self.rt.monotonic_ns() >= end:
                    raise
            if self.rt.monotonic_ns() >= end:
                return False
            self.rt.sleep(min(self.s.poll_interval_ns, end - self.rt.monotonic_ns()) or 1)

    def unlock(self):
        if self.rvn is None:
            raise LockNotHeld("not locked")
        was_held, rvn, self.rvn = self.holds(), self.rvn, None
        for _ in range(3):
            gone = self.table.delete(self.s.key, equals(VERSION, text(rvn)))
            if gone.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                break
        else:
            raise ReleaseFailed("the row is still there")
        if not was_held:
            raise LockLost("the lease had ended")

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
