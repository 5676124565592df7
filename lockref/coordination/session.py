"""A client's session: its requests, its watches, and until when the server cannot have ended it.

ZooKeeper ends a session that it has not heard from for the timeout, by the server's clock. The client learns of it
only when it is connected again; a frozen process learns of it last of all (Z9, Z10). So a client that works under its
session must know by itself when to stop: `is_safe`. It counts from a stamp that was taken before a request was sent
which the server has answered, so the server counts from a later instant.

The session is kept alive by a request every quarter of the timeout, also where the channel's library pings by itself:
kazoo does not tell when it last heard from a server, and only an answered request of one's own confirms a contact.

Prior art: kazoo's states CONNECTED, SUSPENDED and LOST; Java's client learnt to expire locally in ZOOKEEPER-4508.
Rejected: to stop work on SUSPENDED alone. That event comes from a timer of the same process, which may be frozen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
    Call,
    Failure,
    NamesReply,
    Operation,
    SessionBound,
    SessionState,
    Stat,
    WatchEvent,
    is_failure,
    names_read,
    reading,
)  # fmt: skip
from lockref.coordination.port import change as change_operation
from lockref.coordination.port import create as create_operation
from lockref.coordination.port import delete as delete_operation
from lockref.errors import BackendUnavailable, ConfigError
from lockref.ports import Channel, PipeliningChannel, PortKind, PushChannel, Reconnected, Reply, Request, of_fields
from lockref.runtime import Event as Signal
from lockref.runtime import MonoNs, Runtime, WallNs
from lockref.words import ABSENT, IF_ABSENT, Op, Outcome

KEEPALIVES_PER_TIMEOUT: Final = 4
"""So many requests confirm the contact within one session timeout."""

SUSPENDED_AFTER: Final = (2, 3)
"""The share of the timeout without an answer after which the session counts as suspended, as in ZooKeeper's clients."""

CONNECT_ATTEMPTS: Final = 4

PIPELINED_MAX: Final = 256
"""So many reads are under way at a time: a keep-alive waits behind no more than these."""

_READ_OPS: Final = {GET: Op.READ, EXISTS: Op.NONE}
"""The verbs of `read_all`, and what each is to a history. Names are asked for by `children_of_all`."""

_OP_NONE: Final = Op.NONE
_DECIDED: Final = (Outcome.APPLIED, Outcome.PRECONDITION_FAILED)

Event = WatchEvent | SessionState


class ReadRequest(NamedTuple):
    """One read of `read_all`. verb: GET or EXISTS."""

    verb: str
    path: str
    is_watching: bool = True


class _Stamp(NamedTuple):
    """One instant on both clocks of this process."""

    mono_ns: MonoNs
    wall_ns: WallNs


def _span_ns(timeout_ns: int, rate_bound_ppm: int) -> int:
    """The least length of the timeout on our clock, when the server's clock may be faster by `rate_bound_ppm`."""
    return timeout_ns * 1_000_000 // (1_000_000 + rate_bound_ppm)


def has_ended(reply: Reply | None) -> bool:
    """Does the answer to `Session.end` say that the session is over? None says that it was over before."""
    return reply is None or reply.outcome is Outcome.APPLIED or is_failure(reply, Failure.SESSION_EXPIRED)


class Session:
    """One client's session. Requests may be made from several tasks; events are taken by one.

    request_timeout_ns: bounds each request. Made by `COORDINATION.over`; `start` opens it.
    """

    def __init__(self, channel: Channel, request_timeout_ns: int) -> None:
        self._channel = channel
        # Asked here once: `isinstance` of a protocol looks up each of its members, which costs as much as a request.
        self._pipelining = channel if isinstance(channel, PipeliningChannel) else None
        self._pushing = channel if isinstance(channel, PushChannel) else None
        self._request_timeout_ns = request_timeout_ns
        self._state = SessionState.LOST
        self._bound = SessionBound(0, 0, b"")
        self._confirmed = _Stamp(MonoNs(0), WallNs(0))
        self._events: deque[Event] = deque()
        self._over: Signal | None = None
        self._is_closed = False
        self._is_known_over = False
        self._is_pumping = False

    def start(self, runtime: Runtime, *, timeout_ns: int, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Open a new session, and keep it alive until `end` or `close`. After LOST and `end` it may be called again.

        timeout_ns: how long the server shall wait for a silent client; the server may choose another (`timeout_ns`).
        is_wanted: asked before each attempt, and before the pause after one that failed.
        Errors: ConfigError for a timeout that is no positive number; BackendUnavailable if no server answers, if nobody
        wants the session any more, or after `close`.
        """
        if timeout_ns <= 0:
            raise ConfigError(f"a session timeout of {timeout_ns} ns; expected a positive number of nanoseconds")
        if not self._is_pumping:
            self._runtime = runtime
            self._mutex = runtime.mutex()
            self._arrived = runtime.event()
            self._ended = runtime.event()
        self._connect(timeout_ns, is_wanted)
        session, over = self.id, runtime.event()
        self._over = over
        runtime.spawn(lambda: self._keep_alive(session, over), name="session keep-alive")
        if not self._is_pumping and self._pushing is not None:
            # One task for all sessions of this channel: of two, the one of the old session would take the new one's.
            self._is_pumping = True
            runtime.spawn(self._take_pushes, name="session pushes")

    def _connect(self, timeout_ns: int, is_wanted: Callable[[], bool]) -> None:
        reply = None
        attempts = 0
        while attempts < CONNECT_ATTEMPTS:
            attempts += 1
            if self._is_closed or not is_wanted():
                raise BackendUnavailable(f"a session with {self._channel.service} is not wanted any more")
            sent = self._stamp()
            reply = self._send(CONNECT, "/", Call(0, timeout_ms=max(1, timeout_ns // 1_000_000)))
            if reply.outcome is Outcome.APPLIED:
                assert reply.body is not None, "a server answers CONNECT with a session"
                self._bound, self._confirmed = SessionBound.from_bytes(reply.body), sent
                self._state = SessionState.CONNECTED
                return
            # Asked before the pause: the caller's time may be over with this answer, and may not get longer (L5).
            if reply.outcome is Outcome.REJECTED or not is_wanted() or self._ended.wait(self._request_timeout_ns // 4):
                break
        tried = f" ({attempts} attempts)" if attempts > 1 else ""
        reason = "" if reply is None else reply.reason
        raise BackendUnavailable(f"no session with {self._channel.service}: {reason}{tried}")

    # What is known of the session.

    @property
    def client(self) -> str:
        """The node whose session it is."""
        return self._channel.client

    @property
    def service(self) -> str:
        """The name of the service, for messages."""
        return self._channel.service

    @property
    def id(self) -> int:
        """The session's identity, as znodes name their owner."""
        return self._bound.session

    @property
    def password(self) -> bytes:
        """With it and `id` another client can speak for this session. Never log it."""
        return self._bound.password

    @property
    def timeout_ns(self) -> int:
        """The time for which the server waits for a silent client."""
        return self._bound.timeout_ms * 1_000_000

    @property
    def state(self) -> SessionState:
        return self._state

    def is_safe(self, *, rate_bound_ppm: int, margin_ns: int) -> bool:
        """Is the session connected, and can the server not have ended it yet? Local: no request, no waiting.

        rate_bound_ppm: how much faster the server's clock may run than this one, in parts per million. margin_ns: how
        long an act takes that begins now. Either clock may say no: in a machine that is suspended the monotonic clock
        may stand still (U2), and to stop early is always safe. Source: Z9, Z10, T17.
        """
        if self._state is not SessionState.CONNECTED:
            return False
        now, confirmed = self._stamp(), self._confirmed
        span_ns = _span_ns(self.timeout_ns, rate_bound_ppm) - margin_ns
        return now.mono_ns - confirmed.mono_ns < span_ns and now.wall_ns - confirmed.wall_ns < span_ns

    def safe_until_ns(self, *, rate_bound_ppm: int, margin_ns: int) -> MonoNs:
        """The instant of this process's monotonic clock until which the server cannot have ended the session."""
        return MonoNs(self._confirmed.mono_ns + _span_ns(self.timeout_ns, rate_bound_ppm) - margin_ns)

    def _stamp(self) -> _Stamp:
        runtime = self._runtime
        return of_fields(_Stamp, (runtime.monotonic_ns(), runtime.wall_ns()))

    # Requests.

    def get(self, path: str, *, is_watching: bool = False) -> Reply:
        """body: the znode's bytes; version: its `Stat`; `missing` where there is none, and then no watch."""
        return self._send(GET, path, reading(self.id, is_watching=is_watching), Op.READ)

    def exists(self, path: str, *, is_watching: bool = False) -> Reply:
        """As `get` without the bytes; a watch is set also where there is none."""
        return self._send(EXISTS, path, reading(self.id, is_watching=is_watching))

    def children(self, path: str, *, is_watching: bool = False) -> NamesReply:
        """body: the sorted names below the znode."""
        return names_read(self._send(CHILDREN, path, reading(self.id, is_watching=is_watching)))

    def read_all(self, reads: Sequence[ReadRequest]) -> list[Reply]:
        """The answers to many reads, as `get` and `exists` give them, in the order of the reads.

        Where the channel can, many are under way at a time. A server answers them in order: what one of them saw, a
        later one sees, too.
        """
        return self._sent_all([(verb, path, is_watching, _READ_OPS[verb]) for verb, path, is_watching in reads])

    def children_of_all(self, paths: Sequence[str]) -> list[NamesReply]:
        """The answers to many `children`, each with a watch, as `read_all` gives those of reads."""
        return [names_read(reply) for reply in self._sent_all([(CHILDREN, path, True, Op.NONE) for path in paths])]

    def _sent_all(self, reads: Sequence[tuple[str, str, bool, Op]]) -> list[Reply]:
        """The answers to reads that are given as verb, path, whether to watch, and operation."""
        session = self.id
        requests = [
            self._request(verb, path, reading(session, is_watching=is_watching), op)
            for verb, path, is_watching, op in reads
        ]
        replies: list[Reply] = []
        if self._pipelining is not None:
            for start in range(0, len(requests), PIPELINED_MAX):
                part, sent = requests[start : start + PIPELINED_MAX], self._stamp()
                answers = self._pipelining.send_all(part, self._request_timeout_ns)
                replies += [self._heard(reply, session, sent) for reply in answers]
        else:
            replies = [self._sent(request, session) for request in requests]
        return replies

    def create(self, path: str, body: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False) -> Reply:
        """version.path: the name that the server gave."""
        operation = create_operation(path, body, is_ephemeral=is_ephemeral, is_sequential=is_sequential)
        return self._send(CREATE, path, Call(self.id, (operation,)), Op.WRITE, IF_ABSENT)

    def set(self, path: str, body: bytes, expected: Stat | None = None) -> Reply:
        """expected: what a read showed; the write fails if the znode's version is another by now."""
        operation = change_operation(path, body) if expected is None else change_operation(path, body, expected.version)
        return self._send(SET, path, Call(self.id, (operation,)), Op.WRITE, expected or "")

    def delete(self, path: str, expected: Stat | None = None) -> Reply:
        operation = delete_operation(path) if expected is None else delete_operation(path, expected.version)
        return self._send(DELETE, path, Call(self.id, (operation,)), Op.DELETE, expected or "")

    def multi(self, operations: Sequence[Operation]) -> Reply:
        """All or nothing. A history sees it as a write of the first path that it creates or sets.

        version: of the first znode that it sets; None where it sets none, for servers do not tell of created ones.
        """
        path = next((each.path for each in operations if each.verb in (CREATE, SET)), operations[0].path)
        return self._send(MULTI, path, Call(self.id, tuple(operations)), Op.WRITE)

    def sync(self, path: str = "/") -> Reply:
        """Reads of this session that follow see whatever any client was told before this request."""
        return self._send(SYNC, path, Call(self.id))

    def _send(self, verb: str, path: str, call: Call, op: Op = Op.NONE, condition: str = "") -> Reply:
        return self._sent(self._request(verb, path, call, op, condition), call.session)

    def _request(self, verb: str, path: str, call: Call, op: Op, condition: str = "") -> Request:
        channel = self._channel
        fields = (channel.client, channel.service, verb, path, condition, call, op, ABSENT, (), False, _OP_NONE)
        return of_fields(Request, fields)

    def _sent(self, request: Request, session: int) -> Reply:
        sent = self._stamp()
        return self._heard(self._channel.send(request, self._request_timeout_ns), session, sent)

    def _heard(self, reply: Reply, session: int, sent: _Stamp) -> Reply:
        """Learn from an answer whether the session lives. sent: an instant before the request left.

        session: under which the request was made; 0 for CONNECT, which is made under none.

        Only what was done, or compared and not done, shows that the server has counted this session as alive. What is
        refused may have been refused on the way there: by this client's own library, or before sessions are looked at.
        """
        if session and session == self._bound.session:
            if is_failure(reply, Failure.SESSION_EXPIRED):
                self._become(SessionState.LOST)
            elif reply.outcome in _DECIDED and self._state is not SessionState.LOST:
                self._confirmed = max(self._confirmed, sent)
                self._become(SessionState.CONNECTED)
        return reply

    # Events.

    def next_event(self, timeout_ns: int | None) -> Event | None:
        """The next watch that fired, or change of the session's state; None if none came in time, or after `close`.

        CONNECTED says that watches may have been lost before it: whoever relies on them looks anew (Z14).
        """
        with self._mutex:
            if self._events:
                return self._events.popleft()
            self._arrived.clear()
        self._arrived.wait(timeout_ns)
        with self._mutex:
            return self._events.popleft() if self._events else None

    def _put(self, event: Event) -> None:
        with self._mutex:
            self._events.append(event)
            self._arrived.set()

    def _become(self, state: SessionState) -> None:
        # Asked once before the mutex is taken: every answer says that the session is connected.
        if self._state is state:
            return
        with self._mutex:
            if self._state in (state, SessionState.LOST):
                return
            self._state = state
        self._put(state)

    def _take_pushes(self) -> None:
        channel = self._pushing
        assert channel is not None, "only such a channel pushes"
        while not self._is_closed:
            message = channel.receive(self.timeout_ns)
            # The watches of a session before this one may still tell.
            if isinstance(message, WatchEvent) and message.session == self.id:
                self._put(message)
            elif isinstance(message, SessionState):
                self._become(message)
            elif isinstance(message, Reconnected) and self._state is SessionState.CONNECTED:
                # It went by too quickly for SUSPENDED. Watches may have fired, and nobody was told.
                self._put(SessionState.CONNECTED)

    def _keep_alive(self, session: int, over: Signal) -> None:
        """Ask in time that this session lives on. over: set when it is ended, so that no task outlives its session."""
        interval_ns = self.timeout_ns // KEEPALIVES_PER_TIMEOUT
        while not self._is_over(session):
            over.wait(interval_ns)
            self._notice_silence(session)
            if self._is_over(session):
                return
            # Without an answer this lasts until it times out, which may be when the session ends: so look before it.
            self._send(PING, "/", Call(session))
            self._notice_silence(session)

    def _notice_silence(self, session: int) -> None:
        share, whole = SUSPENDED_AFTER
        silent_ns = self._runtime.monotonic_ns() - self._confirmed.mono_ns
        if self.id == session and silent_ns > self.timeout_ns * share // whole:
            self._become(SessionState.SUSPENDED)

    def _is_over(self, session: int) -> bool:
        return self._is_closed or self._state is SessionState.LOST or self.id != session

    def end(self, session: int | None = None) -> Reply | None:
        """End the session at once: its ephemeral znodes go. None if there is none to end.

        session: the id of the session that is to end; None for the present one. Another task may open the next session
        before this one is ended, or while the answer to that is awaited: the next one stays.
        Without an answer the server ends it by itself, one timeout after it last heard.
        """
        session = self.id if session is None else session
        if session != self.id:
            return None
        if self._state is SessionState.LOST:
            if self._over is not None:
                self._over.set()
            if self._events:
                # A request found out first. What is still queued of this session must not end the next one.
                with self._mutex:
                    self._events.clear()
            return None
        over = self._over
        reply = self._send(CLOSE, "/", Call(session))
        assert over is not None, "a session that lives has a keep-alive"
        over.set()
        with self._mutex:
            if session == self.id:
                self._state = SessionState.LOST
                self._events.clear()
                # A task that waits for an event of this session must not wait on, and take one of the next session.
                self._arrived.set()
        return reply

    def close(self) -> bool:
        """End the session and give back what the channel has. Idempotent.

        Returns whether the session is known to be over. Without an answer the server ends it by itself.
        """
        if self._is_closed:
            return self._is_known_over
        self._is_closed = True
        self._is_known_over = self._state is SessionState.LOST
        if self._is_pumping or self._state is not SessionState.LOST:
            reply = self.end()
            if reply is not None:
                self._is_known_over = has_ended(reply)
            self._ended.set()
            self._arrived.set()
        self._channel.close()
        return self._is_known_over


COORDINATION: Final = PortKind("coordination", Session)
