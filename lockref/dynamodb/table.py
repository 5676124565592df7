"""The table port: items under keys, each with a version that a write may require.

An item is a mapping of attributes; its attribute `version` is a number that the
writer raises (optimistic locking, DynamoDB's `@DynamoDBVersionAttribute`).
Conditions on other attributes are left out until a lock needs them.
"""

from __future__ import annotations

import json

from lockref.history import IF_ABSENT, Op
from lockref.ports import Channel, Reply, Request

GET, PUT, UPDATE, DELETE = "get", "put", "update", "delete"
Item = dict[str, str | int | bool]


class TableClient:
    """A table over a channel. The body of a reply is the item that was found or made; None for nothing.

    `put` writes a whole item, `update` some attributes of one, which it makes where there is none.
    version: the one that the present item must have; 0: there must be none; None: any.
    """

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel, self._timeout_ns = channel, timeout_ns

    def get(self, key: str) -> Reply:
        return self._ask(GET, key, None, None, Op.READ)

    def put(self, key: str, item: Item, version: int | None = None) -> Reply:
        return self._ask(PUT, key, item, version, Op.WRITE)

    def update(self, key: str, changes: Item, version: int | None = None) -> Reply:
        return self._ask(UPDATE, key, changes, version, Op.WRITE)

    def delete(self, key: str, version: int | None = None) -> Reply:
        return self._ask(DELETE, key, None, version, Op.DELETE)

    def _ask(self, verb: str, key: str, item: Item | None, version: int | None, op: Op) -> Reply:
        condition = "" if version is None else str(version) if version else IF_ABSENT
        body = None if item is None else json.dumps(item).encode()
        request = Request(self._channel.client, self._channel.service, verb, key, condition, body, op)
        reply = self._channel.send(request, self._timeout_ns)
        return reply if reply.body is None else reply._replace(body=json.loads(reply.body))


class TableKind:
    """The kind of table."""

    name = "table"

    def over(self, channel: Channel, timeout_ns: int) -> TableClient:
        return TableClient(channel, timeout_ns)


TABLE = TableKind()
