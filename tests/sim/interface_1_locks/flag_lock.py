"""A flag in one object, without a time. It is not changed when lockref is: it is what a stranger has at home."""

from __future__ import annotations

import json

from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_S
from lockref.words import Outcome


class TerraformLike:
    """Create to lock, delete to unlock, no lease: whoever dies leaves it locked (M4, L2)."""

    def __init__(self, context: LockContext) -> None:
        self.runtime, self.settings = context.runtime, context.settings
        self.store = context.open_store(NS_PER_S)
        self.id = context.runtime.token_bytes(8).hex()
        self.locked = False

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        try:
            return RecordView(owner=json.loads(body)["ID"])
        except (ValueError, KeyError, TypeError):
            return None

    def try_lock(self) -> bool:
        self.locked = self.store.put_if_absent(self.settings.key, json.dumps({"ID": self.id}).encode()).outcome is (
            Outcome.APPLIED
        )
        return self.locked

    def lock(self, timeout_s: float) -> bool:
        end_ns = self.runtime.monotonic_ns() + int(timeout_s * NS_PER_S)
        while not self.try_lock():
            if self.runtime.monotonic_ns() >= end_ns:
                return False
            self.runtime.sleep(self.settings.poll_interval_ns)
        return True

    def holds(self) -> bool:
        return self.locked

    @property
    def grant(self) -> Grant | None:
        return Grant(owner=self.id) if self.locked else None

    def unlock(self) -> None:
        self.locked = False
        self.store.delete(self.settings.key)

    def close(self) -> None:
        """Nothing to end."""
