"""Apache ZooKeeper by kazoo: a channel that holds one session of one client at a time.

One call is one request (A2): kazoo's own retries are not used, for a retried create that had succeeded answers that the
znode exists. What an answer means is in `port.OUTCOMES`.

kazoo opens a new session by itself when the old one is over. A lock must know: so a request under the old session is
refused here until somebody asks for a new one.
"""

from __future__ import annotations

import json
import logging
import queue
import threading  # noqa: TID251 - kazoo tells of a session in a thread of its own, whatever the Runtime is
from collections.abc import Sequence
from typing import Any, Final

from kazoo import exceptions as errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, KeeperState

from lockref.coordination.diagnosis import is_without_quorum
from lockref.coordination.port import (
    CHILDREN,
    CLOSE,
    CONNECT,
    CREATE,
    DELETE,
    EXISTS,
    GET,
    MULTI,
    PING,
    SET,
    SYNC,
    ZNODE_BYTES_MAX,
    Call,
    Change,
    Failure,
    Operation,
    SessionBound,
    SessionState,
    Stat,
    WatchEvent,
    call_of,
    failed,
)  # fmt: skip
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from lockref.words import Outcome

_FAILURES: Final = {
    errors.NoNodeError: Failure.NO_NODE,
    errors.NodeExistsError: Failure.NODE_EXISTS,
    errors.BadVersionError: Failure.BAD_VERSION,
    errors.NotEmptyError: Failure.NOT_EMPTY,
    errors.NoChildrenForEphemeralsError: Failure.NO_CHILDREN_FOR_EPHEMERALS,
    errors.SessionExpiredError: Failure.SESSION_EXPIRED,
    errors.SessionMovedError: Failure.CONNECTION_LOST,
    errors.NoAuthError: Failure.NO_AUTH,
    errors.InvalidACLError: Failure.NO_AUTH,
    errors.AuthFailedError: Failure.AUTH_FAILED,
    errors.BadArgumentsError: Failure.BAD_ARGUMENTS,
    errors.NotReadOnlyCallError: Failure.READ_ONLY,
    errors.ThrottledOpError: Failure.THROTTLED,
    errors.QuotaExceededError: Failure.TOO_LARGE,
}
"""Every other error leaves open whether the request took effect."""

_CHANGES: Final = {
    EventType.CREATED: Change.CREATED,
    EventType.CHANGED: Change.CHANGED,
    EventType.DELETED: Change.DELETED,
    EventType.CHILD: Change.CHILDREN,
}

_STATES: Final = {KazooState.CONNECTED: SessionState.CONNECTED, KazooState.SUSPENDED: SessionState.SUSPENDED}

_READS: Final = (GET, EXISTS, CHILDREN)

_SHORTEST_WISH_MS: Final = 500
"""kazoo waits no longer for a server's first answer than the session timeout that it wishes for."""

_REQUEST_BYTES: Final = 64
"""What an operation takes in a request beside its path and its body, at most."""

RECONNECT_MAX_S: Final = 1.0
"""The longest pause between two attempts to reach a server, as in ZooKeeper's own client. With kazoo's default each
pause is twice the one before: after an outage of a minute the next attempt may come a minute later.
"""

_SESSION_CREATED: Final = "Session created"
_CLOSE_ANSWERED: Final = "Read close response"
_BLATHER: Final = 5
"""kazoo's log level for the lines that tell of a new session, and of one that a server has ended as it was asked."""


class _KazooLog(logging.Handler):
    """Reads off kazoo's log what it tells nowhere else. The log is quiet otherwise.

    timeout_ms: of the session, as the server chose it. is_close_answered: a server has ended the session as asked.
    """

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(_BLATHER)
        self.timeout_ms = 0
        self.is_close_answered = False
        self._log = log
        log.propagate = False
        log.handlers[:] = [self]
        log.setLevel(_BLATHER)

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(_SESSION_CREATED) and isinstance(record.args, tuple):
            timeout_ms = record.args[2]
            assert isinstance(timeout_ms, int), "kazoo tells the timeout in milliseconds"
            self.timeout_ms = timeout_ms
            # Not by its level: a logger remembers what was enabled, and forgets that only if `getLogger` has made it.
            self._log.disabled = True
        self.is_close_answered |= str(record.msg) == _CLOSE_ANSWERED

    def expect_close(self) -> None:
        """The session is about to be ended: the answer to that is told, too."""
        self._log.disabled = False


class ZooKeeperChannel:
    """A `PushChannel` to an ensemble.

    hosts: `HOST:PORT,HOST:PORT`, with `/FOLDER` behind it for a part of the tree (chroot). auth: scheme and credential.
    """

    capabilities = None

    def __init__(
        self, hosts: str, *, client: str = "", service: str = "store", auth: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.client = client
        self.service = service
        self._hosts = hosts
        self._auth = auth
        self._pushed: queue.SimpleQueue[WatchEvent | SessionState | None] = queue.SimpleQueue()
        self._kazoo: Any = None
        self._session = 0
        # What kazoo's own thread has told last; `_mutex` guards it, for that thread changes it at any time.
        self._mutex = threading.Lock()
        self._told_state = threading.Event()
        self._identity: tuple[int, bytes] | None = None
        self._watching: tuple[int, Any] = (0, None)
        self._is_auth_refused = False

    def send(self, request: Request, timeout_ns: int) -> Reply:
        """One request. Raises nothing for what a server can answer."""
        call, path = call_of(request), request.key
        if request.verb == CONNECT:
            return self._connect(call, timeout_ns)
        if request.verb == CLOSE and self._session and call.session == self._session:
            return Reply(Outcome.APPLIED) if self._leave() else TIMED_OUT._replace(reason="no server ended the session")
        sent = self._sent(request, path, call)
        return sent if isinstance(sent, Reply) else self._answer(sent, request, timeout_ns / NS_PER_S)

    def send_all(self, requests: Sequence[Request], timeout_ns: int) -> list[Reply]:
        """See `PipeliningChannel`. One connection carries them all, so a server takes them in this order."""
        under_way = [self._sent(request, request.key, call_of(request)) for request in requests]
        timeout_s = timeout_ns / NS_PER_S
        replies: list[Reply] = []
        for request, sent in zip(requests, under_way, strict=True):
            reply = sent if isinstance(sent, Reply) else self._answer(sent, request, timeout_s)
            if reply.outcome is Outcome.AMBIGUOUS:
                timeout_s = 0.0  # Nobody answers: whatever is behind it has had as long.
            replies.append(reply)
        return replies

    def _sent(self, request: Request, path: str, call: Call) -> Any:
        """The request under way, or the reply to one that is not sent."""
        kazoo = self._kazoo
        if self._is_auth_refused:
            return failed(Failure.AUTH_FAILED, path)
        if kazoo is None or self._session == 0 or call.session != self._session:
            return failed(Failure.SESSION_EXPIRED, path)
        # A server that is sent more ends the connection, and nobody knows why.
        size = sum(len(each.path.encode()) + len(each.body) + _REQUEST_BYTES for each in call.operations)
        if size > ZNODE_BYTES_MAX:
            return failed(Failure.TOO_LARGE, f"{path} ({size} bytes in one request)")
        try:
            return self._ask(kazoo, request.verb, path, call)
        except tuple(_FAILURES) as error:
            return failed(_FAILURES[type(error)], path, is_read=request.verb in _READS)
        except errors.KazooException as error:
            return TIMED_OUT._replace(reason=f"{type(error).__name__}: {path}")

    def _answer(self, sent: Any, request: Request, timeout_s: float) -> Reply:
        """Wait for the answer to what is under way."""
        path = request.key
        try:
            return _reply(request.verb, call_of(request), path, sent.get(timeout=timeout_s))
        except tuple(_FAILURES) as error:
            return failed(_FAILURES[type(error)], path, is_read=request.verb in _READS)
        except (errors.KazooException, KazooTimeoutError) as error:
            return TIMED_OUT._replace(reason=f"{type(error).__name__}: {path}")

    def _ask(self, kazoo: Any, verb: str, path: str, call: Call) -> Any:
        """The request under way: kazoo's promise of an answer."""
        watch = self._fired if call.is_watching else None
        if verb == GET:
            return kazoo.get_async(path, watch=watch)
        if verb == EXISTS:
            return kazoo.exists_async(path, watch=watch)
        if verb == PING:
            return kazoo.exists_async("/")
        if verb == CHILDREN:
            return kazoo.get_children_async(path, watch=watch, include_data=True)
        if verb == SYNC:
            return kazoo.sync_async(path)
        if verb == MULTI:
            transaction = kazoo.transaction()
            for operation in call.operations:
                _add(transaction, operation)
            return transaction.commit_async()
        (operation,) = call.operations
        if verb == CREATE:
            return kazoo.create_async(
                path,
                operation.body,
                ephemeral=operation.is_ephemeral,
                sequence=operation.is_sequential,
                include_data=True,
            )
        if verb == SET:
            return kazoo.set_async(path, operation.body, version=operation.version)
        assert verb == DELETE, f"a coordination service knows no {verb!r}"
        return kazoo.delete_async(path, version=operation.version)

    def _watch(self, session: int) -> Any:
        """One and the same for all reads of a session: kazoo keeps each, and calls each, until the znode changes."""
        if self._watching[0] != session:
            self._watching = session, self._told(session)
        return self._watching[1]

    def _told(self, session: int) -> Any:
        def fired(event: Any) -> None:
            change = _CHANGES.get(event.type)
            if change is not None:  # None: kazoo drops its watches when the connection breaks.
                self._pushed.put(WatchEvent(change, event.path, session))

        return fired

    # The session.

    def _connect(self, call: Call, timeout_ns: int) -> Reply:
        """A new session, in the place of the one before. A server that cannot be reached is tried again by kazoo."""
        if self._session or self._kazoo is None:
            self._leave()
            self._start(call)
        is_told = self._told_state.wait(timeout_ns / NS_PER_S)
        if self._is_auth_refused:
            return failed(Failure.AUTH_FAILED, f"the credentials for {self._hosts} were refused")
        with self._mutex:
            # None: the session that was told is over already.
            identity = self._identity if is_told else None
            self._session = identity[0] if identity is not None else 0
        if identity is None:
            reason = f"no server of {self._hosts} answered within {timeout_ns / NS_PER_S:g} s"
            if is_without_quorum(self._hosts):
                reason = f"{self._hosts} has no quorum, and its servers take no write"
            return TIMED_OUT._replace(reason=reason)
        session, password = identity
        # One for all watches of a session: one that is set twice fires once, as a server tells it.
        self._fired = self._watch(session)
        return Reply(Outcome.APPLIED, body=SessionBound(session, self._log.timeout_ms, password).to_bytes())

    def _start(self, call: Call) -> None:
        """A new client of kazoo's, which connects in a thread of its own."""
        log = logging.Logger("kazoo of lockref")
        self._log = _KazooLog(log)
        self._told_state.clear()
        kazoo = self._kazoo = KazooClient(
            hosts=self._hosts,
            timeout=max(call.timeout_ms, _SHORTEST_WISH_MS) / 1000,
            auth_data=list(self._auth),
            connection_retry={"max_tries": -1, "max_delay": RECONNECT_MAX_S},
            logger=log,
        )
        # Before it starts: kazoo connects first and sends the credentials then, so refused ones end a session that
        # was open. Whoever listens later misses that, and `client_id` is None.
        kazoo.add_listener(self._listener(kazoo))
        kazoo.start_async()

    def _listener(self, kazoo: Any) -> Any:
        def told(state: Any) -> None:
            with self._mutex:
                if kazoo is not self._kazoo:
                    return
                # To connect once more with refused credentials would end alike.
                self._is_auth_refused |= kazoo.client_state == KeeperState.AUTH_FAILED
                # Only the thread that calls us changes it.
                self._identity = kazoo.client_id if state == KazooState.CONNECTED else None
                if self._is_auth_refused or self._identity is not None:
                    self._told_state.set()
                else:
                    self._told_state.clear()
                if self._session == 0:
                    return
                if state == KazooState.LOST:
                    self._session = 0
                    self._pushed.put(SessionState.LOST)
                else:
                    self._pushed.put(_STATES[state])

        return told

    def _leave(self) -> bool:
        """End the session, if there is one, at once. True if a server has said that it is over."""
        with self._mutex:
            self._session, self._identity = 0, None
            kazoo, self._kazoo = self._kazoo, None
        if kazoo is None:
            return False
        self._log.expect_close()
        try:
            kazoo.stop()
        except errors.WriterNotClosedException:
            # kazoo's thread hangs in a request and ends after it. Its sockets stay open for as long: `close` refuses.
            return False
        kazoo.close()
        return self._log.is_close_answered

    def receive(self, timeout_ns: int | None) -> object | None:
        try:
            return self._pushed.get(timeout=None if timeout_ns is None else max(0, timeout_ns) / NS_PER_S)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the session and give back sockets and threads. Idempotent."""
        self._leave()
        self._pushed.put(None)


def _add(transaction: Any, operation: Operation) -> None:
    verb, path, body, version, is_ephemeral, is_sequential = operation
    if verb == CREATE:
        transaction.create(path, body, ephemeral=is_ephemeral, sequence=is_sequential)
    elif verb == SET:
        transaction.set_data(path, body, version)
    elif verb == DELETE:
        transaction.delete(path, version)
    else:
        transaction.check(path, version)


def _reply(verb: str, call: Call, path: str, answer: Any) -> Reply:
    """kazoo's answer to a request that succeeded, or to a transaction, which tells its failures in the answer."""
    if verb == MULTI:
        for operation, each in zip(call.operations, answer, strict=True):
            if isinstance(each, Exception) and type(each) in _FAILURES:
                return failed(_FAILURES[type(each)], operation.path)
        if any(isinstance(each, Exception) for each in answer):
            return TIMED_OUT._replace(reason=f"{type(answer[0]).__name__}: {path}")
        # A server tells what became of znodes that it sets, not of those that it creates.
        told = (_stat(each, op.path) for op, each in zip(call.operations, answer, strict=True) if op.verb == SET)
        return Reply(Outcome.APPLIED, next(told, None))
    if verb == GET:
        body, stat = answer
        return Reply(Outcome.APPLIED, _stat(stat, path), body)
    if verb == EXISTS:
        return (
            failed(Failure.NO_NODE, path, is_read=True)
            if answer is None
            else Reply(Outcome.APPLIED, _stat(answer, path))
        )
    if verb == CHILDREN:
        names, stat = answer
        return Reply(Outcome.APPLIED, _stat(stat, path), json.dumps(names).encode())
    if verb == CREATE:
        made, stat = answer
        return Reply(Outcome.APPLIED, _stat(stat, made))
    return Reply(Outcome.APPLIED, _stat(answer, path) if verb == SET else None)


def _stat(stat: Any, path: str) -> Stat:
    return Stat(
        created_zxid=stat.czxid,
        changed_zxid=stat.mzxid,
        version=stat.version,
        owner=stat.ephemeralOwner,
        children=stat.numChildren,
        path=path,
        changed_ms=stat.mtime,
    )
