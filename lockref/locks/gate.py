"""Who in this process may use the lock: one task at a time (H9).

The task that holds may enter again; the others wait for it, or are told no,
without asking the store. A user that died inside has no claim any more (H13).
"""

from __future__ import annotations

from lockref.runtime import Runtime, Task


class Gate:
    """Lets one task of this process at a time contend and hold. depth: how often the user has entered."""

    def __init__(self, runtime: Runtime) -> None:
        self.user: Task | None = None
        self.depth = 0
        self._runtime = runtime
        self._idle = runtime.event()
        self._mutex = runtime.mutex()

    def is_mine(self) -> bool:
        return self.user is not None and self.user == self._runtime.current_task()

    def try_enter(self) -> bool:
        """Become the user, unless another living task is."""
        me = self._runtime.current_task()
        with self._mutex:
            # A user that died inside its critical section has no claim any more (H13), nor has an earlier
            # call of this very task: it is over, however it ended.
            if self.user is None or self.user == me or not self.user.is_alive():
                self.user, self.depth = me, 1
                self._idle.clear()
                return True
            return False

    def wait(self, timeout_ns: int) -> None:
        """Until the user has left, or the time is up."""
        self._idle.wait(timeout_ns)

    def set_depth(self, depth: int) -> None:
        """H9: the user has entered once more, or left one level."""
        assert depth >= 0, "nobody leaves more often than it entered"
        self.depth = depth

    def leave(self) -> None:
        """Let another task of this process in."""
        with self._mutex:
            self.user, self.depth = None, 0
        self._idle.set()
