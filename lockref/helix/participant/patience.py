"""The patience of an instance: it repeats a request until an answer comes, the instance leaves, or its session ends."""

from __future__ import annotations

from typing import Final

from lockref.coordination.port import Failure, NamesReply, SessionState, is_failure
from lockref.coordination.session import Session
from lockref.errors import BackendUnavailable, LockLost, StoreRejected
from lockref.helix.participant.holdings import Holdings
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, MonoNs, Runtime
from lockref.words import Outcome

RETRY_PAUSE_NS: Final = 50 * NS_PER_MS
"""Before a request that nobody answered is sent again."""

REFUSED_PAUSES: Final = 8
"""So many times within one session timeout a refused request is tried again."""


class Patience:
    """Requests of one instance. is_leaving: it asks nothing more. until_ns: when a first joining is given up, on the
    monotonic clock; None: never, and once it has joined.
    """

    def __init__(self, session: Session, instance: str, runtime: Runtime, holdings: Holdings) -> None:
        self.is_leaving = False
        self.until_ns: MonoNs | None = None
        self._session = session
        self._instance = instance
        self._runtime = runtime
        self._holdings = holdings

    def may_go_on(self) -> bool:
        """Is there time left to join?"""
        return self.until_ns is None or self._runtime.monotonic_ns() < self.until_ns

    def require_time(self) -> None:
        """Raises BackendUnavailable if the time to join is over: no request is begun then, and the call ends (L5)."""
        if not self.may_go_on():
            raise BackendUnavailable(f"{self._session.service} did not let {self._instance!r} join in time")

    def read(self, path: str) -> Reply:
        """Send the request until a server answers. Raises LockLost when the session has ended; as `require_time`."""
        while True:
            self.require_time()
            reply = self._session.get(path)
            if reply.outcome is Outcome.APPLIED:
                return reply
            self.pause(reply)

    def pause(self, reply: Reply | NamesReply) -> None:
        """Before asking again. Raises LockLost if the session is over, StoreRejected if asking is of no use."""
        if self.is_leaving:
            raise LockLost(f"instance {self._instance!r} leaves", reason="left")
        if not self.may_go_on():
            raise BackendUnavailable(f"{self._session.service} did not let {self._instance!r} join: {reply.reason}")
        if self._session.state is SessionState.LOST or is_failure(reply, Failure.SESSION_EXPIRED):
            raise LockLost("the session has ended", reason="session ended")
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"{self._session.service} refuses: {reply.reason}")
        # A task that asks may ask for as long as nobody answers, and takes no event meanwhile.
        self._holdings.suspend()
        self._runtime.sleep(RETRY_PAUSE_NS)

    def children(self, path: str, *, is_watching: bool = False) -> list[str]:
        """The names below a znode; asked as by `read`."""
        while True:
            self.require_time()
            reply = self._session.children(path, is_watching=is_watching)
            if reply.outcome is Outcome.APPLIED:
                return reply.body or []
            self.pause(reply)

    def require_session(self, message: Message) -> None:
        """Raises LockLost if the session that the message was sent to has ended: a handler may outlast a session.

        Also raises LockLost if the instance leaves. It has then said that it holds nothing, and other instances may get
        its locks before a handler ends.
        """
        if self.is_leaving:
            raise LockLost(f"instance {self._instance!r} leaves", reason="left")
        is_over = self._session.state is SessionState.LOST
        if is_over or message.session != layout.session_name(self._session.id):
            raise LockLost(f"the session ended while {message.lock} was moved", reason="session ended")
