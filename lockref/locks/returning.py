"""An acquiring call of a client that comes back: it need not read first, lets others go first, and tells what it sees.

All of it is optional. The remembered version saves a read (`lockref/locks/shortcut.py`); the store refuses the write
if the memory was wrong. The step back leaves a released lock for a moment to those who have been waiting (E34). After a
lost race it looks when the other grant should end, not at once.
"""

from __future__ import annotations

from typing import Any

from lockref.locks.acquisition import Acquisition
from lockref.locks.values import R, Reason, Reserved, Step, Stored, Take, Wait
from lockref.words import Outcome

# Python 3.11 takes long to find a member of an enumeration; this one is asked for in every pass.
_RELEASED = Reason.RELEASED


class ReturningAcquisition(Acquisition[R]):
    """Steps back after a release of its own, and may write on what that release left."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The last write named a remembered version. If the store refuses it, nobody is known to hold the lock (S7).
        self._relies_on_memory = False
        # The last write was refused, and not because of our own.
        self._has_lost_race = False

    def run(self) -> bool:
        """E34: a client that has just released lets those look who have been waiting, a moment and no longer."""
        client = self.client
        now_ns = self.runtime.monotonic_ns()
        step_back_ns = min(client.waiting.begin(now_ns), (self.waits_until_ns - now_ns) // 2)
        if step_back_ns > 0:
            client.gate.pause(step_back_ns)
        return super().run()

    def make_pass(self, known: Stored[R] | None = None) -> int | None:
        """The acquisition begins with what a release of our own left, if that probably still stands."""
        if known is None and self.client.waiting.goes_on():
            known = self.client.notices.shortcut.take()
        if known is not None:
            self._relies_on_memory = True
        return super().make_pass(known)

    def look(self) -> Stored[R] | None:
        """None at once after a lost race: look when the other grant should end."""
        if self._is_beaten():
            return None
        had_seen_other = self.has_seen_other
        stored = super().look()
        if stored is None:
            return None
        self.client.notices.looked(stored)
        if self._relies_on_memory:
            # The last write named a remembered version. Its refusal does not show that somebody else holds the lock.
            self.has_seen_other, self._relies_on_memory = had_seen_other, False
        return stored

    def decide(self, known: Stored[R]) -> Take | Wait:
        """As `judge`, and tells of it. A released lock is left to its owner for a moment, where its turn goes on."""
        decision = self.judge(known)
        self.client.notices.decided(decision)
        if isinstance(decision, Take) and decision.reason is _RELEASED and not self._relies_on_memory:
            assert known.record is not None, "an absent record is not released"
            leaves_ns = self.client.waiting.leaves_ns(known.record, now_wall_ns=self.runtime.wall_ns())
            if 0 < leaves_ns < self.waits_until_ns - self.runtime.monotonic_ns():
                return Wait(leaves_ns)
        return decision

    def judge(self, known: Stored[R]) -> Take | Wait:
        """As `Acquisition.decide`."""
        return super().decide(known)

    def write(self, known: Stored[R], reserved: Reserved) -> tuple[Step, Stored[R] | None]:
        """As `Acquisition.write`. A refusal that is not because of an open write of ours tells of a lost race."""
        was_unresolved = self.is_unresolved
        step, now_known = super().write(known, reserved)
        is_refused = step is Step.LOOK and self.answer is Outcome.PRECONDITION_FAILED
        if is_refused:
            self.client.notices.write_refused()
        self._has_lost_race = is_refused and not was_unresolved and not self._relies_on_memory
        return step, now_known

    def pause_after_failure_ns(self) -> int:
        """The pause after a lost race: until the grant of the winner should end."""
        if self._is_beaten():
            self._has_lost_race = self.has_missed_mark = False
            return self.client.waiting.pause_after_lost_race_ns()
        return super().pause_after_failure_ns()

    def _is_beaten(self) -> bool:
        """True if another client was probably quicker just now, and the caller still has time.

        Whoever has just raised the mark is about to be granted the lock.
        """
        return (self._has_lost_race or self.has_missed_mark) and self.runtime.monotonic_ns() < self.waits_until_ns
