"""Hudi's own lock as a contender: the Java provider behind our provider protocol.

In a clone any command takes it by its place:

    lockref bench contention --backend memory: -p tests.evidence.peers.hudi:HudiOriginalLock

Everything but the storage client is Hudi's, heartbeat thread and JSON reader
included, so it runs in real time only, and one provider object must be used
from one thread: an interrupt is a flag of the Java thread.

The same manager rules as in `lockref.storage.hudi.lock_manager.HudiLock`: a new provider
per cycle, the old one again after an unlock that raised.
"""

from __future__ import annotations

from typing import Any

from lockref.errors import LockError, ReleaseFailed
from lockref.originals.hudi_classes import HudiOriginal, clear_interrupt, parse_with_jackson, start_hudi
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind
from lockref.runtime import NS_PER_S
from lockref.storage.config import BASE_PATH, RENEW_INTERVAL, VALIDITY
from lockref.storage.hudi.client import ObjectStoreLockClient
from lockref.storage.hudi.lock_manager import REQUEST_TIMEOUT_SHARE
from lockref.storage.hudi.provider import random_uuid
from lockref.storage.lockfile import decode
from tests.evidence.peers.hudi_jvm import current_java_thread


class HudiOriginalLock:
    """A `LockProvider` whose every decision is taken by Hudi's classes.

    Validity and renew interval are rounded down to whole seconds, at least 10
    and 1, because Hudi knows no finer ones. Raises CapabilityMissing without
    Java (17 or later), JPype or the pinned jar.
    """

    decode_record = staticmethod(decode)
    record_format = "rfc91"
    needs_real_time = True
    """Hudi's heartbeat is a Java thread on the machine's clock: under virtual time a verdict would mean nothing."""

    def __init__(self, context: LockContext) -> None:
        start_hudi()
        settings = context.settings
        self._context = context
        self._store = context.open_store(settings.validity_ns // REQUEST_TIMEOUT_SHARE)
        self._properties = {
            # Only names the lock in Hudi's messages; the client knows the object.
            BASE_PATH: "s3://lockref/table",
            VALIDITY: max(10, settings.validity_ns // NS_PER_S),
            RENEW_INTERVAL: max(1, settings.renew_interval_ns // NS_PER_S),
        }
        self._original: HudiOriginal | None = None
        self._thread: Any = None
        self._is_granted = False

    @property
    def grant(self) -> Grant | None:
        lock = self._original.get_lock() if self._original is not None and self.holds() else None
        return Grant(owner=lock.data.owner or "", version=lock.version) if lock is not None else None

    @property
    def interrupted(self) -> bool:
        """True once Hudi's heartbeat has interrupted the locking thread."""
        return self._thread is not None and bool(self._thread.isInterrupted())

    @property
    def java_thread(self) -> Any:
        """The Java thread that locked last; its interrupt is how Hudi tells of a loss."""
        return self._thread

    def holds(self) -> bool:
        return self._is_granted and not self.interrupted

    def try_lock(self) -> bool:
        return self._attempt(None)

    def lock(self, timeout_s: float) -> bool:
        return self._attempt(round(timeout_s * NS_PER_S))

    def _attempt(self, timeout_ns: int | None) -> bool:
        clear_interrupt()
        self._thread = current_java_thread()
        original = self._original or self._new_original()
        is_granted = original.try_lock() if timeout_ns is None else original.try_lock_for(timeout_ns)
        if is_granted:
            self._is_granted = True
            self._context.listener(LockEvent(kind=LockEventKind.GRANTED, grant=self.grant))
        return is_granted

    def _new_original(self) -> HudiOriginal:
        self._original = HudiOriginal(
            random_uuid(self._context.runtime.token_bytes(16)),
            self._properties,
            client=ObjectStoreLockClient(self._store, self._context.settings.key, parse=parse_with_jackson),
        )
        return self._original

    def unlock(self) -> None:
        original = self._original
        if original is None:
            return
        self._is_granted = False
        try:
            original.unlock()
        except ReleaseFailed:
            raise
        except LockError as error:
            raise ReleaseFailed(f"unlocking {self._context.settings.key}: {error}") from error
        self._context.listener(LockEvent(kind=LockEventKind.RELEASED))
        self.close()

    def close(self) -> None:
        """Close the Java provider: left open, its heartbeat thread keeps the process alive for ever (D12)."""
        self._is_granted = False
        original, self._original = self._original, None
        if original is not None:
            original.close()
