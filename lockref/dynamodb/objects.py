"""An object store over a table: what asks a store about its conditions can ask a table the same (H23).

Each object is an item whose bytes are one binary attribute. Every write gives it a new version.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from lockref.dynamodb.table import (
    KEY,
    VERSION,
    Clause,
    Item,
    ItemReply,
    TableClient,
    absent,
    equals,
    text,
    to_bytes,
    value_in,
)
from lockref.runtime import Runtime, ThreadRuntime
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, Version, WriteReply
from lockref.words import Outcome

BYTES: Final = "bytes"
"""The attribute that holds an object's bytes, of type B."""


def bytes_item(key: str, body: bytes) -> Item:
    """The item that stands for an object."""
    return {KEY: text(key), BYTES: {"B": base64.b64encode(body).decode()}}


def item_body(item: Mapping[str, Any]) -> bytes:
    """The bytes of the object that an item stands for; of any other item, its JSON."""
    binary = value_in(item, BYTES, "B")
    return base64.b64decode(binary) if isinstance(binary, str) else to_bytes(item)


class TableStore:
    """The `ObjectStore` port over a table."""

    capabilities = StoreCapabilities(dialect="dynamodb", versions_repeat=False, conditional_delete=True)

    def __init__(self, table: TableClient, *, runtime: Runtime | None = None) -> None:
        self._table = table
        self._runtime = runtime or ThreadRuntime()

    def read(self, key: str) -> ReadReply:
        check_key(key)
        reply = self._table.get(key)
        item = reply.item()
        body = None if item is None else item_body(item)
        version = None if reply.version is None else Version(reply.version)
        return ReadReply(outcome=reply.outcome, body=body, version=version, status=reply.status, reason=reply.reason)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, absent(KEY))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, equals(VERSION, text(version)))

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body)

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        check_key(key)
        if version is None:
            return _written(self._table.delete(key))
        return _written(self._table.delete(key, equals(VERSION, text(version))))

    def _put(self, key: str, body: bytes, *clauses: Clause) -> WriteReply:
        check_key(key)
        version = self._runtime.token_bytes(8).hex()
        return _written(self._table.put(key, {**bytes_item(key, body), VERSION: text(version)}, *clauses))

    def close(self) -> None:
        self._table.close()


def _written(reply: ItemReply) -> WriteReply:
    """A table that removes nothing says so by success; so does a store."""
    version = None
    if reply.outcome is Outcome.APPLIED and reply.version is not None:
        version = Version(reply.version)
    return WriteReply(
        outcome=reply.outcome, version=version, missing=reply.missing, status=reply.status, reason=reply.reason
    )
