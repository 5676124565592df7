"""A grant in its holder's hands. The holder's own deadline decides, whatever the store says (H1, H2).

A tenure is replaced, never reused: whoever comes late with an old one changes nothing (H11, H12).
"""

from __future__ import annotations

from typing import Generic

from lockref.errors import LockLost
from lockref.locks import messages
from lockref.locks.notices import Notices
from lockref.locks.values import Attempt, Lease, Moment, R
from lockref.provider import Grant
from lockref.runtime import Runtime


class Tenure(Generic[R]):
    """One grant of the task that makes it. loss: set when it is lost; stopped: when it needs its heartbeat no more."""

    def __init__(self, first: Lease[R], *, key: str, runtime: Runtime, notices: Notices) -> None:
        self.key, self.runtime, self.notices = key, runtime, notices
        self.task = runtime.current_task()
        self.lease = first
        self.granted_at = first.attempt.sent
        self.pending: list[Attempt[R]] = []  # Renewals that were sent and whose fate is open.
        self.loss = runtime.event()
        self.stopped = runtime.event()
        self.has_lapsed = False  # Once the guard has said no, it stays no: a latch, set without a mutex (S3).
        self.loss_reason: str | None = None
        self.is_superseded = False
        self.is_announced = False  # The caller has been told of the grant. Before that, nobody is told of a loss.
        self.has_ended = False  # Given back or withdrawn: nobody believes in it, and nobody is told of a loss.
        self._mutex = runtime.mutex()  # Held for a few instructions, never during I/O or waiting (H11).

    def is_in_force(self) -> bool:
        """H1, H2: evaluated at use. A no is latched, so that no late renewal turns it into a yes."""
        runtime = self.runtime
        if self.has_ended or self.loss_reason is not None:
            return False
        deadline = self.lease.attempt.deadline
        if runtime.monotonic_ns() >= deadline.mono_ns or runtime.wall_ns() >= deadline.wall_ns:
            self.has_lapsed = True
        return not self.has_lapsed

    def remaining_ns(self) -> int:
        """The time until the holder must have stopped; 0 from then on (H2)."""
        if not self.is_in_force():
            return 0
        return self.lease.attempt.deadline.remaining_ns(Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns()))

    def grant(self) -> Grant:
        """The grant as its holder is shown it."""
        with self._mutex:
            lease = self.lease
        record, ends_ns = lease.attempt.record, lease.attempt.deadline.mono_ns
        return Grant(record.owner or "", record.token, lease.version, ends_ns)

    def writes(self) -> list[Attempt[R]]:
        """Every write of this grant that may stand in the store: the last to land, and those whose fate is open."""
        with self._mutex:  # A renewal that lands meanwhile moves from one to the other.
            return [self.lease.attempt, *self.pending]

    def announce(self) -> bool:
        """H3: the last thing before the caller is told yes. False: too late to be believed (E9, E10)."""
        with self._mutex:
            self.is_announced = self.is_in_force()
            return self.is_announced

    def send(self, renewal: Attempt[R]) -> bool:
        """H11: enter a renewal before it leaves. False if the grant is over: a late tick sends nothing."""
        with self._mutex:
            if not self.is_in_force():
                return False
            self.pending.append(renewal)
            return True

    def extend(self, extended: Lease[R]) -> bool:
        """A renewal landed. It counts only if the deadline before it had not passed: no revival (H4)."""
        with self._mutex:
            if not self.is_in_force():
                return False
            self.lease = extended
            self.pending.clear()
            return True

    def lose(self, reason: str) -> None:
        """H12: signal the loss of this grant, once, and never after its unlock."""
        with self._mutex:
            if self.has_ended or self.loss_reason is not None:
                return
            self.loss_reason = reason
            self.stopped.set()
            if not self.is_announced:
                return
            self.loss.set()
        self.notices.lost(self.grant(), self.loss_error())

    def supersede(self, reason: str) -> None:
        """H8: the store shows that the grant has ended, so there is nothing to give back."""
        self.is_superseded = True
        self.lose(reason)

    def end(self) -> None:
        """H7: given back or withdrawn. From here on nobody believes, whatever becomes of the release."""
        with self._mutex:
            self.has_ended = True
        self.stopped.set()

    def loss_error(self, found: str = "") -> LockLost:
        """The error that tells the holder of its loss.

        found: the reason that a release found, if no renewal did before.
        """
        reason = self.loss_reason or found or "the lease ended before it could be renewed"
        return messages.lost(self.key, token=self.lease.attempt.record.token, reason=reason)
