"""Finishing a dead writer's rename: the client that takes a Delta lease over must do it before its own commit.

delta-rs commits by a rename under the lock: the entry of the log lies ready under a temporary name, and the row's
`data` names source and destination. A writer that dies or stops in between leaves both there. The next holder is told
`took_over`, and must finish that rename first. A holder that commits its own entry at that destination loses it, though
it was acknowledged, once the stopped writer goes on: that one's copy has no condition (B10, B12).

Source: delta-rs f87afceb6^ crates/deltalake-core/src/storage/s3.rs (`rename_with_lock`, `try_acquire_lock`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lockref.delta.lease import DeltaLease
from lockref.delta.record import NOTHING_TO_FINISH
from lockref.errors import CorruptRecord, OutcomeUnknown, StoreRejected
from lockref.stores.port import ObjectStore, WriteReply
from lockref.strict_json import NotJson, read_object
from lockref.words import Outcome


@dataclass(frozen=True, slots=True)
class PendingRename:
    """One rename. source, destination: keys in the table's bucket."""

    source: str
    destination: str

    def to_data(self) -> str:
        """As a row's `data` tells it: the `intent` of a writer that is about to do this rename."""
        return json.dumps({"source": self.source, "destination": self.destination})

    @classmethod
    def from_data(cls, data: str) -> PendingRename:
        """Read a row's `data`. Raises CorruptRecord where that is no rename."""
        try:
            told = read_object(data)
            source, destination = told["source"], told["destination"]
        except (NotJson, KeyError):
            source, destination = None, None
        if not (isinstance(source, str) and isinstance(destination, str) and source and destination):
            raise CorruptRecord(
                "a dead holder's row tells work to finish that is no rename (`data` must be JSON with source and "
                "destination): see what it was, and say that it is done by update_data()"
            )
        return cls(source, destination)


def finish_rename(lock: DeltaLease, bucket: ObjectStore) -> PendingRename | None:
    """Finish what the dead holder left, and say so in the row. Call it first in every critical section.

    lock: held by this task. bucket: the whole bucket of the table, without a prefix: the row names keys in it.
    The rename that was finished, by this call or by somebody before it; None: nothing was left.

    The destination is created only if it is absent: a second call changes nothing, and the stopped writer's late copy
    writes the same bytes. The temporary source is left in place, because that writer looks for it, and would commit its
    actions once more where it is gone.

    Errors: LockLost, LockNotHeld: the grant has ended. OutcomeUnknown: the store gave no definite answer.
        StoreRejected: it refused. CorruptRecord for `data` that is no rename. In each case the work stays in the row
        for the next holder.
    """
    lock.assert_held()
    if not lock.took_over or lock.data is None:
        return None
    rename = PendingRename.from_data(lock.data)
    found = bucket.read(rename.source)
    if found.outcome is not Outcome.APPLIED:
        raise _failed("reading", rename.source, found.outcome, found.reason)
    if found.body is not None:
        lock.assert_held()
        reply = bucket.put_if_absent(rename.destination, found.body)
        if not _is_there(bucket, rename, found.body, reply):
            raise _failed("creating", rename.destination, reply.outcome, reply.reason)
    # The next renewal tells this. Until then the next holder finds the entry there, and changes nothing.
    lock.update_data(lock.intent or NOTHING_TO_FINISH)
    return rename


def _is_there(bucket: ObjectStore, rename: PendingRename, body: bytes, reply: WriteReply) -> bool:
    """Does an entry stand at the destination? Where the answer was lost, it is read (H5)."""
    if reply.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
        return True
    if reply.outcome is not Outcome.AMBIGUOUS:
        return False
    return bucket.read(rename.destination).body == body


def _failed(doing: str, key: str, outcome: Outcome, reason: str) -> OutcomeUnknown | StoreRejected:
    told = f"finishing a dead holder's rename: {doing} {key}: {reason or outcome.name.lower()}; the row still tells it"
    return StoreRejected(told) if outcome is Outcome.REJECTED else OutcomeUnknown(told)
