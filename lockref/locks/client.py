"""One client's side of a lease: get it, hold it, give it back. `LeaseClient` puts the parts in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from lockref.locks import messages
from lockref.locks.cell import Cell
from lockref.locks.cleanup import Cleanup
from lockref.locks.gate import Gate
from lockref.locks.heartbeat import Heartbeat
from lockref.locks.notices import Notices
from lockref.locks.tenure import Tenure
from lockref.locks.values import AcquiringCall, Ending, Lease, LeaseTerms, Moment, R, Tokens, Writer
from lockref.locks.waiting import Waiting
from lockref.runtime import MonoNs


@dataclass(eq=False, kw_only=True)
class LeaseClient(Generic[R]):
    """Contends for one record, holds it and gives it back, for one task at a time (`GatedClient`)."""

    cell: Cell[R]
    terms: LeaseTerms
    poll_interval_ns: int
    writer: Writer[R]
    gate: Gate
    cleanup: Cleanup[R]
    waiting: Waiting
    tokens: Tokens[R]
    notices: Notices
    new_acquisition: Callable[[LeaseClient[R], int, MonoNs], AcquiringCall[R]]
    new_tenure: Callable[..., Tenure[R]]
    new_heartbeat: Callable[..., Heartbeat[R]]

    def __post_init__(self) -> None:
        self.runtime = self.cell.runtime
        self.tenure: Tenure[R] | None = None
        self.loss = self.runtime.event()  # Set when the latest grant is lost; it stays when that grant is over.

    def acquire(self, timeout_ns: int, called_at_ns: MonoNs) -> bool:
        """As `Acquisition.run`. A call that ends without a grant leaves nothing that could become one (L6)."""
        self.cleanup.background.stop()  # This call deals with the orphans of earlier ones.
        call = self.new_acquisition(self, timeout_ns, called_at_ns)
        is_granted = False
        try:
            is_granted = call.run()
            return is_granted
        finally:
            if not is_granted:
                # A tenure may have begun although the call ended before its caller was told.
                self.forget()
                self.cleanup.abandon(call.attempts, unsettled=call.attempts if call.is_unresolved else ())
                self.notices.not_granted()

    def begin(self, first: Lease[R]) -> bool:
        """Begin the tenure of a write that landed; False if it is too late to be believed (H3)."""
        tenure = self.new_tenure(first, key=self.cell.key, runtime=self.runtime, notices=self.notices)
        heartbeat = self.new_heartbeat(tenure, cell=self.cell, terms=self.terms, writer=self.writer)
        # From here on a call that ends without a grant forgets the tenure, as when no heartbeat can be started (H10).
        self.tenure, self.loss = tenure, tenure.loss
        heartbeat.start()
        self.gate.check_open()  # A lock that another task has closed meanwhile gives no grant.
        if not tenure.announce():
            return False
        self.notices.granted(tenure.grant(), tenure.granted_at)
        self.cleanup.settle(self.cleanup.orphans)
        return True

    def forget(self) -> None:
        """The present tenure, if any, is over: nobody believes in it, nobody renews it."""
        if self.tenure is not None:
            self.tenure.end()
            self.tenure = None

    def release(self, tenure: Tenure[R]) -> None:
        """Give it back. Raises LockLost if it had ended before, ReleaseFailed if the store could not be told (H24)."""
        was_held = tenure.is_in_force()
        try:
            self._disown(tenure)
            self._give_back(tenure, was_held=was_held)
        finally:
            self.end_use(tenure)

    def end_use(self, tenure: Tenure[R]) -> None:
        """However a grant ended, by an error too: what may be left in the store is undone (H6)."""
        self._disown(tenure)
        self.cleanup.start()

    def _disown(self, tenure: Tenure[R]) -> None:
        """H7: from here on nobody believes; its writes are ours to undo until the store has told of the release."""
        if self.tenure is tenure:
            self.cleanup.add(tenure.writes())
            self.forget()

    def _give_back(self, tenure: Tenure[R], *, was_held: bool) -> None:
        ended = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
        self.notices.giving_back(ended.mono_ns - tenure.granted_at.mono_ns)
        ending, left = (Ending.SUPERSEDED, None) if tenure.is_superseded else self.cleanup.release(tenure)
        if ending is Ending.UNKNOWN:
            # Still ours to undo: it goes on in the background until the lease lapses.
            self.notices.not_freed()
        else:
            self.cleanup.settle(tenure.writes())
        if ending is Ending.FREED:
            self.notices.freed(self.writer.owner, ended, left)
        if not was_held:
            raise tenure.loss_error()
        if ending is Ending.SUPERSEDED:
            raise tenure.loss_error("on release it was found deleted, or in somebody else's hands")
        if ending is Ending.UNKNOWN:
            raise messages.release_failed(self.cell.key, validity_ns=self.terms.validity_ns)
        self.notices.released(tenure.grant())
