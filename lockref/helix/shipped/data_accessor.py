"""The layer between Helix' lock and ZooKeeper: updates under the version that was read, and a thread for changes.

Three properties of it make the lock what it is. A request without an answer is sent again, for a day. An update reads,
asks a function for the new record and writes it under the version that was read, until nobody was quicker; what the
function raises, and what the server refuses, is one answer: False. And changes of a znode are told to a listener by one
thread, after the watch has been set anew; what the listener raises is logged and lost.

Of ZooKeeper's client only what the lock needs is here. A session that has ended is replaced, and the listener is told,
as of a change. Where a break of the connection may have swallowed a change, the listener is told if there was one.

Source: helix-core 1.4.3, `ZkBaseDataAccessor` (`doUpdate`, `doCreate`, `get`); zookeeper-api 1.4.3, `ZkClient`
(`subscribeDataChanges`, `fireDataChangedEvents`, `retryUntilConnected`), `ZkEventThread`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from lockref.coordination.port import Change, Failure, SessionState, Stat, WatchEvent, is_failure
from lockref.coordination.session import Session
from lockref.coordination.znodes import parent_of
from lockref.errors import BackendUnavailable, LockError, StoreRejected
from lockref.helix.shipped.stored_record import StoredRecord, parsed
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.words import Outcome

SESSION_TIMEOUT_NS: Final = 30 * NS_PER_S
"""Helix' own default (`zk.session.timeout`). What is locked does not depend on it: the znode is persistent."""

RETRY_NS: Final = 24 * 3600 * NS_PER_S
"""For so long a request without an answer is sent again."""

BACKOFF_NS: Final = 250 * NS_PER_MS
BACKOFF_MAX_NS: Final = 32 * NS_PER_S

FAILURES_KEPT: Final = 16


class NoZnode(LockError):
    """A read that asks for an error found no znode."""


Updater = Callable[[StoredRecord | None], StoredRecord]
"""What is stored, or None, to what shall be stored. May be called several times. A LockError ends the update."""


class DataAccessor:
    """Records by path, over one session. Requests may come from several tasks.

    failures: what the listener raised, the latest ones: the original logs them, and nobody is told.
    written: what the latest write of this accessor made of the znode; None before the first.
    """

    def __init__(self, session: Session, runtime: Runtime, *, session_timeout_ns: int = SESSION_TIMEOUT_NS) -> None:
        self.failures: deque[LockError] = deque(maxlen=FAILURES_KEPT)
        self.written: Stat | None = None
        self._session = session
        self._runtime = runtime
        self._session_timeout_ns = session_timeout_ns
        self._gate = runtime.mutex()
        self._listeners: dict[str, Callable[[], None]] = {}
        self._seen: dict[str, int] = {}
        self._is_listening = False
        self._is_closed = False

    # Records.

    def get(self, path: str, *, must_exist: bool = False) -> StoredRecord | None:
        """The record; None where there is none to be read. Raises NoZnode if asked to; StoreRejected if refused."""
        reply = self._read(path)
        if reply.missing and must_exist:
            raise NoZnode(f"{path}: there is no such znode")
        return parsed(reply.body)

    def update(self, path: str, updater: Updater) -> bool:
        """Change the record to what the updater says. False: it would not, or the server refused."""
        try:
            while not self._is_updated(path, updater):
                pass
        except LockError:
            return False
        return True

    def _is_updated(self, path: str, updater: Updater) -> bool:
        """Try the update once. False if another client wrote in between."""
        found = self._read(path)
        if found.missing:
            return self._create(path, updater(None).to_json())
        body = updater(parsed(found.body)).to_json()
        assert isinstance(found.version, Stat), "a znode that is there has a version"
        expected = found.version
        reply = self._insist(lambda: self._session.set(path, body, expected))
        if reply.outcome is Outcome.APPLIED:
            self._remember_written(reply)
            return True
        # The znode changed. If it went, the original asks its function again, as for one that never was.
        return False

    def _create(self, path: str, body: bytes) -> bool:
        """Make the znode and whatever is missing above it. False: it is there by now."""
        while True:
            reply = self._insist(lambda: self._session.create(path, body))
            if reply.outcome is Outcome.APPLIED:
                self._remember_written(reply)
                return True
            if not is_failure(reply, Failure.NO_NODE):
                return False
            self._create_parent(parent_of(path))

    def _create_parent(self, path: str) -> None:
        reply = self._insist(lambda: self._session.create(path))
        if is_failure(reply, Failure.NO_NODE):
            self._create_parent(parent_of(path))
            self._create_parent(path)

    def _remember_written(self, reply: Reply) -> None:
        assert isinstance(reply.version, Stat), "a write that is applied tells the znode's version"
        self.written = reply.version

    def _read(self, path: str) -> Reply:
        """Read, and watch while anybody listens. A read of a znode that is not there sets no watch."""
        is_watching = path in self._listeners
        reply = self._insist(lambda: self._session.get(path, is_watching=is_watching))
        if is_watching:
            self._see(path, reply)
        return reply

    def _see(self, path: str, reply: Reply) -> None:
        self._seen[path] = reply.version.changed_zxid if isinstance(reply.version, Stat) else 0

    # Requests.

    def _insist(self, ask: Callable[[], Reply]) -> Reply:
        """Ask until there is a definite answer. Raises StoreRejected for a refusal, after a day, and after `close`."""
        until_ns = self._runtime.monotonic_ns() + RETRY_NS
        pause_ns = BACKOFF_NS
        while True:
            if self._is_closed:
                raise StoreRejected("ZkClient already closed!")
            if self._has_session():
                reply = ask()
                if reply.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
                    return reply
                if reply.outcome is Outcome.REJECTED and not is_failure(reply, Failure.SESSION_EXPIRED):
                    raise StoreRejected(f"{self._session.service}: {reply.reason}")
            if self._runtime.monotonic_ns() > until_ns:
                raise StoreRejected(f"{self._session.service}: no answer for {RETRY_NS // NS_PER_S} s")
            self._runtime.sleep(pause_ns)
            pause_ns = min(2 * pause_ns, BACKOFF_MAX_NS)

    def _has_session(self) -> bool:
        """Open a session where there is none. False: no server answers, or none is wanted any more."""
        with self._gate:
            if self._session.state is SessionState.LOST:
                try:
                    self._session.start(
                        self._runtime, timeout_ns=self._session_timeout_ns, is_wanted=lambda: not self._is_closed
                    )
                except BackendUnavailable:
                    return False
            if not self._is_listening:
                self._is_listening = True
                self._runtime.spawn(self._tell, name="helix-lock-events")
        return True

    # Changes.

    def subscribe(self, path: str, listener: Callable[[], None]) -> None:
        """From now on tell of every change of the znode, its creation included. A second listener replaces the first.

        Raises StoreRejected if the server refuses.
        """
        self._listeners[path] = listener
        self._watch(path)

    def _watch(self, path: str) -> None:
        """Watch the znode, or its creation."""
        self._see(path, self._insist(lambda: self._session.exists(path, is_watching=True)))

    def unsubscribe(self, path: str) -> None:
        """Tell no more. A watch that is set may still fire, and is passed over."""
        self._listeners.pop(path, None)

    def _tell(self) -> None:
        """The thread of events."""
        while not self._is_closed:
            event = self._session.next_event(None)
            try:
                if isinstance(event, WatchEvent):
                    self._changed(event.path, is_there=event.change is not Change.DELETED)
                elif event is SessionState.LOST:
                    for path in list(self._listeners):
                        self._changed(path, is_there=True)
                elif event is SessionState.CONNECTED:
                    self._catch_up()
            except LockError as error:
                self.failures.append(error)

    def _catch_up(self) -> None:
        """After a break: set the watches anew, and tell of what changed meanwhile."""
        for path in list(self._listeners):
            before = self._seen.get(path, 0)
            self._watch(path)
            if self._seen[path] != before:
                self._changed(path, is_there=True)

    def _changed(self, path: str, *, is_there: bool) -> None:
        """Set the watch anew, then call the listener if the znode is there.

        A read of a deleted znode would set no watch on its next creation, so it is asked whether the znode exists.
        """
        if path not in self._listeners:
            return
        if is_there:
            reply = self._read(path)
        else:
            reply = self._insist(lambda: self._session.exists(path))
        listener = self._listeners.get(path)
        if listener is not None and not reply.missing:
            listener()

    def close(self) -> None:
        """End the session and the thread. Idempotent."""
        self._is_closed = True
        self._listeners.clear()
        self._session.close()
