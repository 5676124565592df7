"""An acquiring call of a client that comes back: it need not read first, and it lets others go first.

Both are optional. The remembered version saves a read (`lockref/storage/shortcut.py`); its condition settles whether
the memory was right. The step back leaves a released lock for a moment to those who have been waiting (E34).
"""

from __future__ import annotations

from lockref.locks.acquisition import Acquisition
from lockref.locks.values import R, Stored


class ReturningAcquisition(Acquisition[R]):
    """Steps back after a release of its own, and may write on what that release left."""

    def contend(self) -> bool:
        """E34: a client that has just released lets those look who have been waiting, a moment and no longer."""
        client = self.client
        now_ns = self.runtime.monotonic_ns()
        step_back_ns = min(client.waiting.begin(now_ns), (self.waits_until_ns - now_ns) // 2)
        if step_back_ns > 0:
            client.gate.pause(step_back_ns)
        return super().contend()

    def recall(self) -> Stored[R] | None:
        """What a release of our own left, if it probably still stands."""
        known = self.client.notices.shortcut.take()
        if known is not None:
            # Not a fresh read. If the store refuses the write, we still do not know that somebody holds the lock (S7).
            self.is_informed = False
        return known
