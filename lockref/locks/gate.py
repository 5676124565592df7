"""The turns of the tasks of one process at its lock. A port takes its platform's re-entrant lock."""

from __future__ import annotations

from lockref.locks import messages
from lockref.runtime import Runtime, Task


class Gate:
    """One task at a time, in the process that made the lock, until it is closed. depth: how often its user entered."""

    def __init__(self, runtime: Runtime, key: str) -> None:
        self.runtime = runtime
        self.key = key
        self.user: Task | None = None
        self.depth = 0
        self.process_id = runtime.process_id()
        self._idle = runtime.event()
        # Set once the lock is closed: whoever waits is woken, and nobody enters any more.
        self.closing = runtime.event()
        self._mutex = runtime.mutex()

    def is_mine(self) -> bool:
        return self.user is not None and self.user == self.runtime.current_task()

    def try_enter(self) -> bool:
        """Become the user. A user that died inside loses its claim (H13), and so does an earlier call of this task."""
        me = self.runtime.current_task()
        with self._mutex:
            if self.user is None or self.user == me or not self.user.is_alive():
                self.user, self.depth = me, 1
                self._idle.clear()
                return True
            return False

    def wait(self, timeout_ns: int) -> None:
        """Wait until the user has left, or the time is up. Raises as `check_open`."""
        self._idle.wait(timeout_ns)
        self.check_open()

    def set_depth(self, depth: int) -> None:
        """Note that the user has entered once more, or has left one level (H9)."""
        assert depth >= 0, "nobody leaves more often than it entered"
        self.depth = depth

    def leave(self) -> None:
        """Let another task of this process in."""
        with self._mutex:
            self.user, self.depth = None, 0
            # Within: a task that entered in between would find the event set, and others would spin until it leaves.
            self._idle.set()

    def pause(self, duration_ns: int) -> None:
        """Wait between two requests. Raises as `check_open`."""
        self.closing.wait(duration_ns)
        self.check_open()

    def check_open(self) -> None:
        """Raises LockError for a lock that was closed, LockForked in a forked child."""
        self.check_process()
        if self.closing.is_set():
            raise messages.closed(self.key)

    def check_process(self) -> None:
        """H9: a forked child shares owner and memory with its parent; only one of them may act. Raises LockForked."""
        here = self.runtime.process_id()
        if here != self.process_id:
            raise messages.forked(self.key, here=here, maker=self.process_id)
