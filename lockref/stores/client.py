"""An object store over a channel, and a channel over an object store.

`ObjectStoreClient` turns the calls of the `ObjectStore` port into requests.
`StoreChannel` turns them back into calls, so that a store of an SDK can stand
behind a channel that records.
"""

from __future__ import annotations

from typing import Final

from lockref.ports import Channel, PortKind, Reply, Request, of_fields
from lockref.stores.arguments import require_key, require_version, require_write
from lockref.stores.port import ObjectStore, ReadReply, StoreCapabilities, Version, WriteReply
from lockref.words import ABSENT, IF_ABSENT, Op

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OP_NONE = Op.NONE
_OP_READ = Op.READ
_OP_WRITE = Op.WRITE

READ, PUT, DELETE = "read", "put", "delete"
"""The verbs of an object store."""


class ObjectStoreClient:
    """The `ObjectStore` port over a channel. Raises ConfigError for a key, body or version that is none."""

    __slots__ = ("_channel", "_client", "_send", "_service", "_timeout_ns")

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel = channel
        self._client = channel.client
        self._service = channel.service
        self._send = channel.send
        self._timeout_ns = timeout_ns

    @property
    def capabilities(self) -> StoreCapabilities:
        promised = self._channel.capabilities
        assert isinstance(promised, StoreCapabilities), f"{self._service} is behind the port of an object store"
        return promised

    def read(self, key: str) -> ReadReply:
        require_key("read", key)
        request = of_fields(
            Request, (self._client, self._service, READ, key, "", None, _OP_READ, ABSENT, (), False, _OP_NONE)
        )
        send = self._send
        outcome, version, body, _missing, status, reason = send(request, self._timeout_ns)
        return ReadReply(outcome, body, None if version is None else Version(version), status, reason)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        require_write("put_if_absent", key, body)
        return self._write(PUT, key, IF_ABSENT, body, _OP_WRITE)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        require_write("put_if_version", key, body, version)
        return self._write(PUT, key, version, body, _OP_WRITE)

    def put(self, key: str, body: bytes) -> WriteReply:
        require_write("put", key, body)
        return self._write(PUT, key, "", body, _OP_WRITE)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        require_key("delete", key)
        if version is not None:
            require_version("delete", version)
        return self._write(DELETE, key, version or "", None, Op.DELETE)

    def _write(self, verb: str, key: str, condition: str, body: bytes | None, op: Op) -> WriteReply:
        request = of_fields(
            Request, (self._client, self._service, verb, key, condition, body, op, ABSENT, (), False, _OP_NONE)
        )
        send = self._send
        outcome, version, _body, missing, status, reason = send(request, self._timeout_ns)
        return WriteReply(outcome, None if version is None else Version(version), missing, status, reason)

    def close(self) -> None:
        self._channel.close()


OBJECT_STORE: Final[PortKind[ObjectStore]] = PortKind("object_store", ObjectStoreClient)
"""The kind of an object store: `context.open(OBJECT_STORE, timeout_ns=t)` gives a client of the lock's own store."""


class StoreChannel:
    """A channel to an `ObjectStore` of this process, such as one of an SDK.

    The store has its own timeout, so that of a request is not looked at.
    """

    __slots__ = ("_store", "client", "service")

    def __init__(self, store: ObjectStore, *, client: str = "", service: str = "store") -> None:
        self._store = store
        self.client = client
        self.service = service

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._store.capabilities

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        store, key, condition = self._store, request.key, request.condition
        if request.verb == READ:
            read = store.read(key)
            return Reply(read.outcome, read.version, read.body, False, read.status, read.reason)
        if request.verb == DELETE:
            reply = store.delete(key, Version(condition) if condition else None)
        else:
            body = request.body
            assert body is not None, "what is put has a body"
            if condition == IF_ABSENT:
                reply = store.put_if_absent(key, body)
            elif condition:
                reply = store.put_if_version(key, body, Version(condition))
            else:
                reply = store.put(key, body)
        return Reply(reply.outcome, reply.version, None, reply.missing, reply.status, reply.reason)

    def close(self) -> None:
        self._store.close()
