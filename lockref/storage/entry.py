"""Who in this process may use the lock: one task at a time (H9).

The task that holds may enter again; the others wait for it, or are told no,
without asking the store. A user that died inside has no claim any more (H13).
"""

from __future__ import annotations

from lockref.runtime import Task
from lockref.storage.exchange import Wiring
from lockref.storage.tenure import Holder


class Entrance(Holder):
    """Lets one task of this process at a time contend and hold."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._user: Task | None = None
        self._idle = self._runtime.event()

    def _re_enter(self) -> bool:
        """H9: the owner task may lock again; a grant that it lost unnoticed is reported once, then forgotten."""
        with self._mutex:
            tenure = self._tenure
            if tenure is None or tenure.task != self._runtime.current_task():
                return False
            if self._is_in_force(tenure):
                tenure.count += 1
                return True
            # Nobody believes in it any more: it is undone instead of left to lapse (H6).
            self._strays = [*self._strays, *tenure.writes()]
            self._tenure = None
            tenure.stopped.set()
            self._leave()
        raise self._loss_error(tenure)

    def _become_user(self, deadline_ns: int) -> bool:
        """H9: one task of this process at a time; the others wait for it, or are told no."""
        me = self._runtime.current_task()
        while True:
            tenure = self._tenure
            if tenure is not None and not tenure.task.is_alive():
                self._lose(tenure, "the task that locked it has ended without unlocking")
            with self._mutex:
                # A user that died inside its critical section has no claim any more (H13), nor has an earlier
                # call of this very task: it is over, however it ended.
                if self._user is None or self._user == me or not self._user.is_alive():
                    if self._tenure is not None:
                        self._tenure.stopped.set()
                        self._tenure = None
                    self._user = me
                    self._idle.clear()
                    return True
            left_ns = deadline_ns - self._runtime.monotonic_ns()
            if left_ns <= 0:
                return False
            self._idle.wait(min(left_ns, self.terms.renew_interval_ns))
            self._check_usable()

    def _leave(self) -> None:
        """Let another task of this process in. The mutex is held."""
        self._user = None
        self._idle.set()
