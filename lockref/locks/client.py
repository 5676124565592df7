"""One client's side of a lease: get it, hold it, give it back.

`LeaseClient` puts the parts in order, and each part owns its own state: `Gate`
(one task at a time) and `Tenure` (one grant), `Acquisition` (one acquiring
call), `Cell` (the record in the store), `Heartbeat`, `Cleanup`, and `Rules` (the
decisions, without I/O). Three ideas carry them:

- *The deadline decides.* A holder believes until L − M after its last write
  left. No answer prolongs that except a renewal that landed in time.
- *An answer that may be lost is looked up.* Every write carries a nonce; what
  is found in the store is ours only if it equals what we wrote.
- *Nothing is left behind.* A write that may still land and that nobody will
  believe in is undone in the background, and lapses after one validity.

Rejected: layers of one class, where each layer wrote the state of the others
and every step had to be read in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from lockref.errors import LockLost, LockNotHeld, ReleaseFailed
from lockref.locks.acquisition import Acquisition
from lockref.locks.cell import Cell
from lockref.locks.cleanup import Cleanup, Ending
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.notices import Notices
from lockref.locks.tenure import Gate, Tenure
from lockref.locks.values import Attempt, Lease, LeaseTerms, Moment, R, Tokens, Writer
from lockref.locks.waiting import Shortcut, Waiting
from lockref.runtime import NS_PER_S


@dataclass(eq=False, kw_only=True)
class LeaseClient(Generic[R]):
    """Contends for one record, holds it and gives it back, for the tasks of one process."""

    cell: Cell[R]
    terms: LeaseTerms
    poll_interval_ns: int
    writer: Writer[R]
    gate: Gate
    cleanup: Cleanup[R]
    waiting: Waiting
    tokens: Tokens[R]
    shortcut: Shortcut[R]
    notices: Notices
    new_acquisition: Callable[[LeaseClient[R], int], Acquisition[R]]
    new_tenure: Callable[..., Tenure[R]]
    new_heartbeat: Callable[..., Heartbeat[R]]

    def __post_init__(self) -> None:
        self.runtime = self.cell.runtime
        self.tenure: Tenure[R] | None = None
        # Of the latest grant, that of a grant which is over included.
        self.loss = self.runtime.event()

    # ---- get it ----

    def acquire(self, timeout_ns: int) -> bool:
        """As `Acquisition.run`, and True at once for the task that holds (H9). Raises LockLost if it held, and lost."""
        self.gate.check_open()
        call = self.new_acquisition(self, timeout_ns)
        depth = self.gate.depth
        try:
            if self._re_enter():
                return True
        except LockLost:
            self.cleanup.start()
            raise
        except BaseException:
            # An entry that is broken off counts for nothing (H9).
            if self.gate.is_mine():
                self.gate.set_depth(depth)
            raise
        is_granted = False
        try:
            is_granted = call.run()
            return is_granted
        finally:
            if not is_granted:
                call.stop()

    def _re_enter(self) -> bool:
        """H9: the owner task may lock again; a grant that it lost unnoticed is reported once, then forgotten."""
        tenure = self.tenure
        if tenure is None or tenure.task != self.runtime.current_task():
            return False
        if tenure.is_in_force():
            self.gate.set_depth(self.gate.depth + 1)
            return True
        # Nobody believes in it any more: it is undone instead of left to lapse (H6).
        self._disown(tenure)
        self.gate.leave()
        raise tenure.loss_error()

    def enter(self, until_ns: int) -> bool:
        """H9: one task of this process at a time; the others wait for it. False if the time is up first."""
        while True:
            tenure = self.tenure
            if tenure is not None and not tenure.task.is_alive():
                tenure.lose("the task that locked it has ended without unlocking")
            if self.gate.try_enter():
                # A grant of a task that died inside is left to lapse, for its work may go on elsewhere (H13).
                self.forget()
                return True
            left_ns = until_ns - self.runtime.monotonic_ns()
            if left_ns <= 0:
                return False
            self.gate.wait(min(left_ns, self.terms.renew_interval_ns))

    def begin(self, first: Lease[R]) -> bool:
        """Begin the tenure of a write that landed; False if it is too late to be believed (H3)."""
        tenure = self.new_tenure(first, key=self.cell.key, runtime=self.runtime, notices=self.notices)
        heartbeat = self.new_heartbeat(
            tenure, cell=self.cell, terms=self.terms, new_renewal=self.writer.renewal,
            name=f"lockref-{self.writer.owner[:6]}",
        )  # fmt: skip
        # From here on a call that ends without a grant forgets the tenure, for instance because no heartbeat
        # could be started (H10) or because of a Ctrl-C.
        self.tenure, self.loss = tenure, tenure.loss
        heartbeat.start()
        # A lock that another task has closed meanwhile gives no grant.
        self.gate.check_open()
        if not tenure.announce():
            self.forget()
            return False
        self.waiting.won()
        self.notices.granted(tenure.grant(), tenure.granted_at)
        self.cleanup.settle_all()
        return True

    # ---- give it back ----

    def release(self) -> None:
        """Leave one level; the outermost one writes (H9).

        Raises LockLost if the grant had ended before, LockNotHeld for a task that does not hold it, ReleaseFailed if
        the store could not be told (H24): the protected work is done then.
        """
        self.gate.check_process()
        tenure = self.tenure
        if tenure is None or tenure.task != self.runtime.current_task():
            raise LockNotHeld(f"unlocking {self.cell.key}, which this task has not locked: fix the calling code")
        if self.gate.depth > 1:
            self.gate.set_depth(self.gate.depth - 1)
            return
        was_held = tenure.is_in_force()
        try:
            self._disown(tenure)
            self._give_back(tenure, was_held=was_held)
        finally:
            self._end_use(tenure)

    def break_off(self, tenure: Tenure[R] | None, depth: int) -> None:
        """A Ctrl-C or its like struck a release. The caller has left its critical section all the same (H6)."""
        if tenure is not None and tenure is self.tenure and tenure.task == self.runtime.current_task():
            self.gate.set_depth(depth - 1)
            if depth == 1:
                self._end_use(tenure)

    def _disown(self, tenure: Tenure[R]) -> None:
        """H7: from here on nobody believes, whatever becomes of the release."""
        if self.tenure is tenure:
            # Ours to undo until the store has told that the release landed.
            self.cleanup.add(tenure.writes())
            self.forget()

    def forget(self) -> list[Attempt[R]]:
        """The present tenure, if any, is over: nobody believes in it, nobody renews it. Returns its writes."""
        tenure = self.tenure
        if tenure is None:
            return []
        tenure.end()
        self.tenure = None
        return tenure.writes()

    def _end_use(self, tenure: Tenure[R]) -> None:
        """However the release ended, by a Ctrl-C or an error too: what may be left in the store is undone (H6)."""
        try:
            self._disown(tenure)
            self.cleanup.start_for(tenure.writes())
        finally:
            self.gate.leave()

    def _give_back(self, tenure: Tenure[R], *, was_held: bool) -> None:
        ended = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
        held_ns = ended.mono_ns - tenure.granted_at.mono_ns
        self.waiting.held(held_ns)
        self.notices.metric("lock.acquire.duration", held_ns / NS_PER_S)
        if tenure.is_superseded:
            self.cleanup.settle(tenure.writes())
            raise tenure.loss_error()
        ending, left = self.cleanup.release(tenure)
        if ending is Ending.UNKNOWN:
            # Still ours to undo: it goes on in the background until the lease lapses.
            self.notices.metric("lock.release.failure")
        else:
            self.cleanup.settle(tenure.writes())
        if ending is Ending.FREED:
            if left is not None:
                self.shortcut.released(left)
            self.waiting.released(self.runtime.monotonic_ns())
            self.notices.freed(self.writer.owner, ended)
        if not was_held:
            raise tenure.loss_error()
        if ending is Ending.SUPERSEDED:
            raise tenure.loss_error("on release it was found deleted, or in somebody else's hands")
        if ending is Ending.UNKNOWN:
            raise ReleaseFailed(
                f"unlocking {self.cell.key}: the store did not take the release; the protected work is done, do not "
                f"repeat it. Others wait until the lease lapses, {self.terms.validity_ns / NS_PER_S:g} s at most"
            )
        self.notices.released(tenure.grant())
