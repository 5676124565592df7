"""The content of the record of Helix' lock: `LockInfo`.

Every time is in milliseconds of the wall clock of whoever wrote it. `None` is no value of a field but of the requestor,
which is `null` in every record that an acquiring call writes.

Source: helix-lock 1.4.3, `LockInfo`, `LockConstants`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lockref.errors import CorruptRecord
from lockref.helix.shipped.stored_record import INT_MAX, StoredRecord

NOBODY: Final = "NONE"
"""The owner of a free lock, and the requestor where nobody waits."""

NO_TIME: Final = -1
RECORD_ID: Final = "LOCK"

CLEARED: Final = {
    "OWNER": NOBODY,
    "MESSAGE": NOBODY,
    "TIMEOUT": str(NO_TIME),
    "PRIORITY": "0",
    "WAITING_TIMEOUT": str(NO_TIME),
    "CLEANUP_TIMEOUT": str(NO_TIME),
}
"""What a pre-empted owner writes over its own fields. The requestor's stay."""


class LockInfo(NamedTuple):
    """A lock's record. The defaults are those of a free one.

    timeout_ms: when the owner's lease ends, an instant. waiting_timeout_ms, cleanup_timeout_ms: durations.
    requested_ms: when the requestor asked, an instant.
    """

    owner: str = NOBODY
    message: str = NOBODY
    timeout_ms: int = NO_TIME
    priority: int = 0
    waiting_timeout_ms: int = NO_TIME
    cleanup_timeout_ms: int = NO_TIME
    requestor: str | None = NOBODY
    requestor_priority: int = 0
    requestor_waiting_timeout_ms: int = NO_TIME
    requested_ms: int = NO_TIME

    @property
    def waiting(self) -> str:
        """The client that waits; `NOBODY` where there is none."""
        return NOBODY if self.requestor is None else self.requestor

    def record(self) -> StoredRecord:
        """As it is stored. The original's map is sorted by name."""
        simple: dict[str, str | None] = {
            "CLEANUP_TIMEOUT": str(self.cleanup_timeout_ms),
            "MESSAGE": self.message,
            "OWNER": self.owner,
            "PRIORITY": str(self.priority),
            "REQUESTING_TIMESTAMP": str(self.requested_ms),
            "REQUESTOR_ID": self.requestor,
            "REQUESTOR_PRIORITY": str(self.requestor_priority),
            "REQUESTOR_WAITING_TIMEOUT": str(self.requestor_waiting_timeout_ms),
            "TIMEOUT": str(self.timeout_ms),
            "WAITING_TIMEOUT": str(self.waiting_timeout_ms),
        }
        return StoredRecord(RECORD_ID, simple)

    @classmethod
    def of(cls, record: StoredRecord | None) -> LockInfo:
        """The lock that a record describes.

        No record, or a field that is absent or no number, reads as a free lock (HJ1).
        Raises CorruptRecord where its fields are `null`: the original fails with a null pointer.
        """
        if record is None:
            return cls()
        if record.simple is None:
            raise CorruptRecord("reading a Helix lock: simpleFields is null")
        return cls(
            owner=_said(record, "OWNER"),
            message=_said(record, "MESSAGE"),
            timeout_ms=record.number("TIMEOUT", NO_TIME),
            priority=record.number("PRIORITY", 0, most=INT_MAX),
            waiting_timeout_ms=record.number("WAITING_TIMEOUT", NO_TIME),
            cleanup_timeout_ms=record.number("CLEANUP_TIMEOUT", NO_TIME),
            requestor=record.text("REQUESTOR_ID"),
            requestor_priority=record.number("REQUESTOR_PRIORITY", 0, most=INT_MAX),
            requestor_waiting_timeout_ms=record.number("REQUESTOR_WAITING_TIMEOUT", NO_TIME),
            requested_ms=record.number("REQUESTING_TIMESTAMP", NO_TIME),
        )


def _said(record: StoredRecord, name: str) -> str:
    found = record.text(name)
    return NOBODY if found is None else found
