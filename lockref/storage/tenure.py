"""A grant in the holder's hands: until when may it act, and how does it learn of the end?

The holder's own deadline decides (H1, H2): L − M after its last landed write
was *sent*, on two clocks, whichever says "stop" first. No answer of the store
prolongs that except a renewal that landed in time, and once the guard has said
no it stays no. Losing a grant is signalled once, and never after its unlock.
"""

from __future__ import annotations

from typing import Protocol

from lockref.errors import LockLost
from lockref.provider import Grant
from lockref.runtime import Event, MonoNs, Task
from lockref.storage import lease
from lockref.storage.audit import AuditState
from lockref.storage.exchange import Exchange, Wiring
from lockref.storage.lease import Attempt, Deadline, Lease, Moment


class Keeper(Protocol):
    """The lock as its tenure's heartbeat sees it."""

    def _remaining_ns(self, tenure: Tenure) -> int: ...

    def _renew(self, tenure: Tenure) -> MonoNs | None: ...

    def _lose(self, tenure: Tenure, reason: str) -> None: ...


class Tenure:
    """One grant, from its write to its unlock. Replaced, never reused: it is its own epoch (H11, H12)."""

    def __init__(self, lock: Keeper, task: Task, first: Lease, loss: Event, stopped: Event) -> None:
        self._lock = lock
        self.task = task
        self.count = 1
        self.lease = first
        self.granted_at = first.attempt.sent
        # Renewals that were sent and whose fate is open.
        self.pending: list[Attempt] = []
        self.failures = 0
        # Once the guard has said no, it stays no: a latch, set without a lock (S3).
        self.has_lapsed = False
        self.loss_reason: str | None = None
        self.is_superseded = False
        # The caller has been told; before that, a loss is nobody's business.
        self.is_announced = False
        self.loss = loss
        self.stopped = stopped

    @property
    def token(self) -> int | None:
        return self.lease.attempt.record.fence

    def writes(self) -> list[Attempt]:
        """Every write of this grant that may stand in the store: the last to land, and those whose fate is open."""
        return [self.lease.attempt, *self.pending]

    def remaining_ns(self) -> int:
        return self._lock._remaining_ns(self)  # noqa: SLF001  # one object in two classes

    def renew(self) -> MonoNs | None:
        return self._lock._renew(self)  # noqa: SLF001

    def lose(self, reason: str) -> None:
        self._lock._lose(self, reason)  # noqa: SLF001


class Holder(Exchange):
    """Keeps the present tenure, if any, and fences itself off in time."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._audit = wiring.audit
        # Guards the tenure, its user and its state for a few instructions;
        # never held during I/O or waiting (H11).
        self._mutex = self._runtime.mutex()
        self._tenure: Tenure | None = None
        self._last_loss = self._runtime.event()
        # Writes of ours that may stand in the store although nobody believes in them (H6). A write is entered
        # before it is sent, and an ended grant before it is released, so that no exception can lose one.
        self._strays: list[Attempt] = []

    def _deadline(self, sent: Moment) -> Deadline:
        """H1: until when a write sent then may be believed."""
        return lease.deadline_after(sent, self.terms)

    def _is_in_force(self, tenure: Tenure) -> bool:
        """H1: evaluated at use. A no is latched, so that no late renewal turns it into a yes."""
        if tenure.loss_reason is not None or self._runtime.process_id() != self._process_id:
            return False
        if tenure.lease.deadline.has_passed(self._now()):
            tenure.has_lapsed = True
        return not tenure.has_lapsed

    def _remaining_ns(self, tenure: Tenure) -> int:
        return tenure.lease.deadline.remaining_ns(self._now()) if self._is_in_force(tenure) else 0

    def _lose(self, tenure: Tenure, reason: str) -> None:
        """H12: signal the loss of this grant, once, and never after its unlock."""
        with self._mutex:
            if self._tenure is not tenure or tenure.loss_reason is not None:
                return
            tenure.loss_reason = reason
            tenure.stopped.set()
            if not tenure.is_announced:
                return
            tenure.loss.set()
        self._notices.lost(self._grant_of(tenure), self._loss_error(tenure))

    def _grant_of(self, tenure: Tenure) -> Grant:
        current = tenure.lease
        return Grant(
            owner=self.owner, token=tenure.token, version=current.version, deadline_ns=current.deadline.mono_ns
        )

    def _loss_error(self, tenure: Tenure) -> LockLost:
        reason = tenure.loss_reason or "the lease ended before it could be renewed"
        return LockLost(
            f"holding {self._key} with token {tenure.token}: lost, {reason}; stop protected work now",
            token=tenure.token,
            reason=reason,
        )

    def _note(self, state: AuditState, tenure: Tenure, at: Moment) -> None:
        """H25: one line of audit; hands over and returns."""
        if self._audit is not None:
            self._audit.note(state, owner=self.owner, began_ns=tenure.granted_at.wall_ns, at_ns=at.wall_ns)
