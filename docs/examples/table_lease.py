"""The lease of lease_lock.py in a table: its record is an item, its conditions are on the item's version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from lease_lock import LeaseLock

from lockref import LockContext
from lockref.dynamodb.table import KEY, TABLE, VERSION, Clause, TableClient, absent, equals, text
from lockref.provider import LockView
from lockref.stores.port import ReadReply, Version, WriteReply


class TableLease(LeaseLock):
    """The same lock; only what it stands on is another."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self._store = _Items(context.open(TABLE, timeout_ns=self._request_timeout_ns, service="leases"))

    @staticmethod
    def decode_state(_key: str, body: bytes) -> Sequence[LockView]:
        """Tells the checks what an item says."""
        record = json.loads(body).get("record", {}).get("S", "")
        view = LeaseLock.decode_record(record.encode())
        return () if view is None else (LockView(**asdict(view)),)


class _Items:
    """What the lease asks of a store, asked of a table. An item holds the record and the version of conditions."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, key: str) -> ReadReply:
        found = self._table.get(key)
        item = found.item()
        if item is None:
            return ReadReply(outcome=found.outcome)
        version = Version(item[VERSION]["S"])
        return ReadReply(outcome=found.outcome, body=item["record"]["S"].encode(), version=version)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._put(key, body, absent(KEY))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._put(key, body, equals(VERSION, text(version)))

    def _put(self, key: str, body: bytes, clause: Clause) -> WriteReply:
        item = {VERSION: text(json.loads(body)["nonce"]), "record": text(body.decode())}
        reply = self._table.put(key, item, clause)
        return WriteReply(outcome=reply.outcome, version=reply.version and Version(reply.version))
