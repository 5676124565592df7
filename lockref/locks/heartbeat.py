"""Keeping a grant: one task watches the deadline, another renews, for a renewal may hang when the lease ends (H4, H12).

Nothing here waits for anything but time and the store: an unlock sets `Tenure.stopped` and goes on (H11, D9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic

from lockref.locks import messages
from lockref.locks.cell import Cell
from lockref.locks.tenure import Tenure
from lockref.locks.values import Lease, LeaseTerms, Purpose, R, Sight, Step, Writer
from lockref.runtime import MonoNs


@dataclass(eq=False)
class Heartbeat(Generic[R]):
    """Keeps one grant alive and says when it ended. Used once."""

    tenure: Tenure[R]
    _: KW_ONLY
    cell: Cell[R]
    terms: LeaseTerms
    writer: Writer[R]
    _failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.runtime = self.cell.runtime
        self.name = f"lockref-{self.writer.owner[:6]}"

    def start(self) -> None:
        """Start the watchdog. Raises RuntimeError if the system has no thread to give (H10)."""
        self.runtime.spawn(lambda: self._run("watchdog", self._watch), name=f"{self.name}-watchdog")

    def _run(self, role: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            # H4: nobody renews or watches from now on; tell at once (U15). A greenlet's end is no Exception.
            self.tenure.lose(f"the {role} failed: {type(error).__name__}")
            raise

    def _watch(self) -> None:
        """H4: the deadline alone decides, whatever storage last answered. Starts the renewals when they are due."""
        tenure, interval_ns, is_renewing = self.tenure, self.terms.renew_interval_ns, False
        first_ns = tenure.granted_at.mono_ns + interval_ns  # H3: from before the granting write, not from its answer.
        while not tenure.stopped.is_set():
            left_ns = tenure.remaining_ns()
            if left_ns == 0:
                tenure.lose("the lease ended before it could be renewed")
                return
            until_first_ns = first_ns - self.runtime.monotonic_ns()
            if not is_renewing and until_first_ns <= 0:
                self.runtime.spawn(lambda: self._run("heartbeat", self._renew_on), name=f"{self.name}-renewal")
                is_renewing = True
            # At most an interval: the wall clock may step towards the deadline meanwhile.
            tenure.stopped.wait(min(left_ns, interval_ns if is_renewing else until_first_ns))

    def _renew_on(self) -> None:
        while not self.tenure.stopped.is_set():
            next_ns = self.renew()
            if next_ns is None:
                return
            self.tenure.stopped.wait(max(0, next_ns - self.runtime.monotonic_ns()))

    def renew(self) -> MonoNs | None:
        """One renewal. The monotonic instant of the next try; None if the grant is over."""
        if not self.is_owner_alive():
            # H13: its work may go on elsewhere, so the lock is not given to anybody before it lapses.
            self.tenure.lose("the task that locked it has ended without unlocking")
            return None
        renewal = self.writer.renewal(self.tenure.lease)
        if not self.tenure.send(renewal):
            return None
        reply = self.cell.swap(renewal.if_version, renewal.record, Purpose.RENEW)
        step = self.cell.rules.next_step(reply)
        if step is Step.DONE:
            assert reply.version is not None, "an applied write has a version"
            return self._landed(Lease(reply.version, renewal))
        if step is Step.GONE:
            # H15: whoever creates it anew holds it; never recreate it.
            self.tenure.supersede(messages.superseded(Sight.ABSENT))
            return None
        return self._settle() if step is Step.LOOK else self._later()

    def is_owner_alive(self) -> bool:
        """H13: does the task still live that locked, and that alone may unlock?"""
        return self.tenure.task.is_alive()

    def _settle(self) -> MonoNs | None:
        """H5, H8: after a 412 or a lost answer, adopt our own write, or know that it is over."""
        tenure = self.tenure
        if tenure.has_ended:
            # H11: unlocked meanwhile; the release looks for itself.
            return None
        found = self.cell.settle(tenure.pending, expected=tenure.lease.version)
        if found.lease is not None:
            return self._landed(found.lease)
        record = None if found.stored is None else found.stored.record
        is_past = self.cell.rules.is_own_past(record, tenure.lease.attempt.record)
        if found.sight in (Sight.UNKNOWN, Sight.UNCHANGED) or is_past:
            # H6: not landed, or the read lags; the same precondition decides.
            return self._later()
        tenure.supersede(messages.superseded(found.sight))
        return None

    def _landed(self, extended: Lease[R]) -> MonoNs | None:
        if not self.tenure.extend(extended):
            return None
        self._failures = 0
        self.cell.notices.renewed(self.tenure.grant(), extended.attempt.sent, self.tenure.remaining_ns())
        return MonoNs(extended.attempt.sent.mono_ns + self.terms.renew_interval_ns)

    def _later(self) -> MonoNs:
        """The deadline stands; try again soon, more slowly each time, but at least once per interval (H18)."""
        self._failures += 1
        pause_ns = min(self.cell.backoff_ns(self._failures), self.terms.renew_interval_ns)
        return MonoNs(self.runtime.monotonic_ns() + pause_ns)
