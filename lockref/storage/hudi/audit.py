"""Hudi's audit trail: one file per provider, rewritten with every record.

Kept as it is, weaknesses included: the file is written by unconditional PUT
while the provider holds its monitor, so it delays renewals (D17), and the end
of a lease that was not released cleanly is never recorded.

Source: RFC-91 audit; Hudi 1.2.0 `AuditServiceFactory`, `StorageLockProviderAuditService`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from lockref.errors import LockrefError
from lockref.storage.hudi.client import StorageLockClient
from lockref.strict_json import NotJson, read_object

CONFIG_FILE_NAME: Final = "audit_enabled.json"
FOLDER_NAME: Final = "audit"
ENABLED_FIELD: Final = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"


class AuditOperationState(StrEnum):
    """Which step of a lock's life a record tells of."""

    START = "START"
    RENEW = "RENEW"
    END = "END"


class AuditService:
    """Writes one provider's audit file.

    started_ms: time of the provider's first lock; part of the file's name.
    validity_ms: added to a timestamp it gives the recorded expiration, on END, too.
    lock_held: asked while the record is made, which on END is before the lock is dropped.
    """

    def __init__(
        self,
        *,
        owner_id: str,
        locks_folder: str,
        started_ms: int,
        validity_ms: int,
        client: StorageLockClient,
        lock_held: Callable[[], bool],
    ) -> None:
        self.path = f"{locks_folder}/{FOLDER_NAME}/{started_ms}_{owner_id}.jsonl"
        self._owner_id = owner_id
        self._started_ms = started_ms
        self._validity_ms = validity_ms
        self._client = client
        self._lock_held = lock_held
        self._lines: list[str] = []

    def record(self, state: AuditOperationState, at_ms: int) -> bool:
        """Add a record and rewrite the file; False if the store did not take it. Raises what the client raises."""
        record = {
            "transactionStartTime": self._started_ms,
            "lockHeld": self._lock_held(),
            "state": state.value,
            "lockExpiration": at_ms + self._validity_ms,
            "ownerId": self._owner_id,
            "timestamp": at_ms,
        }
        self._lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
        return self._client.write_object(self.path, "".join(self._lines))


def is_audit_enabled(client: StorageLockClient, locks_folder: str) -> bool:
    """Read the switch; missing, malformed or unreadable means no."""
    try:
        text = client.read_object(f"{locks_folder}/{CONFIG_FILE_NAME}", True)
        value = read_object(text).get(ENABLED_FIELD) if text is not None else None
    except (LockrefError, NotJson):
        return False
    # Jackson's asBoolean: numbers other than zero and the text "true" count.
    return value.strip() == "true" if isinstance(value, str) else isinstance(value, bool | int) and value != 0
