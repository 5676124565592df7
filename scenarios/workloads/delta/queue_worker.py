"""A client that is both: a writer, which enqueues what it wants committed, and a worker, which owns its table's queue.

Before it asks for the lock it enqueues its items. The lock is the right to serve the table's queue. Each protected
write takes a batch from the queue, commits it as one version, and deletes it from the queue, also the items of others.

`queue_exactly_once`   commit by conditional create, then delete. The entry tells the position of its newest item (the
                       Delta protocol's action `txn`), so items that are delivered again and stand in the log already
                       are deleted, and make no version.
`queue_at_least_once`  the same, and nobody looks into the log: what is delivered again is committed again.
`queue_at_most_once`   delete, then commit: a worker that dies in between has lost the batch.

A CALL of the operation `commit` is written when an item is enqueued, and its RETURN when its deletion was confirmed:
that is when the queue's promise ends. Until then nobody is told that it is committed. `detail` counts deliveries.

Source: Buoyant Data's post, "Coalesce is more"; the Delta protocol, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lockref.errors import LockError, OutcomeUnknown
from lockref.history import QUEUED, Recorder, Stamp
from lockref.words import ABSENT, Kind, Op, Outcome, detail
from scenarios.workloads.delta.item_queue import Delivery, QueueClient
from scenarios.workloads.delta.log_files import Commit, entry_key, newest_position, parse_commit
from scenarios.workloads.delta.writer import Writer
from scenarios.workloads.resource import Write

ATTEMPTS_MAX: Final = 15
"""A worker leaves a batch to the next delivery after so many attempts."""
RESENDS_MAX: Final = 3
"""How often a writer enqueues an item once more where no answer came."""


@dataclass(frozen=True, slots=True)
class QueueProtocol:
    """A way to serve a queue. checks: look into the log before a commit. deletes_first: see the module."""

    checks: bool = False
    deletes_first: bool = False


QUEUE_PROTOCOLS: Final = {
    "queue_exactly_once": QueueProtocol(checks=True),
    "queue_at_least_once": QueueProtocol(),
    "queue_at_most_once": QueueProtocol(deletes_first=True),
}
"""By the name that a scenario gives as `workload.protocol`."""


class QueueWorker:
    """One client. items: how many it enqueues before it asks for the lock. batch: the most items of one version."""

    keeps_lock = False

    def __init__(
        self,
        queue: QueueClient,
        writer: Writer,
        protocol: QueueProtocol,
        *,
        items: Callable[[], int],
        batch: int,
        recorder: Recorder,
        stamp: Callable[[], Stamp],
        next_number: Callable[[], int],
    ) -> None:
        self._queue, self._writer, self._protocol = queue, writer, protocol
        self._items, self._batch = items, batch
        self._record, self._stamp, self._next_number = recorder.event, stamp, next_number

    def prepare(self, node: str, task: str, lock: object) -> None:
        """Enqueue, before the lock is asked. Where no answer comes it is tried again: an item stays one item."""
        writer = self._writer
        for _ in range(self._items()):
            identity = writer.runtime.token_bytes(8).hex()
            self._event(Kind.CALL, identity, node, task, said=QUEUED)
            for _ in range(1 + RESENDS_MAX):
                try:
                    self._queue.enqueue(writer.log.table, identity)
                    break
                except OutcomeUnknown:
                    writer.pause()
                except LockError:
                    break  # Refused: it is in no queue, and nobody is told that it was committed.

    def conclude(self, *, is_released: bool) -> None:
        """Nothing: how the release ended changes nothing about the batches."""

    def write(self, write: Write, may_write: Callable[[], bool]) -> None:
        """Serve the queue once. What stays open comes again."""
        table = self._writer.log.table
        with suppress(OutcomeUnknown):
            batch = self._queue.receive(table, self._batch)
            if not batch:
                return
            if self._protocol.deletes_first:
                if self._queue.delete(table, batch):
                    self._confirm(batch, write, {})
                    self._commit(batch, write, may_write)
                return
            versions = self._commit(batch, write, may_write)
            if versions is not None and self._queue.delete(table, batch):
                self._confirm(batch, write, versions)

    def _commit(self, batch: Sequence[Delivery], write: Write, may_write: Callable[[], bool]) -> dict[str, int] | None:
        """Commit the items as one version. By identity, the version that has it; None: they are not all in the log."""
        writer = self._writer
        log = writer.log
        writer.gets = 0
        for attempt in range(1, ATTEMPTS_MAX + 1):
            writer.attempts = attempt
            version = writer.load()
            newest = self._newest(version - 1) if self._protocol.checks else -1
            fresh = [item for item in batch if item.position > newest]
            if not fresh:
                return self._found(batch, version - 1)
            if not may_write():
                return None
            entry = Commit(
                identity=fresh[0].identity, node=write.node, task=write.task, tenure=write.tenure,
                attempt=write.attempt, token=write.token, owner=write.owner,
                items=tuple(item.identity for item in fresh), position=fresh[-1].position,
            )  # fmt: skip
            outcome = log.store.put_if_absent(entry_key(log.table, version), entry.to_bytes()).outcome
            if outcome is Outcome.APPLIED:
                writer.known = version
                return self._found(batch, version) if len(fresh) < len(batch) else dict.fromkeys(entry.items, version)
            if outcome is Outcome.REJECTED:
                return None
            if outcome is Outcome.AMBIGUOUS and not self._protocol.checks:
                return None  # Perhaps it landed: the next delivery commits it again.
            # Taken, or nobody knows: the log tells when it is loaded again.
            writer.pause()
        return None

    def _newest(self, version: int) -> int:
        """The position of the newest item in the log up to this version; -1 of an empty log."""
        return -1 if version < 0 else newest_position(self._entry(version))

    def _entry(self, version: int) -> bytes:
        body = self._writer.log.read(entry_key(self._writer.log.table, version))
        assert body is not None, "a version that was loaded is there"
        self._writer.gets += 1
        return body

    def _found(self, batch: Sequence[Delivery], version: int) -> dict[str, int]:
        """By identity, where these items stand: from this version backwards, until all are found."""
        wanted, versions = {item.identity for item in batch}, dict[str, int]()
        while version >= 0 and len(versions) < len(wanted):
            commit = parse_commit(self._entry(version))
            assert commit is not None, "every entry of this workload is one of its commits"
            versions.update(dict.fromkeys(wanted.intersection(commit.identities), version))
            version -= 1
        return versions

    def _confirm(self, batch: Sequence[Delivery], write: Write, versions: dict[str, int]) -> None:
        """The queue has removed these items: their writers may take them for committed."""
        for item in batch:
            version = versions.get(item.identity)
            self._event(
                Kind.RETURN, item.identity, write.node, write.task, Outcome.APPLIED,
                version="" if version is None else str(version), write=write,
                said=detail(deliveries=item.number, gets=self._writer.gets),
            )  # fmt: skip

    def _event(
        self, kind: Kind, identity: str, node: str, task: str, outcome: Outcome = Outcome.NONE, *,
        version: str = "", write: Write | None = None, said: str = "",
    ) -> None:  # fmt: skip
        true_ns, wall_ns, mono_ns, _ = self._stamp()
        token = None if write is None else write.token
        self._record(
            kind, (true_ns, wall_ns, mono_ns, task), node, self._writer.log.table, Op.COMMIT, outcome,
            request=self._next_number(), attempt=ABSENT if write is None else self._writer.attempts, version=version,
            content=identity, token=ABSENT if token is None else token, owner="" if write is None else write.owner,
            detail=said,
        )  # fmt: skip
