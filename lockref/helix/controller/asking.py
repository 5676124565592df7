"""A controller's requests: some are repeated until an answer comes; after others, silence begins the pass anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lockref.coordination.port import Failure, NamesReply, SessionState, is_failure
from lockref.coordination.session import Session
from lockref.errors import LockLost, StoreRejected
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, Runtime
from lockref.words import Outcome

A = TypeVar("A", Reply, NamesReply)

RETRY_PAUSE_NS: Final = 50 * NS_PER_MS
"""Before a request that nobody answered is sent again."""


class Interrupted(Exception):
    """A request of this pass was not answered, or was answered no: begin again."""


class Asking:
    """Requests of one session. Raises LockLost when the session has ended, StoreRejected if repeating is useless."""

    def __init__(self, session: Session, runtime: Runtime) -> None:
        self._session = session
        self._runtime = runtime

    def answered(self, ask: Callable[[], A]) -> A:
        """Send the request until a server answers."""
        while True:
            reply = ask()
            if reply.outcome is Outcome.APPLIED:
                return reply
            self.pause(reply)

    def require(self, reply: Reply | NamesReply) -> None:
        """Raise Interrupted unless this answers the request; "no such znode" is an answer."""
        if reply.outcome is Outcome.APPLIED or reply.missing:
            return
        self.pause(reply)
        raise Interrupted

    def pause(self, reply: Reply | NamesReply) -> None:
        """Before asking again."""
        if self._session.state is SessionState.LOST or is_failure(reply, Failure.SESSION_EXPIRED):
            raise LockLost("the controller's session has ended", reason="session ended")
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"{self._session.service} refuses: {reply.reason}")
        self._runtime.sleep(RETRY_PAUSE_NS)
