"""A modelled ZooKeeper: sessions that a server ends, ephemeral znodes, one-shot watches, and servers that lag.

Writes have one order (zxid). Each server is a `Tree` to which the same transactions are applied, the followers' later.
A session is with one server. Its writes are answered when that server has them, so a session reads its own writes; what
others wrote may be seen late, unless the session asks for `sync`. The clock that ends sessions is the service's.

What is pushed to a session and what is answered to it arrive in one order, as over one connection (see `is_ordered`).

Source: ZooKeeper Programmer's Guide, "Consistency Guarantees", "ZooKeeper Watches" and "ZooKeeper Sessions". Left out:
access control lists, quotas, containers and time to live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from lockref.coordination.port import (
    CHILDREN,
    CLOSE,
    CONNECT,
    CREATE,
    EXISTS,
    GET,
    MULTI,
    PING,
    SET,
    SYNC,
    Call,
    Change,
    Failure,
    Operation,
    SessionBound,
    Stat,
    WatchEvent,
    change,
    create,
    delete,
    failed,
    names_written,
)  # fmt: skip
from lockref.coordination.znodes import TransactionResult, Tree
from lockref.ports import Reply, Request, of_fields
from lockref.runtime import NS_PER_MS
from lockref.words import Op, Outcome
from sim.journey import Refusal
from sim.services.service import EXPIRE, ServiceContext, refused, unknown_act

EXPIRE_SESSION = "expire_session"
"""The act of `tamper` by which a session ends although its client is alive; the key is the client's node."""

_DATA, _CHILDREN = "data", "children"

_READS = (GET, EXISTS, CHILDREN)
_OUTCOME_APPLIED = Outcome.APPLIED


def _read_reply(stat: Stat, body: bytes | None) -> Reply:
    return of_fields(Reply, (_OUTCOME_APPLIED, stat, body, False, None, ""))


@dataclass(slots=True)
class _Server:
    """One server: its tree, how late it applies what others decided, and the watches of its sessions."""

    lag_ns: int
    tree: Tree = field(default_factory=Tree)
    watches: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)


@dataclass(slots=True)
class _Session:
    """heard_ns: when the leader last heard of it, in true time."""

    id: int
    client: str
    server: _Server
    timeout_ns: int
    heard_ns: int


class CoordinationService:
    """An ensemble, seen as one service.

    lags_ns: of each server, how late it applies what was written through another; the first is the leader.
    tick_ns: sessions end at whole ticks, never before their timeout. timeout_ms: bounds of session timeouts.
    """

    capabilities = None
    is_ordered = True

    def __init__(
        self,
        *,
        lags_ns: tuple[int, ...] = (0,),
        tick_ns: int = 100 * NS_PER_MS,
        timeout_ms: tuple[int, int] = (200, 60_000),
    ) -> None:
        assert lags_ns, "an ensemble has a server"
        self._servers = [_Server(lag_ns) for lag_ns in lags_ns]
        self._tick_ns = tick_ns
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}
        self._issued = 0
        # What every server applies, in order: (session, operations), or None in the place of a session's end.
        self._log: list[tuple[int, tuple[Operation, ...] | None]] = []
        self._applied = [0 for _ in lags_ns]
        # By path, newest last: (since, state): for reads that a fault makes stale.
        self._states: dict[str, list[tuple[int, bytes | None, Stat | None]]] = {}

    def start(self, context: ServiceContext) -> None:
        self._context = context

    @property
    def _leader(self) -> _Server:
        return self._servers[0]

    def present_keys(self) -> list[str]:
        return [path for path in self._leader.tree.paths() if self._leader.tree.body(path)]

    # Requests.

    def apply(self, request: Request, at_ns: int) -> Reply:
        call = request.body
        assert isinstance(call, Call), "a request of the coordination port is a Call"
        verb = request.verb
        if verb == CONNECT:
            return self._connect(request.client, call, at_ns)
        session = self._sessions.get(call.session)
        if session is None:
            return failed(Failure.SESSION_EXPIRED, request.key)
        session.heard_ns = at_ns
        # Most requests are reads.
        if verb in _READS:
            return self._read(session, verb, request.key, is_watching=call.is_watching)
        if verb == PING:
            return Reply(Outcome.APPLIED)
        if verb == CLOSE:
            self._end(session)
            return Reply(Outcome.APPLIED)
        if verb == SYNC:
            self._catch_up(session.server)
            return Reply(Outcome.APPLIED)
        return self._write(session, verb, call.operations)

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        """Refuse a request before its session is looked at: the request does not keep the session alive.

        What an HTTP status says of a condition or of an absent object, a ZooKeeper would say only where it is so.
        """
        reply = refused(request, refusal)
        if reply.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
            reply = reply._replace(outcome=Outcome.REJECTED, missing=False)
        return reply

    def _connect(self, client: str, call: Call, at_ns: int) -> Reply:
        """A new session. The clients are spread over the servers in order of their sessions."""
        self._issued += 1
        least, most = self._timeout_ms
        timeout_ms = min(max(call.timeout_ms, least), most)
        server = self._servers[(self._issued - 1) % len(self._servers)]
        session = _Session(self._issued, client, server, timeout_ms * NS_PER_MS, at_ns)
        self._sessions[session.id] = session
        self._watch_clock(session)
        return Reply(Outcome.APPLIED, body=SessionBound(session.id, timeout_ms, b"").to_bytes())

    def _watch_clock(self, session: _Session) -> None:
        """Look again when the session would end, at a whole tick."""
        due_ns = session.heard_ns + session.timeout_ns
        self._context.call_at(-(-due_ns // self._tick_ns) * self._tick_ns, partial(self._look_at, session))

    def _look_at(self, session: _Session) -> None:
        if self._sessions.get(session.id) is not session:
            return
        if self._context.now_ns < session.heard_ns + session.timeout_ns:
            self._watch_clock(session)
        else:
            self._end(session)

    def _end(self, session: _Session) -> None:
        """The session is over, and its ephemeral znodes go. A client that does not ask hears nothing."""
        del self._sessions[session.id]
        for path in self._leader.tree.owned_by(session.id):
            self._context.changed(Op.DELETE, path)
        self._decide(session.id, None)

    def _read(self, session: _Session, verb: str, path: str, *, is_watching: bool) -> Reply:
        tree = session.server.tree
        stat = tree.stat(path)
        if is_watching and (stat is not None or verb == EXISTS):
            kind = _CHILDREN if verb == CHILDREN else _DATA
            session.server.watches.setdefault((kind, path), {})[session.id] = None
        if stat is None:
            return failed(Failure.NO_NODE, path, is_read=True)
        if verb == CHILDREN:
            return _read_reply(stat, names_written(tree.children(path)))
        return _read_reply(stat, tree.body(path) if verb == GET else None)

    def _write(self, session: _Session, verb: str, operations: tuple[Operation, ...]) -> Reply:
        applied = self._decide(session.id, operations)
        if applied.failure is not None:
            return failed(applied.failure, applied.path)
        self._catch_up(session.server)
        # Clients hear what a transaction did to znodes that it sets, and not to znodes that it creates.
        told = (SET,) if verb == MULTI else (CREATE, SET)
        stats = zip(applied.stats, operations, strict=True)
        return Reply(Outcome.APPLIED, next((stat for stat, each in stats if each.verb in told), None))

    # The order of writes, and the servers that follow it.

    def _decide(self, session: int, operations: tuple[Operation, ...] | None) -> TransactionResult:
        """The leader applies a transaction; each follower will, after its lag."""
        applied = self._apply_to(self._leader, session, operations)
        if applied.failure is None:
            self._log.append((session, operations))
            self._applied[0] = len(self._log)
            for server in self._servers[1:]:
                self._context.call_at(
                    self._context.now_ns + server.lag_ns, partial(self._follow, server, len(self._log))
                )
        return applied

    def _catch_up(self, server: _Server) -> None:
        self._follow(server, len(self._log))

    def _follow(self, server: _Server, until: int) -> None:
        place = next(place for place, each in enumerate(self._servers) if each is server)
        for session, operations in self._log[self._applied[place] : until]:
            applied = self._apply_to(server, session, operations)
            assert applied.failure is None, "a follower applies what the leader has decided"
        self._applied[place] = max(self._applied[place], until)
        assert server.tree.zxid <= self._leader.tree.zxid, "a follower is ahead of its leader"

    def _apply_to(self, server: _Server, session: int, operations: tuple[Operation, ...] | None) -> TransactionResult:
        applied = server.tree.close_session(session) if operations is None else server.tree.apply(operations, session)
        if applied.failure is not None:
            return applied
        if server is self._leader:
            self._remember(applied)
        told: dict[tuple[int, WatchEvent], None] = {}
        for event in applied.events:
            for kind in (_CHILDREN,) if event.change is Change.CHILDREN else (_DATA, _CHILDREN):
                if kind == _CHILDREN and event.change not in (Change.CHILDREN, Change.DELETED):
                    continue
                for watcher in server.watches.pop((kind, event.path), {}):
                    told[watcher, event] = None
        for watcher, event in told:
            watching = self._sessions.get(watcher)
            if watching is not None:
                self._context.push(watching.client, event._replace(session=watcher))
        return applied

    # What happens without a request.

    def _remember(self, applied: TransactionResult) -> None:
        tree, now_ns = self._leader.tree, self._context.now_ns
        for event in applied.events:
            if event.change is not Change.CHILDREN:
                state = (now_ns, tree.body(event.path), tree.stat(event.path))
                self._states.setdefault(event.path, []).append(state)

    def past(self, key: str, lag_ns: int) -> Reply:
        as_of_ns = self._context.now_ns - lag_ns
        for since_ns, body, stat in reversed(self._states.get(key, ())):
            if since_ns <= as_of_ns:
                if stat is None:
                    break
                return Reply(Outcome.APPLIED, stat, body)
        return failed(Failure.NO_NODE, key, is_read=True)

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        """`put` writes or creates with `body`, `delete` removes, `expire_session` ends every session of node `key`."""
        if act == EXPIRE_SESSION:
            ended = [session for session in self._sessions.values() if session.client == key]
            for session in ended:
                self._end(session)
            return len(ended)
        if act == EXPIRE:
            return 0  # Znodes have no time to live here.
        if act not in ("put", "delete"):
            raise unknown_act(act, ("put", "delete", EXPIRE, EXPIRE_SESSION))
        is_there = self._leader.tree.stat(key) is not None
        if act == "delete":
            operation = delete(key)
        else:
            assert body is not None, "what is put has a body"
            operation = change(key, body) if is_there else create(key, body)
        if self._decide(0, (operation,)).failure is not None:
            return 0
        stat = self._leader.tree.stat(key)
        self._context.changed(Op.DELETE if stat is None else Op.WRITE, key, stat or "", self._leader.tree.body(key))
        return 1
