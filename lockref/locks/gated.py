"""One lease for all tasks of a process: one at a time, nested calls, forks, and a Ctrl-C at any instant.

`LeaseClient` is for one task. Here each call waits for its turn (H9), nested calls are counted, and a call that an
exception breaks off, between any two instructions, leaves the count right. A port takes its platform's re-entrant lock
for the first two, and needs none of the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from lockref.errors import LockError, LockLost, LockNotHeld, ReleaseFailed
from lockref.locks import messages
from lockref.locks.client import LeaseClient
from lockref.locks.gate import Gate
from lockref.locks.tenure import Tenure
from lockref.locks.values import R
from lockref.provider import Grant


class GatedClient(Generic[R]):
    """Calls one lease for whichever task has its turn."""

    def __init__(self, client: LeaseClient[R], gate: Gate) -> None:
        self.client = client
        self.gate = gate
        self.runtime = gate.runtime

    # What a holder asks: local, without I/O, from any task at any time.

    @property
    def tenure(self) -> Tenure[R] | None:
        """The grant of this client that has not been given back, in force or not; None if there is none.

        None in a forked child, too, which has inherited the memory, not the grant (H9).
        """
        return self.client.tenure if self.runtime.process_id() == self.gate.process_id else None

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        tenure = self.tenure
        return tenure.grant() if tenure is not None and tenure.is_in_force() else None

    def assert_held(self) -> None:
        """Raises LockLost, LockNotHeld if nothing was locked, LockForked in a forked child (H2)."""
        self.gate.check_process()
        tenure = self.tenure
        if tenure is None:
            raise LockNotHeld(f"asserting that {self.gate.key} is held, but this client has not locked it")
        if not tenure.is_in_force():
            raise tenure.loss_error()

    # Its calls.

    def acquire(self, timeout_ns: int) -> bool:
        """As `LeaseClient.acquire`, and True at once for the task that holds (H9).

        Raises LockLost if it held and lost, LockForked in a forked child, LockError for a lock that was closed.
        """
        gate, client = self.gate, self.client
        gate.check_open()
        tenure, depth = client.tenure, gate.depth
        if tenure is not None and tenure.task == self.runtime.current_task():
            try:
                if tenure.is_in_force():
                    gate.set_depth(depth + 1)
                    return True
            except BaseException:
                # CPython may raise KeyboardInterrupt between any two calls: an entry that was broken off counts for
                # nothing.
                gate.set_depth(depth)
                raise
            # Nobody believes in it any more: it is undone instead of left to lapse (H6).
            self.end_use(tenure)
            raise self._found_lost(tenure, tenure.loss_error())
        called_at_ns = self.runtime.monotonic_ns()
        is_granted = False
        try:
            is_granted = self._enter(called_at_ns + timeout_ns) and client.acquire(timeout_ns, called_at_ns)
            return is_granted
        finally:
            # It may have ended before it was this task's turn.
            if not is_granted and gate.is_mine():
                # There is a grant if a Ctrl-C came between the client's yes and ours.
                self.end_use(client.tenure)

    def _enter(self, until_ns: int) -> bool:
        """H9: one task of this process at a time. False: another one holds. Raises OutcomeUnknown if none does (S7)."""
        while True:
            tenure = self.client.tenure
            if tenure is not None and not tenure.task.is_alive():
                # H13: it is left to lapse, for the work of a task that died inside may go on elsewhere.
                tenure.lose("the task that locked it has ended without unlocking")
            if self.gate.try_enter():
                return True
            left_ns = until_ns - self.runtime.monotonic_ns()
            if left_ns <= 0:
                if tenure is not None and tenure.is_in_force():
                    return False
                raise messages.busy(self.gate.key)
            self.gate.wait(min(left_ns, self.client.terms.renew_interval_ns))

    def release(self) -> None:
        """Leave one level; the outermost one releases the lease (H9), and raises as `LeaseClient.release`.

        Raises LockNotHeld for a task that does not hold it, LockForked in a forked child.
        """
        self.gate.check_process()
        tenure, depth = self.client.tenure, self.gate.depth
        if tenure is None or tenure.task != self.runtime.current_task():
            raise messages.not_locked(self.gate.key)
        if depth > 1:
            self.gate.set_depth(depth - 1)
            return
        try:
            self.client.release(tenure)
        except LockLost as error:
            raise self._found_lost(tenure, error) from None
        finally:
            self.gate.leave()

    def _found_lost(self, tenure: Tenure[R], error: LockLost) -> LockLost:
        """The error. A loss that nobody had noticed before is logged now, so that each is logged once (H12)."""
        if tenure.loss_reason is None:
            self.client.notices.found_lost(error)
        return error

    def close(self, unlock: Callable[[], None]) -> None:
        """The end: nobody gets the lock from here any more. May be called again, also after a Ctrl-C.

        unlock: gives a grant of the calling task back. A grant of another task is marked lost, not released: its task
        may be in the middle of its critical section (U16). What may still be left in the store is undone once before
        this returns, unless an unlock here has just tried in vain, and otherwise in the background.
        In a forked child it does nothing (H9).
        """
        if self.runtime.process_id() != self.gate.process_id:
            return
        self.gate.closing.set()
        tenure = self.client.tenure
        if tenure is not None:
            if tenure.task == self.runtime.current_task():
                self.gate.set_depth(1)
                try:
                    unlock()
                except ReleaseFailed:
                    return  # The unlock has used its whole time, and goes on in the background (L5).
                except LockError:
                    pass  # It was lost before: told already.
            else:
                tenure.lose("the lock was closed by another task")
        self.client.cleanup.background.finish(self.client.cleanup)

    def exit_hook(self, close: Callable[[], None]) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse (H14, U16)."""
        if self.runtime.process_id() != self.gate.process_id:
            return
        if self.client.tenure is not None:
            self.client.tenure.lose("the process ends inside the critical section")
            self.client.forget()
        close()

    def leave(self, unlock: Callable[[], None], error: BaseException | None) -> None:
        """The end of a `with` block, by `unlock`. How the release ended must not hide how the work ended (H24).

        error: how the work ended, None if well. Raises what `unlock` raises, where that is the only error.
        """
        try:
            unlock()
        except LockError as unlock_error:
            if error is None:
                raise
            error.add_note(f"unlocking afterwards: {unlock_error}")

    def break_off(self, tenure: Tenure[R] | None, depth: int) -> None:
        """A Ctrl-C struck the release of `tenure`. The caller has left its critical section all the same (H6)."""
        if tenure is not None and tenure is self.client.tenure and tenure.task == self.runtime.current_task():
            self.gate.set_depth(depth - 1)
            if depth == 1:
                self.end_use(tenure)

    def end_use(self, tenure: Tenure[R] | None) -> None:
        """This task uses its grant, if any, no more: what may be left is undone, and the next task may enter (H6)."""
        try:
            if tenure is not None and tenure.task == self.runtime.current_task():
                self.client.end_use(tenure)
        finally:
            self.gate.leave()
