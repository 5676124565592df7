"""The coordination port: znodes under paths, sessions that own some of them, and watches that tell of changes.

The requests are Apache ZooKeeper's. The recorder, the wire and the faults know only four things of a service: key,
bytes, condition and version. So the further parts of a request travel in its body (`Call`), and the further facts about
a znode travel in its version (`Stat`).

The client keeps its session alive: see `lockref.coordination.session`. Some channels stand on a library that does so by
itself (kazoo); the requests are the same.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Self

from lockref.ports import Reply, Request, of_fields
from lockref.words import Outcome

CONNECT, PING, CLOSE = "connect", "ping", "close"
"""Verbs about the session itself."""

GET, EXISTS, CHILDREN, SYNC = "get", "exists", "children", "sync"
"""Verbs that change nothing. A read may show an older state than another client has written; `sync` forbids that for
the reads behind it in the same session."""

CREATE, SET, DELETE, CHECK, MULTI = "create", "set", "delete", "check", "multi"
"""Verbs that change znodes; `check` compares a version only, and stands in a `multi`, which happens as a whole or not
at all."""

ANY_VERSION: Final = -1
"""As the version of a condition: none."""

ZNODE_BYTES_MAX: Final = 1_048_575
"""ZooKeeper's default limit of one request (jute.maxbuffer)."""


class Operation(NamedTuple):
    """One change of one znode, alone or as a part of a `multi`.

    version: what the znode must have, of SET, DELETE and CHECK. is_ephemeral: the znode ends with the session that
    creates it. is_sequential: the server adds ten digits to the path.
    """

    verb: str
    path: str
    body: bytes = b""
    version: int = ANY_VERSION
    is_ephemeral: bool = False
    is_sequential: bool = False


def create(path: str, body: bytes = b"", *, is_ephemeral: bool = False, is_sequential: bool = False) -> Operation:
    """Make a znode. Fails if there is one, or no parent."""
    return Operation(CREATE, path, body, is_ephemeral=is_ephemeral, is_sequential=is_sequential)


def change(path: str, body: bytes, version: int = ANY_VERSION) -> Operation:
    """Write the body of a znode. Fails if there is none, or if it has another version."""
    return Operation(SET, path, body, version)


def delete(path: str, version: int = ANY_VERSION) -> Operation:
    """Remove a znode. Fails if there is none, if it has another version, or if it has children."""
    return Operation(DELETE, path, b"", version)


def check(path: str, version: int = ANY_VERSION) -> Operation:
    """Only compare: for a `multi` that must not happen unless the znode is there, with this version."""
    return Operation(CHECK, path, b"", version)


class Call(bytes):
    """The content of a request. Its bytes, as a history sees them, are the body that its first write gives.

    session: the identity of the session, 0 for none yet. operations: of a write. is_watching: of a read, tell the next
    change. timeout_ms: of CONNECT, how long the session may be silent. password: of CONNECT, of the session to resume.
    """

    session: int
    operations: tuple[Operation, ...]
    is_watching: bool
    timeout_ms: int
    password: bytes

    def __new__(
        cls,
        session: int,
        operations: tuple[Operation, ...] = (),
        *,
        is_watching: bool = False,
        timeout_ms: int = 0,
        password: bytes = b"",
    ) -> Self:
        written = next((each.body for each in operations if each.verb in (CREATE, SET)), b"") if operations else b""
        self = super().__new__(cls, written)
        self.session = session
        self.operations = operations
        self.is_watching = is_watching
        self.timeout_ms = timeout_ms
        self.password = password
        return self


@lru_cache(maxsize=64)
def reading(session: int, *, is_watching: bool) -> Call:
    """The content of a read, which is the same for all reads of a session that watch, and for all that do not."""
    return Call(session, is_watching=is_watching)


def call_of(request: Request) -> Call:
    """The content of a request of this port."""
    assert isinstance(request.body, Call), "a request of the coordination port is a Call"
    return request.body


class Stat(str):
    """The status of a znode, as a server reports it. As a string it is different for any two states of the znode.

    created_zxid: the transaction that created it (czxid); it rises over the life of an ensemble, changes of leader
    included, and is the fencing token of whatever the znode stands for. changed_zxid: the last one that wrote its body
    (mzxid). owner: the session that it ends with, 0 for none. children: how many. path: of a created one, its name.
    changed_ms: when its body was last written, in milliseconds since 1970 by the server's clock (mtime); None where
    nobody says. No lock may rely on it.
    """

    __slots__ = ("changed_ms", "changed_zxid", "children", "created_zxid", "owner", "path", "version")

    created_zxid: int
    changed_zxid: int
    version: int
    owner: int
    children: int
    path: str
    changed_ms: int | None

    def __new__(
        cls,
        *,
        created_zxid: int,
        changed_zxid: int,
        version: int,
        owner: int = 0,
        children: int = 0,
        path: str = "",
        changed_ms: int | None = None,
    ) -> Self:
        self = super().__new__(cls, f"{created_zxid:x}.{version}")
        self.created_zxid = created_zxid
        self.changed_zxid = changed_zxid
        self.version = version
        self.owner = owner
        self.children = children
        self.path = path
        self.changed_ms = changed_ms
        return self


class Change(StrEnum):
    """The kind of change that a watch tells of."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class SessionState(StrEnum):
    """The state of a session, as far as its client knows it.

    SUSPENDED: no server has answered for so long that the session may end unseen. LOST: a server has said that it is
    over; nothing of it is left. A frozen or disconnected process hears of LOST only when it is connected again (Z10).
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class WatchEvent(NamedTuple):
    """A watch has fired; it is spent. session: whose watch."""

    change: Change
    path: str
    session: int = 0


class Failure(StrEnum):
    """Why a write changed nothing, and what a read did not find. The names are ZooKeeper's error codes."""

    NO_NODE = "NoNode"
    NODE_EXISTS = "NodeExists"
    BAD_VERSION = "BadVersion"
    NOT_EMPTY = "NotEmpty"
    NO_CHILDREN_FOR_EPHEMERALS = "NoChildrenForEphemerals"
    SESSION_EXPIRED = "SessionExpired"
    TOO_LARGE = "TooLarge"
    NO_AUTH = "NoAuth"
    AUTH_FAILED = "AuthFailed"
    BAD_ARGUMENTS = "BadArguments"
    CONNECTION_LOST = "ConnectionLoss"
    TIMEOUT = "OperationTimeout"
    READ_ONLY = "NotReadOnly"
    THROTTLED = "ThrottledOp"


OUTCOMES: Final = {
    Failure.NO_NODE: Outcome.PRECONDITION_FAILED,
    Failure.NODE_EXISTS: Outcome.PRECONDITION_FAILED,
    Failure.BAD_VERSION: Outcome.PRECONDITION_FAILED,
    Failure.NOT_EMPTY: Outcome.PRECONDITION_FAILED,
    Failure.NO_CHILDREN_FOR_EPHEMERALS: Outcome.REJECTED,
    Failure.SESSION_EXPIRED: Outcome.REJECTED,
    Failure.TOO_LARGE: Outcome.REJECTED,
    Failure.NO_AUTH: Outcome.REJECTED,
    Failure.AUTH_FAILED: Outcome.REJECTED,
    Failure.BAD_ARGUMENTS: Outcome.REJECTED,
    Failure.CONNECTION_LOST: Outcome.AMBIGUOUS,
    Failure.TIMEOUT: Outcome.AMBIGUOUS,
    Failure.READ_ONLY: Outcome.REJECTED,
    Failure.THROTTLED: Outcome.THROTTLED,
}
"""May a write have taken effect? Every code that a server or its client library gives has one answer."""


def failed(failure: Failure, path: str, *, is_read: bool = False) -> Reply:
    """The answer to a request that changed nothing, or whose outcome is unknown.

    A read of an absent znode is answered: there is none.
    """
    is_missing = failure is Failure.NO_NODE
    outcome = Outcome.APPLIED if is_read and is_missing else OUTCOMES[failure]
    return Reply(outcome, missing=is_missing, reason=f"{failure.value}: {path}" if path else failure.value)


class NamesReply(NamedTuple):
    """The answer to CHILDREN, as `Reply`. body: the sorted names below the znode; None where there is none."""

    outcome: Outcome
    version: str | None
    body: list[str] | None
    missing: bool
    status: int | None
    reason: str


# The names below a znode are asked for far more often than they change.


@lru_cache(maxsize=256)
def names_written(names: tuple[str, ...]) -> bytes:
    """The names below a znode as the body of the answer to CHILDREN: JSON."""
    return json.dumps(names).encode()


@lru_cache(maxsize=256)
def _sorted_names(body: bytes) -> tuple[str, ...]:
    return tuple(sorted(json.loads(body)))


def names_read(reply: Reply) -> NamesReply:
    """The answer to CHILDREN."""
    outcome, version, found, missing, status, reason = reply
    names = None if found is None else list(_sorted_names(found))
    return of_fields(NamesReply, (outcome, version, names, missing, status, reason))


def is_failure(reply: Reply | NamesReply, failure: Failure) -> bool:
    """Did the server give this reason?"""
    reason = reply.reason
    return bool(reason) and reason.partition(":")[0] == failure


class SessionBound(NamedTuple):
    """The answer to CONNECT; JSON in `Reply.body`.

    timeout_ms: what the server made of the wish. expires_itself: the channel's library tells when the session is lost
    or silent; otherwise the client finds out from its own requests.
    """

    session: int
    timeout_ms: int
    password: bytes

    def to_bytes(self) -> bytes:
        return json.dumps([self.session, self.timeout_ms, self.password.hex()]).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        session, timeout_ms, password = json.loads(body)
        return cls(session, timeout_ms, bytes.fromhex(password))
