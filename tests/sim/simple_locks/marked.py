"""The record is never deleted: an unlock writes `free` into it. A token counts the grants."""

import contextlib
from dataclasses import dataclass

from lockref import Grant, LockError, LockLost, LockNotHeld, LockTimeout, Outcome, OutcomeUnknown, RecordView
from lockref.errors import CorruptRecord, ReleaseFailed


@dataclass(frozen=True)
class Line:
    """`token owner until nonce`, separated by spaces; the owner of a free one is `free`."""

    token: int
    owner: str
    until: int
    nonce: str

    @classmethod
    def parse(cls, body: bytes) -> "Line | None":
        try:
            token, owner, until, nonce = body.decode("ascii").split(" ")
            return cls(int(token), owner, int(until), nonce)
        except ValueError:
            return None

    def dump(self) -> bytes:
        return f"{self.token} {self.owner} {self.until} {self.nonce}".encode()


class MarkedLock:
    def __init__(self, context):
        self.context = context
        self.s = context.settings
        self.timeout = self.s.validity_ns // 10
        self.store = context.open_store(self.timeout)
        self.owner = context.runtime.token_bytes(8).hex()
        self.held = None
        self.good_until = 0
        self.wall_until = 0

    @staticmethod
    def decode_record(body):
        line = Line.parse(body)
        if line is None:
            return None
        free = line.owner == "free"
        owner = line.nonce.split(".")[0] if free else line.owner
        return RecordView(owner=owner, token=line.token, valid_until_ns=line.until, is_released=free, nonce=line.nonce)

    @property
    def grant(self):
        return self.held and Grant(owner=self.owner, token=self.held[1].token, version=self.held[0])

    def holds(self):
        clock = self.context.runtime
        return bool(self.held) and clock.monotonic_ns() < self.good_until and clock.wall_ns() < self.wall_until

    def try_lock(self):
        try:
            return self.lock(0)
        except LockTimeout:
            return False

    def lock(self, timeout_s):
        if self.holds():
            raise LockError("not re-entrant")
        clock = self.context.runtime
        until = clock.monotonic_ns() + max(int(timeout_s * 1e9), 3 * self.timeout)
        while True:
            answer = self.once(until)
            if answer or timeout_s == 0 or clock.monotonic_ns() + self.s.poll_interval_ns > until:
                break
            clock.sleep(self.s.poll_interval_ns)
        if answer is None:
            raise OutcomeUnknown("the store did not tell")
        return answer

    def once(self, until):
        clock, key = self.context.runtime, self.s.key
        seen = self.store.read(key)
        if seen.outcome is not Outcome.APPLIED:
            return None
        old = Line(0, "free", 0, "") if seen.body is None else Line.parse(seen.body)
        if old is None:
            raise CorruptRecord(f"{seen.body!r} is no line of this lock")
        busy = old.owner != "free" and clock.wall_ns() <= old.until + self.s.drift_bound_ns
        if busy and old.owner != self.owner:
            return False
        if clock.monotonic_ns() > until:
            return None
        mono, wall = clock.monotonic_ns(), clock.wall_ns()
        new = Line(self.next_token(old), self.owner, wall + self.s.validity_ns, self.nonce())
        if seen.body is None:
            answer = self.store.put_if_absent(key, new.dump())
        else:
            answer = self.store.put_if_version(key, new.dump(), seen.version)
        version = answer.version
        if answer.outcome is not Outcome.APPLIED:
            version = self.found(new)
        if version is None:
            return None
        self.held = (version, new)
        self.good_until = mono + self.s.validity_ns - 500_000_000
        self.wall_until = wall + self.s.validity_ns - 500_000_000
        return True if self.holds() else None

    def next_token(self, old: Line) -> int:
        return old.token + 1

    def found(self, line):
        seen = self.store.read(self.s.key)
        return seen.version if seen.outcome is Outcome.APPLIED and seen.body == line.dump() else None

    def nonce(self):
        return f"{self.owner}.{self.context.runtime.token_bytes(6).hex()}"

    def unlock(self):
        if self.held is None:
            raise LockNotHeld("nothing to unlock")
        was_good, (version, line), self.held = self.holds(), self.held, None
        free = Line(line.token, "free", line.until, self.nonce())
        for _ in range(3):
            answer = self.store.put_if_version(self.s.key, free.dump(), version)
            if answer.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                break
        else:
            raise ReleaseFailed("three answers were lost")
        if not was_good:
            raise LockLost("too late")

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
