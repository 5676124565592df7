"""A message from the controller to an instance: move one lock from one state to the next.

Source: `org.apache.helix.model.Message`; what a real participant needs in it is listed in docs/helix.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lockref.errors import ConfigError
from lockref.helix.records.zn_record import ZNRecord

_FIELDS: Final = {
    "instance": "TGT_NAME",
    "session": "TGT_SESSION_ID",
    "resource": "RESOURCE_NAME",
    "lock": "PARTITION_NAME",
    "model": "STATE_MODEL_DEF",
    "source": "FROM_STATE",
    "target": "TO_STATE",
}
STATE_TRANSITION: Final = "STATE_TRANSITION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """id: the znode's name. session: that of the instance for which it is meant. created_zxid: the transaction that
    sent it, 0 before it is sent.
    """

    id: str = ""
    instance: str
    session: str
    resource: str
    lock: str
    model: str
    source: str
    target: str
    created_zxid: int = 0

    def to_record(self, *, controller: str = "", controller_session: str = "", now_ms: int = 0) -> ZNRecord:
        """The message as a record. now_ms: wall time, for people; no decision reads it."""
        simple = {field: getattr(self, name) for name, field in _FIELDS.items()}
        return ZNRecord(
            self.id,
            {
                **simple,
                "MSG_ID": self.id,
                "MSG_TYPE": STATE_TRANSITION,
                "MSG_STATE": "new",
                "SRC_NAME": controller,
                "SRC_SESSION_ID": controller_session,
                "STATE_MODEL_FACTORY_NAME": "DEFAULT",
                "CREATE_TIMESTAMP": str(now_ms),
            },
        )

    @classmethod
    def from_record(cls, record: ZNRecord, *, created_zxid: int = 0) -> Message:
        """Errors: ConfigError for a record that lacks a field, or is a message of another type."""
        kind = record.simple.get("MSG_TYPE")
        if kind != STATE_TRANSITION:
            raise ConfigError(f"message {record.id} has the type {kind!r}; expected {STATE_TRANSITION}")
        missing = [field for field in _FIELDS.values() if field not in record.simple]
        if missing:
            raise ConfigError(f"message {record.id} lacks {', '.join(missing)}")
        values = {name: record.simple[field] for name, field in _FIELDS.items()}
        return cls(id=record.id, created_zxid=created_zxid, **values)
