"""A table seen as conditional writes by key, which is all that a lease asks of a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lockref.delta.record import OWN
from lockref.dynamodb.table import (
    KEY,
    VERSION,
    Clause,
    ItemReply,
    TableClient,
    absent,
    equals,
    number,
    text,
    value_in,
)
from lockref.grammar import decimal
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.strict_json import read_object
from lockref.words import Outcome

MARK: Final = "mark"
"""The attribute that holds the fence's mark, a number, in the item beside a lock's row."""


class Rows:
    """A `ConditionalStore` over a table: a body is an item's JSON, a version its `recordVersionNumber`.

    A write on a version changes the lease's own attributes, and leaves what operators and others put beside them.
    Reads are strongly consistent: a waiter that saw an old state would count from the wrong moment (T4).
    """

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, key: str) -> ReadReply:
        found = self._table.get(key)
        if found.document is None:
            return ReadReply(outcome=found.outcome, status=found.status, reason=found.reason)
        # A row without a version cannot be named by a condition; whoever parses it says so.
        return ReadReply(
            outcome=found.outcome,
            body=found.document,
            version=Version(found.version or ""),
            status=found.status,
            reason=found.reason,
        )

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, absent(KEY))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        item = self.item(json.loads(body))
        return written(self._table.merge(key, item, OWN, equals(VERSION, text(version))), item)

    def _put(self, key: str, body: bytes, clause: Clause) -> WriteReply:
        item = self.item(json.loads(body))
        reply = self._table.put(key, item, clause)
        return written(reply, item)

    def item(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes that a body stands for."""
        return document


class Marks(Rows):
    """The same for the fence's mark: a body is a number and a nonce, kept as one attribute of an item of its own."""

    def read(self, key: str) -> ReadReply:
        found = super().read(key)
        if found.body is None:
            return found
        mark = value_in(read_object(found.body), MARK, "N")
        body = json.dumps({"mark": decimal(mark) if isinstance(mark, str) else None}).encode()
        return replace(found, body=body)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, equals(VERSION, text(version)))

    def item(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return {VERSION: text(document["nonce"]), MARK: number(document["mark"])}


def written(reply: ItemReply, item: Mapping[str, Any]) -> WriteReply:
    """The answer to a put of `item`."""
    is_applied = reply.outcome is Outcome.APPLIED
    return WriteReply(
        outcome=reply.outcome,
        version=Version(str(item[VERSION]["S"])) if is_applied else None,
        missing=reply.missing,
        status=reply.status,
        reason=reply.reason,
    )
