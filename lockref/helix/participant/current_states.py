"""The report of one instance about its locks (CURRENTSTATES), and whether this report still fits into a znode.

The new state of a lock is written in one transaction with the removal of the message that led to it (T28).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lockref.helix.records.messages import Message
from lockref.helix.records.views import TOKEN
from lockref.helix.records.zn_record import RECORD_BYTES_MAX, ZNRecord, is_compressed
from lockref.helix.state_model import DROPPED, StateModel

STATES_BYTES_MAX: Final = RECORD_BYTES_MAX // 2
"""A record of current states is no larger: the same request removes the messages that it answers."""

ENTRY_BYTES: Final = 160
"""What one lock takes in CURRENTSTATES beside its name, at most."""

COMPRESSION: Final = 4
"""A record of current states is compressed at least so well; in truth about ten times."""


@dataclass(slots=True)
class Replica:
    """The knowledge of one instance about one lock. queue: messages that wait behind the one that is being executed.

    is_reported: CURRENTSTATES names it. What was dropped is not named, and counts as being in the initial state.
    """

    state: str
    is_reported: bool = True
    token: int | None = None
    since_ms: int = 0
    before: str = ""
    queue: list[Message] = field(default_factory=list)
    is_busy: bool = False


@dataclass(slots=True)
class States:
    """The current states of one resource under the present session.

    version: of the znode; None before it is there. unwritten: messages that were executed and are not yet answered.
    is_writing: a task answers them, those that come meanwhile, too. entries, compressed_bytes: of the record as it was
    written last; 0 bytes while it is plain.
    """

    resource: str
    model: StateModel
    version: int | None = None
    replicas: dict[str, Replica] = field(default_factory=dict)
    unwritten: dict[str, Message] = field(default_factory=dict)
    is_writing: bool = False
    entries: int = 0
    compressed_bytes: int = 0

    def record(self, session: str) -> ZNRecord:
        """The record of CURRENTSTATES under this session."""
        simple = {"SESSION_ID": session, "STATE_MODEL_DEF": self.model.name}
        maps = {lock: _entry(replica) for lock, replica in sorted(self.replicas.items()) if replica.is_reported}
        return ZNRecord(self.resource, simple, maps)

    def written(self, record: ZNRecord, body: bytes) -> None:
        """This was sent: how much room it takes."""
        self.compressed_bytes = len(body) if is_compressed(body) else 0
        self.entries = len(record.maps)

    def fits(self, message: Message) -> bool:
        """Can the state that this message leads to be written, beside all that are executed and not yet written?"""
        entry_bytes = ENTRY_BYTES + len(message.lock)
        to_come = len(self.unwritten) + 1
        is_small = (self.entries + to_come) * entry_bytes <= COMPRESSION * STATES_BYTES_MAX
        has_room = 0 < self.compressed_bytes <= STATES_BYTES_MAX - to_come * entry_bytes
        return message.target == DROPPED or is_small or has_room


def _entry(replica: Replica) -> dict[str, str]:
    """One lock in CURRENTSTATES."""
    entry = {"CURRENT_STATE": replica.state}
    if replica.before:
        entry |= {"PREVIOUS_STATE": replica.before, "START_TIME": str(replica.since_ms)}
    if replica.token is not None:
        entry[TOKEN] = str(replica.token)
    return entry
