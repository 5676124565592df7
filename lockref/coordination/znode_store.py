"""Znodes as conditional writes by key, which is all that a lease asks of a store.

A key is one persistent znode below a folder; a version is the znode's creation and its data version. ZooKeeper
compares the data version alone. So a write may land on a znode that was deleted and made anew since, where the numbers
agree: the answer then names another creation, and counts as a failed condition. Whoever deletes the record of a lock
that is held breaks the lock, here as in an object store.

The session is only the way to ask: nothing here is ephemeral, and what is held does not end with it. It is opened when
a request needs one, and opened anew when the server has ended it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from lockref.coordination.port import (
    CONNECT,
    CREATE,
    GET,
    SET,
    SYNC,
    Call,
    Failure,
    Operation,
    SessionBound,
    Stat,
    change,
    create,
    is_failure,
)  # fmt: skip
from lockref.ports import Channel, PortKind, Reply, Request
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import IF_ABSENT, Op, Outcome

FOLDER: Final = "/leases"
SESSION_TIMEOUT_NS: Final = 30 * NS_PER_S

REQUESTS_PER_CALL: Final = 3
"""A read opens a session, catches up, and asks. Rarely it hears that its session has ended, and needs two more."""


def path_of(key: str) -> str:
    """The znode of a key, whatever characters it has."""
    name = key.replace(".", "%2E") if key in (".", "..") else quote(key, safe="")
    return f"{FOLDER}/{name}"


def key_of(path: str) -> str:
    """The reverse; what is no such znode is left as it is."""
    return unquote(path.removeprefix(f"{FOLDER}/")) if path.startswith(f"{FOLDER}/") else path


class ZnodeStore:
    """A `ConditionalStore` over the znodes of one folder. Made by `ZNODES.over`.

    timeout_ns: bounds each call; its requests share it.
    """

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel = channel
        self._timeout_ns = max(1, timeout_ns // REQUESTS_PER_CALL)
        self._session = 0

    def read(self, key: str) -> ReadReply:
        """A linearizable read: the server catches up before it answers. No waiter may count from an old state (T4)."""
        path = path_of(key)
        synced = self._ask(SYNC, path)
        if synced.outcome is not Outcome.APPLIED:
            return ReadReply(outcome=synced.outcome, reason=synced.reason)
        found = self._ask(GET, path, op=Op.READ)
        version = None if found.body is None else Version(str(found.version))
        return ReadReply(outcome=found.outcome, body=found.body, version=version, reason=found.reason)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        path = path_of(key)
        reply = self._write(CREATE, create(path, body), IF_ABSENT)
        if is_failure(reply, Failure.NO_NODE):
            self._write(CREATE, create(FOLDER), IF_ABSENT)
            reply = self._write(CREATE, create(path, body), IF_ABSENT)
        return _written(reply, is_missing=False)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        expected = _stat(version)
        reply = self._write(SET, change(path_of(key), body, expected.version), expected)
        if isinstance(reply.version, Stat) and reply.version.created_zxid != expected.created_zxid:
            return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason=f"{key} was deleted and made anew")
        return _written(reply, is_missing=reply.missing)

    def _write(self, verb: str, operation: Operation, condition: str) -> Reply:
        reply = self._ask(verb, operation.path, operation, op=Op.WRITE, condition=condition)
        if is_failure(reply, Failure.SESSION_EXPIRED):
            # It changed nothing, and the next one opens a session.
            return Reply(Outcome.THROTTLED, reason=reply.reason)
        return reply

    def _ask(self, verb: str, path: str, *operations: Operation, op: Op = Op.NONE, condition: str = "") -> Reply:
        """Send one request under a session; a request under one that has ended changed nothing, and is sent again."""
        reply = self._opened()
        for _ in range(2):
            if reply.outcome is not Outcome.APPLIED:
                # No request left, so nothing was changed.
                return Reply(Outcome.THROTTLED, reason=f"no session: {reply.reason}")
            call = Call(self._session, operations)
            answer = self._send(verb, path, call, op, condition)
            if not is_failure(answer, Failure.SESSION_EXPIRED):
                return answer
            self._session = 0
            reply = self._opened()
        return answer

    def _opened(self) -> Reply:
        if self._session:
            return Reply(Outcome.APPLIED)
        reply = self._send(CONNECT, "/", Call(0, timeout_ms=SESSION_TIMEOUT_NS // NS_PER_MS), Op.NONE, "")
        if reply.body is not None:
            self._session = SessionBound.from_bytes(reply.body).session
        return reply

    def _send(self, verb: str, path: str, call: Call, op: Op, condition: str) -> Reply:
        request = Request(self._channel.client, self._channel.service, verb, path, condition, call, op)
        return self._channel.send(request, self._timeout_ns)

    def close(self) -> None:
        """Give back what the channel has; the server ends the session. Idempotent."""
        self._channel.close()


ZNODES: Final = PortKind("coordination", ZnodeStore)
"""A coordination service whose znodes alone are used. Each client opens a session of its own when it needs one."""


def _stat(version: Version) -> Stat:
    """The znode's numbers that a version carries."""
    created, _, number = version.partition(".")
    return Stat(created_zxid=int(created, 16), changed_zxid=0, version=int(number))


def _written(reply: Reply, *, is_missing: bool) -> WriteReply:
    is_applied = reply.outcome is Outcome.APPLIED
    return WriteReply(
        outcome=reply.outcome,
        version=Version(str(reply.version)) if is_applied else None,
        missing=is_missing,
        reason=reply.reason,
    )
