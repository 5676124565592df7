"""The interface that an application calls: one for every lease, whatever the form of its record and the place of it.

A family (RFC-91's lock file, Delta Lake's row) says what the record is and when it may be taken over; a place (objects,
a table's rows, znodes) says where it is kept. Neither changes what a holder may ask and what a call raises.
"""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self

from lockref.errors import LockError, LockTimeout
from lockref.locks.gated import GatedClient
from lockref.locks.tenure import Tenure
from lockref.locks.values import R
from lockref.provider import Grant
from lockref.runtime import NS_PER_S, Event


class LeaseLock(Generic[R]):
    """A lease for the tasks of one process. Blocking, thread-safe, re-entrant for the task that holds (H9).

    gated: the lease. patience_ns: how long `with` waits, and `lock` where its caller names no time.

    Errors of `lock` and `try_lock`: OutcomeUnknown (nothing definite was learned), CorruptRecord, StoreRejected,
    LockLost (this task's previous grant ended without its unlock), LockForked (used in a forked child).
    """

    is_reentrant = True
    # Every loss is reported to the listener (H12).
    claims: tuple[str, ...] = ("L4",)
    is_fork_safe = True

    def __init__(self, gated: GatedClient[R], *, patience_ns: int) -> None:
        self.gated = gated
        self.runtime = gated.runtime
        self.client, self.gate = gated.client, gated.gate
        self.cell, self.cleanup, self.notices = self.client.cell, self.client.cleanup, self.client.notices
        self.terms = self.client.terms
        self.owner = self.client.writer.owner
        self._patience_ns = patience_ns

    # ---- what a holder asks: local, without I/O, from any task at any time ----

    @property
    def tenure(self) -> Tenure[R] | None:
        """The grant of this client that has not been given back, in force or not; None if there is none.

        None in a forked child, too, which has inherited the memory, not the grant (H9).
        """
        return self.gated.tenure

    def holds(self) -> bool:
        """May the holder still act? Asks the clocks, nothing else; once no, it stays no for this grant (H2, T6)."""
        tenure = self.tenure
        return tenure is not None and tenure.is_in_force()

    def remaining_ns(self) -> int:
        """The time for which the holder may still act if no renewal lands; 0 if it may not act (H2)."""
        tenure = self.tenure
        return 0 if tenure is None else tenure.remaining_ns()

    def remaining(self) -> float:
        """`remaining_ns` in seconds, the unit of `lock`."""
        return self.remaining_ns() / NS_PER_S

    def assert_held(self) -> None:
        """Call before each protected write (H2).

        Raises LockLost, LockNotHeld if nothing was locked, LockForked in a forked child of the process that locked.
        """
        self.gated.assert_held()

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        return self.gated.grant

    @property
    def fencing_token(self) -> int | None:
        """The number that a protected resource should check (H21, T9). None when nothing is held, or cannot be fenced.

        A resource should refuse a write without a token: the lock gives none
        where it could not prove that the number is larger than all before it.
        """
        grant = self.grant
        return None if grant is None else grant.token

    @property
    def loss(self) -> Event:
        """Set when the latest grant is lost; each grant has an event of its own (H12)."""
        return self.client.loss

    # ---- lock ----

    def try_lock(self) -> bool:
        """One attempt, as `lock` with no time: at most two request timeouts (L5). False: somebody else has it."""
        return self.gated.acquire(0)

    def lock(self, timeout_s: float | None = None) -> bool:
        """Wait for a grant; no request begins after `timeout_s`, or one request timeout where that is longer (L5).

        timeout_s: None: until a lease of our own length that nobody renews has lapsed for every waiter.
        So the call returns one request timeout after that at the latest.
        False: somebody else's lease was seen; OutcomeUnknown: nothing definite was.
        """
        return self.gated.acquire(self._patience_ns if timeout_s is None else round(timeout_s * NS_PER_S))

    # ---- unlock ----

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task
        that does not hold it (H9), ReleaseFailed if the store could not be told
        (H24, B11): the protected work is done then, and others wait for one validity at most. No request begins after
        three request timeouts, or one second where that is longer (L5).
        """
        tenure, depth = self.client.tenure, self.gate.depth
        try:
            self.gated.release()
        except LockError:
            raise
        except BaseException:
            # Here and not further in: between any two calls a Ctrl-C may come.
            self.gated.break_off(tenure, depth)
            raise

    def __enter__(self) -> Self:
        """Wait for a grant as long as a lease may last. Raises LockTimeout where `lock` says False."""
        if not self.gated.acquire(self._patience_ns):
            raise LockTimeout(f"locking {self.cell.key}: somebody else held it all the time; wait longer with lock()")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gated.leave(self.unlock, error)

    # ---- the end ----

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. May be called again, also after a Ctrl-C.

        A grant of another task is marked lost, not released: its task may be
        in the middle of its critical section (U16). Failures were reported to
        the listener; they are not raised. What may still be left in the store
        is undone once before this returns, and otherwise in the background.
        In a forked child it does nothing: the lock is the parent's (H9).
        """
        self.gated.close(self.unlock)

    def exit_hook(self) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse (H14, U16)."""
        self.gated.exit_hook(self.close)
