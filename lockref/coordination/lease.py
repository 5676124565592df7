"""A lease in one znode: what Helix' ZKDistributedNonblockingLock meant to be (Z19), of the parts of every lease.

Parts, rules of time and record are those of Delta Lake's lease (`lockref/dynamodb/lease.py`); only the store differs.
Beside Helix' lock:

- durations and monotonic clocks, where it writes an instant of the holder's wall clock;
- what cannot be read is an error, where it is a free lock (HJ1); only the holder gives back (HJ2);
- a fencing token that rises over every take-over, where it has none (HJ7);
- whoever waits looks, and so sees a lease that ends during its wait (HJ5).

It has no priorities: to take a lock from a holder that works is what a lease exists to prevent.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Self

from lockref.coordination.znode_store import ZNODES, ZnodeStore, key_of
from lockref.dynamodb import item
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.options import LeaseOptions
from lockref.dynamodb.table import number, text, to_bytes
from lockref.locks.values import ConditionalStore
from lockref.provider import LockContext, LockView
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.strict_json import NotJson, read_object


class LeaseZnodes:
    """The leases' records as plain JSON: text and whole numbers, not a table's types."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store

    def read(self, key: str) -> ReadReply:
        found = self._store.read(key)
        return found if found.body is None else replace(found, body=typed(found.body))

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._store.put_if_absent(key, plain(body))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._store.put_if_version(key, plain(body), version)


def plain(body: bytes) -> bytes:
    """A record without the types of a table's attributes."""
    found = {name: _untyped(value) for name, value in json.loads(body).items()}
    return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()


def typed(body: bytes) -> bytes:
    """The reverse. What is no record is left as it is: whoever parses it says what is wrong."""
    try:
        found = read_object(body)
    except NotJson:
        return body
    return to_bytes({name: _typed(value) for name, value in found.items()})


_OTHER = "JSON"
"""Stands for values of strangers, which are kept as they are."""


def _untyped(value: dict[str, Any]) -> Any:
    ((kind, found),) = value.items()
    return int(found) if kind == "N" else found


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return dict(text(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return dict(number(value))
    return {_OTHER: value}


def decode_state(key: str, body: bytes) -> list[LockView]:
    """What a znode says about its lock; nothing where it is no lease. A `StateDecoder`."""
    lock = key_of(key)
    return [] if lock == key else [replace(view, lock=lock) for view in item.decode_state(lock, typed(body))]


class ZnodeLease(DynamoLock):
    """A lease in one znode of ZooKeeper. See `DynamoLock` for its calls and errors."""

    decode_state = staticmethod(decode_state)
    record_format = "znode-lease"
    default_lock_key = "table"
    stands_on = ZNODES.name
    is_fork_safe = False  # A forked child would speak on its parent's connection.

    @staticmethod
    def stores(table: ZnodeStore) -> tuple[ConditionalStore, ConditionalStore]:
        return LeaseZnodes(table), table

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        options = LeaseOptions.from_settings(context.settings)
        store = context.open(ZNODES, timeout_ns=options.request_timeout_ns)
        return cls(store, context.settings.key, options, runtime=context.runtime, listener=context.listener)
