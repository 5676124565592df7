"""The queues of a run's tables: writers put items in, workers take them out; each is delivered at least once.

One queue for each table, first in first out. A worker that receives items holds them until their visibility timeout.
Until then the queue delivers neither these items nor later ones. The worker removes them by a deletion within that
time. After the timeout its receipt is void, and they are delivered again. The queue's own clock decides, as at a
server.

It is a state machine that takes requests as data, as the protected resources do (`scenarios.workloads.resource`), so it
lives behind the simulated network or in the process that started a real run.

Source: Amazon SQS, FIFO queues with one message group: "Visibility timeout"; `DeleteMessage`, ReceiptHandleIsInvalid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lockref.errors import LockError, OutcomeUnknown
from lockref.ports import Channel, PortKind, Reply, Request
from lockref.words import Op, Outcome
from scenarios.definition.schema import QUEUE_NAME

ENQUEUE, RECEIVE, DELETE = "enqueue", "receive", "delete"
"""The verbs of a queue."""


class Delivery(NamedTuple):
    """One item as it was given to a worker.

    position: its place in the table's queue, from 0, never given twice. identity: of what the writer wants committed.
    number: how often the item was delivered, this time included; with the position it is the receipt.
    """

    position: int
    identity: str
    number: int


@dataclass(slots=True)
class _Item:
    position: int
    identity: str
    deliveries: int = 0
    visible_at_ns: int = 0


@dataclass(slots=True)
class _Queue:
    items: list[_Item] = field(default_factory=list)
    enqueued: set[str] = field(default_factory=set)


class ItemQueue:
    """The state machine. Its host sees to it that one request is handled at a time.

    now_ns: the queue's clock. visibility_ns: asked with each delivery.
    """

    def __init__(self, *, now_ns: Callable[[], int], visibility_ns: Callable[[], int]) -> None:
        self._now_ns, self._visibility_ns = now_ns, visibility_ns
        self._queues: dict[str, _Queue] = {}

    def handle(self, request: Request) -> Reply:
        """Do what a `QueueClient` asks about the table `request.key`."""
        queue = self._queues.setdefault(request.key, _Queue())
        if request.verb == ENQUEUE:
            self._enqueue(queue, request.condition)
            return Reply(Outcome.APPLIED)
        if request.verb == RECEIVE:
            return Reply(Outcome.APPLIED, body=json.dumps(self._receive(queue, int(request.condition))).encode())
        assert request.verb == DELETE, f"a queue knows no {request.verb!r}"
        assert request.body is not None, "what is deleted is told in the body"
        is_deleted = self._delete(queue, [Delivery(*receipt) for receipt in json.loads(request.body)])
        return Reply(Outcome.APPLIED if is_deleted else Outcome.PRECONDITION_FAILED)

    @staticmethod
    def _enqueue(queue: _Queue, identity: str) -> None:
        """Sent once more, an item stays one item: its identity tells."""
        if identity not in queue.enqueued:
            queue.items.append(_Item(len(queue.enqueued), identity))
            queue.enqueued.add(identity)

    def _receive(self, queue: _Queue, most: int) -> list[Delivery]:
        """The first items, at most so many; none while the first of all is with somebody."""
        now_ns = self._now_ns()
        if queue.items and queue.items[0].visible_at_ns > now_ns:
            return []
        until_ns = now_ns + self._visibility_ns()
        given = []
        for item in queue.items[:most]:
            if item.visible_at_ns > now_ns:
                break
            item.deliveries += 1
            item.visible_at_ns = until_ns
            given.append(Delivery(item.position, item.identity, item.deliveries))
        return given

    def _delete(self, queue: _Queue, receipts: Sequence[Delivery]) -> bool:
        """Remove all of these, or none where one receipt is void."""
        now_ns = self._now_ns()
        held = {
            Delivery(item.position, item.identity, item.deliveries)
            for item in queue.items
            if item.visible_at_ns > now_ns
        }
        if not held.issuperset(receipts):
            return False
        gone = {receipt.position for receipt in receipts}
        queue.items = [item for item in queue.items if item.position not in gone]
        return True


class QueueClient:
    """One client's port to the queues.

    Every method raises OutcomeUnknown where no answer came, and LockError for a refusal.
    """

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel, self._timeout_ns = channel, timeout_ns

    def enqueue(self, table: str, identity: str) -> None:
        """Put an item into the table's queue. To repeat it changes nothing."""
        self._ask(ENQUEUE, table, Op.WRITE, condition=identity)

    def receive(self, table: str, most: int) -> list[Delivery]:
        """Take the next items, at most so many. Returns nothing while a worker holds earlier items."""
        reply = self._ask(RECEIVE, table, Op.READ, condition=str(most))
        assert reply.body is not None, "a queue answers with items"
        return [Delivery(*item) for item in json.loads(reply.body)]

    def delete(self, table: str, receipts: Sequence[Delivery]) -> bool:
        """Remove items that were received. False if a receipt is void: then they come again, to somebody."""
        reply = self._ask(DELETE, table, Op.DELETE, body=json.dumps(receipts).encode())
        return reply.outcome is Outcome.APPLIED

    def _ask(self, verb: str, table: str, op: Op, *, condition: str = "", body: bytes | None = None) -> Reply:
        channel = self._channel
        request = Request(channel.client, QUEUE_NAME, verb, table, condition, body, op)
        reply = channel.send(request, self._timeout_ns)
        if reply.outcome is Outcome.AMBIGUOUS:
            raise OutcomeUnknown(f"the queue of {table} did not answer whether it has done: {verb}")
        if reply.outcome not in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
            raise LockError(f"the queue of {table} refused: {verb} ({reply.reason})")
        return reply


QUEUE: Final = PortKind(QUEUE_NAME, QueueClient)
