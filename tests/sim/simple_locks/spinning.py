"""One loop for everything, which asks again at once: no back-off, and no thought of fairness."""

import contextlib

from lockref import Grant, LockError, Outcome, OutcomeUnknown, RecordView

MS = 1_000_000


class SpinningLock:
    def __init__(self, context):
        self.r, self.s = context.runtime, context.settings
        self.store = context.open_store(self.s.validity_ns // 20)
        self.who = self.r.token_bytes(5).hex()
        self.beta = self.s.drift_bound_ns
        self.have = None

    @staticmethod
    def decode_record(body):
        parts = body.split(b"|")
        if len(parts) != 3 or not parts[1].isdigit():
            return None
        return RecordView(owner=parts[0].decode("ascii", "replace"), valid_until_ns=int(parts[1]), nonce=str(parts[2]))

    @property
    def grant(self):
        return Grant(owner=self.who, version=self.have[0]) if self.have else None

    def holds(self):
        return bool(self.have) and self.r.monotonic_ns() < self.have[1] and self.r.wall_ns() < self.have[2]

    def try_lock(self):
        return self.lock(0)

    def lock(self, timeout_s):
        if self.have and self.holds():
            raise LockError("twice")
        begin, sent, asked, stamped = self.r.monotonic_ns(), b"", 0, 0
        limit = max(int(timeout_s * 1e9), self.s.validity_ns // 20)
        while True:
            seen = self.store.read(self.s.key)
            now, wall = self.r.monotonic_ns(), self.r.wall_ns()
            known = None
            if seen.outcome is Outcome.APPLIED and seen.body is not None:
                record = self.decode_record(seen.body)
                if sent and seen.body == sent:
                    self.have = (
                        seen.version,
                        asked + self.s.validity_ns * 9 // 10,
                        stamped + self.s.validity_ns * 9 // 10,
                    )
                    if self.holds():
                        return True
                    self.have = None
                elif record is None or (
                    record.owner != self.who and wall <= record.valid_until_ns + self.s.drift_bound_ns
                ):
                    known = False if record else None
                    seen = None
            if seen is not None and seen.outcome is Outcome.APPLIED and now - begin <= limit:
                asked, stamped = now, wall
                sent = f"{self.who}|{wall + self.s.validity_ns}|{self.r.token_bytes(5).hex()}".encode()
                if seen.body is None:
                    made = self.store.put_if_absent(self.s.key, sent)
                else:
                    made = self.store.put_if_version(self.s.key, sent, seen.version)
                if made.outcome is not Outcome.REJECTED and self.r.monotonic_ns() - begin <= limit:
                    continue
            if self.r.monotonic_ns() - begin >= timeout_s * 1e9:
                if known is None:
                    raise OutcomeUnknown("not known to be taken")
                return False
            self.r.sleep(100 * MS)

    def unlock(self):
        if self.have is None:
            raise LockError("not locked")
        version, self.have = self.have[0], None
        while self.store.delete(self.s.key, version).outcome not in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
            if self.r.random.random() < 0.3:
                raise LockError("not given back")

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
