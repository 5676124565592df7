"""The lease of lease_lock.py in a table: its record is an item, its conditions are on the item's version."""

from __future__ import annotations

import json

from lease_lock import LeaseLock

from lockref import LockContext
from lockref.dynamodb.table import TABLE, TableClient
from lockref.stores.port import ReadReply, Version, WriteReply


class TableLease(LeaseLock):
    """The same lock; only what it stands on is another."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self._store = _Items(context.open(TABLE, timeout_ns=self._request_timeout_ns, service="leases"))


class _Items:
    """What the lease asks of a store, asked of a table. The version of an item rises by one with each write."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, key: str) -> ReadReply:
        found = self._table.get(key)
        if found.body is None:
            return ReadReply(outcome=found.outcome)
        version = Version(str(found.body.pop("version")))
        body = json.dumps(found.body, separators=(",", ":")).encode()
        return ReadReply(outcome=found.outcome, body=body, version=version)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self.put_if_version(key, body, Version("0"))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        reply = self._table.update(key, {**json.loads(body), "version": int(version) + 1}, int(version))
        return WriteReply(outcome=reply.outcome, version=reply.version and Version(reply.version))
