"""An acquiring call of a client that comes back: it need not read first, and it lets others go first.

Both are optional. The remembered version saves a read (`lockref/storage/shortcut.py`); its condition settles whether
the memory was right. The step back leaves a released lock for a moment to those who have been waiting (E34).
"""

from __future__ import annotations

from typing import Any

from lockref.locks.acquisition import Acquisition
from lockref.locks.values import R, Reserved, Step, Stored


class ReturningAcquisition(Acquisition[R]):
    """Steps back after a release of its own, and may write on what that release left."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The last write was made on a memory. If the store refuses it, nobody is known to hold the lock (S7).
        self._relies_on_memory = False

    def run(self) -> bool:
        """E34: a client that has just released lets those look who have been waiting, a moment and no longer."""
        client = self.client
        now_ns = self.runtime.monotonic_ns()
        step_back_ns = min(client.waiting.begin(now_ns), (self.waits_until_ns - now_ns) // 2)
        if step_back_ns > 0:
            client.gate.pause(step_back_ns)
        return super().run()

    def make_pass(self, known: Stored[R] | None = None) -> int | None:
        """It begins with what a release of our own left, if that probably still stands."""
        known = known or self.client.notices.shortcut.take()
        if known is not None:
            self._relies_on_memory = True
        return super().make_pass(known)

    def look(self) -> Stored[R] | None:
        """What was written on a memory does not tell that somebody else has come in between."""
        had_seen_other = self.has_seen_other
        stored = super().look()
        if stored is not None and self._relies_on_memory:
            self.has_seen_other, self._relies_on_memory = had_seen_other, False
        return stored

    def write(self, known: Stored[R], reserved: Reserved) -> tuple[Step, Stored[R] | None]:
        step, now_known = super().write(known, reserved)
        if self._relies_on_memory:
            self.has_lost_race = False
        return step, now_known
