"""An ephemeral znode is the lock: whose session created it has it, and it goes with the session."""

import contextlib

from lockref import Grant, LockError, LockNotHeld, Outcome, OutcomeUnknown, ReleaseFailed
from lockref.coordination.session import COORDINATION
from lockref.errors import BackendUnavailable


class EphemeralLock:
    stands_on = COORDINATION.name
    protocol = "ephemeral"
    PATH = "/lock"

    def __init__(self, context):
        self.rt, self.s = context.runtime, context.settings
        self.session = context.open(COORDINATION, timeout_ns=self.s.validity_ns // 10)
        self.me = self.rt.token_bytes(8)
        self.of = None
        self.leaving = None

    @property
    def grant(self):
        return Grant(owner=self.me.hex()) if self.of is not None else None

    def holds(self):
        is_same = self.of is not None and self.of == self.session.id
        return is_same and self.session.is_safe(rate_bound_ppm=1000, margin_ns=500_000_000)

    def connected(self, is_wanted):
        if self.leaving is not None and self.leaving.is_alive():
            raise BackendUnavailable("the last session is being ended")
        if not self.session.is_safe(rate_bound_ppm=1000, margin_ns=500_000_000):
            self.session.start(self.rt, timeout_ns=self.s.validity_ns * 8 // 10, is_wanted=is_wanted)

    def try_lock(self):
        return self.attempt(self.rt.monotonic_ns() + self.s.validity_ns // 10)

    def attempt(self, end):
        if self.holds():
            raise LockError("held here")
        self.of = None
        try:
            self.connected(lambda: self.rt.monotonic_ns() < end)
        except BackendUnavailable as error:
            raise OutcomeUnknown(str(error)) from error
        if self.rt.monotonic_ns() > end:
            raise OutcomeUnknown("no time is left to ask")
        session = self.session.id
        made = self.session.create(self.PATH, self.me, is_ephemeral=True)
        if made.outcome is not Outcome.APPLIED and not self.is_ours(end, session):
            return False
        self.of = session
        return True

    def is_ours(self, end, session):
        """After an answer that granted nothing. What may have been created all the same ends with the session."""
        if self.rt.monotonic_ns() <= end:
            seen = self.session.get(self.PATH)
            if seen.outcome is Outcome.APPLIED and seen.body is not None:
                if seen.body == self.me and seen.version.owner == session:
                    return True
                if seen.body != self.me:
                    return False
        # In a task of its own: the call has no time for one request more.
        self.leaving = self.rt.spawn(self.session.end, name="leaving")
        raise OutcomeUnknown("nobody was seen to have it")

    def lock(self, timeout_s):
        # A little less, for a clock of ours that runs slow.
        end = self.rt.monotonic_ns() + int(timeout_s * 0.98e9)
        while True:
            try:
                if self.attempt(end):
                    return True
            except OutcomeUnknown:
                if self.rt.monotonic_ns() >= end:
                    raise
            if self.rt.monotonic_ns() >= end:
                return False
            self.rt.sleep(self.s.poll_interval_ns // 2)

    def unlock(self):
        if self.of is None:
            raise LockNotHeld("not locked")
        self.of = None
        for _ in range(3):
            if self.gone():
                return
        raise ReleaseFailed("it goes with the session")

    def gone(self):
        """A delete names no creator: the znode is looked at first. Until this session ends nobody else removes it."""
        seen = self.session.get(self.PATH)
        if seen.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED) and seen.body != self.me:
            return True
        return seen.outcome is Outcome.APPLIED and self.session.delete(self.PATH).outcome is Outcome.APPLIED

    def close(self):
        with contextlib.suppress(LockError):
            self.unlock()
        self.session.close()
