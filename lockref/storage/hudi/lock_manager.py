"""Hudi's lock as the laboratory sees it: provider and `LockManager` together.

`LockManager` makes a provider per lock cycle and drops it after a clean
unlock. After an unlock that raised it keeps the provider, lock object and all,
for the next cycle; that is where U4 and U5 come from.

Hudi tells a writer of a loss by interrupting its thread. Here the interrupt is
a flag: belief lasts from a granted return until the flag is set or unlock is
called, whatever the clock says, because Hudi's holder never looks at it.

Source: Hudi 1.2.0 `LockManager`, `StorageBasedLockProvider`.
"""

from __future__ import annotations

from typing import Protocol

from lockref.errors import LockError, ReleaseFailed
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockListener, hears_metrics
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import StorageLockConfig
from lockref.storage.hudi.client import ObjectStoreLockClient, StorageLockFile
from lockref.storage.hudi.java_threads import JavaThread, JavaThreads
from lockref.storage.hudi.provider import HoodieLockException, LockState, StorageBasedLockProvider, random_uuid
from lockref.storage.lockfile import decode

__all__ = ["HoodieLockException", "HudiLock", "LockState", "StorageBasedLockProvider"]

REQUEST_TIMEOUT_SHARE = 5
"""Hudi's S3 client gives a request a fifth of the validity, twice the default renew interval (D9)."""


class CycleProvider(Protocol):
    """The face of a provider that the manager needs: `StorageBasedLockProvider`, here or in Java."""

    @property
    def lock_object(self) -> StorageLockFile | None: ...

    def try_lock(self) -> bool: ...

    def try_lock_for(self, timeout_ns: int) -> bool: ...

    def unlock(self) -> None: ...

    def run_shutdown_hook(self) -> None: ...

    def close(self) -> None: ...


class _Belief:
    """The writer's belief, and who hears of its loss.

    Apart from the lock, which knows the threads: they know this and not the lock, so the lock is free as soon as nobody
    uses it.
    """

    __slots__ = ("_listener", "is_granted")

    def __init__(self, listener: LockListener) -> None:
        self._listener = listener
        self.is_granted = False

    def begin(self) -> None:
        self.is_granted = True

    def end(self) -> None:
        self.is_granted = False

    def report_loss(self) -> None:
        if self.is_granted:
            self._listener(LockEvent(kind=LockEventKind.LOST, reason="interrupted by the heartbeat"))


class HudiLock:
    """A `LockProvider` that behaves like Hudi's lock under Hudi's lock manager.

    `lock` is one timed attempt; Hudi's manager would repeat it, 50 times by default.
    """

    decode_record = staticmethod(decode)
    record_format = "rfc91"

    def __init__(self, context: LockContext) -> None:
        StorageLockConfig.from_settings(context.settings)
        self._context = context
        self._runtime = context.runtime
        self._store = context.open_store(context.settings.validity_ns // REQUEST_TIMEOUT_SHARE)
        self._provider: CycleProvider | None = None
        self._belief = _Belief(context.listener)
        self._threads = JavaThreads(context.runtime, on_interrupt=self._belief.report_loss)
        self._thread: JavaThread | None = None
        self._granted_at_ns = 0

    @property
    def interrupted(self) -> bool:
        """True once the heartbeat has told the writer to stop, until the next attempt to lock."""
        return self._thread is not None and self._thread.is_interrupted()

    @property
    def provider(self) -> CycleProvider | None:
        """The provider of this cycle, for tests and observers."""
        return self._provider

    @property
    def grant(self) -> Grant | None:
        provider = self._provider
        lock = provider.lock_object if provider is not None and self.holds() else None
        return Grant(owner=lock.data.owner or "", version=lock.version) if lock is not None else None

    def holds(self) -> bool:
        return self._belief.is_granted and not self.interrupted

    def try_lock(self) -> bool:
        return self._attempt(None)

    def lock(self, timeout_s: float) -> bool:
        """One timed `tryLock`. Raises HoodieLockException, CorruptRecord, StoreRejected or OutcomeUnknown."""
        return self._attempt(round(timeout_s * NS_PER_S))

    def _attempt(self, timeout_ns: int | None) -> bool:
        # A pool's worker thread starts each piece of work with its flag cleared.
        self._thread = self._threads.current()
        if self._thread.clear_interrupt():
            # What was lost is not believed again because the flag is gone; only a new grant counts.
            self._belief.end()
        provider = self._provider
        if provider is None:
            self._provider = provider = self._new_provider(random_uuid(self._runtime.token_bytes(16)))
        started_ns = self._runtime.monotonic_ns()
        is_granted = False
        try:
            is_granted = provider.try_lock() if timeout_ns is None else provider.try_lock_for(timeout_ns)
        finally:
            now_ns = self._runtime.monotonic_ns()
            self._metric("lock.request.latency", (now_ns - started_ns) / NS_PER_MS)
            if not is_granted:
                self._metric("lock.acquire.failure")
        if is_granted:
            self._granted_at_ns = now_ns
            self._belief.begin()
            # Attempts count successes only, in Hudi, too.
            self._metric("lock.acquire.attempts")
            self._metric("lock.acquire.success")
            self._context.listener(LockEvent(kind=LockEventKind.GRANTED, grant=self.grant))
        return is_granted

    def _new_provider(self, owner_id: str) -> CycleProvider:
        settings = self._context.settings
        return StorageBasedLockProvider(
            owner_id,
            lock_file_path=settings.key,
            validity_ns=settings.validity_ns,
            renew_interval_ns=settings.renew_interval_ns,
            # The process shares its store between cycles, so a provider must not close it.
            client=ObjectStoreLockClient(self._store, settings.key),
            runtime=self._runtime,
            threads=self._threads,
            listener=self._context.listener,
        )

    def unlock(self) -> None:
        """Release and drop the provider; on ReleaseFailed the provider stays for the next cycle (U4, U5)."""
        provider = self._provider
        if provider is None:
            return
        was_granted = self._belief.is_granted
        self._belief.end()
        try:
            provider.unlock()
        except ReleaseFailed:
            raise
        except LockError as error:
            # Where Hudi's client lets its SDK's exception out (GCS, D8), it leaves unlock as it is.
            raise ReleaseFailed(f"unlocking {self._context.settings.key}: {error}") from error
        if was_granted:
            held_ms = (self._runtime.monotonic_ns() - self._granted_at_ns) / NS_PER_MS
            self._metric("lock.acquire.duration", held_ms)
        self._metric("lock.release.success")
        self._context.listener(LockEvent(kind=LockEventKind.RELEASED))
        if self._provider is provider:  # Another thread may have released for both (U6).
            self._drop()

    def run_shutdown_hook(self) -> None:
        """Do as Hudi does at the end of its process: release at once, while the writer may still be writing (U16)."""
        if self._provider is not None:
            self._provider.run_shutdown_hook()

    def close(self) -> None:
        self._belief.end()
        if self._provider is not None:
            self._drop()

    def _drop(self) -> None:
        provider, self._provider = self._provider, None
        if provider is not None:  # Two threads may unlock at once (U6): one of them closes it.
            provider.close()

    def _metric(self, name: str, value: float = 1.0) -> None:
        if hears_metrics(self._context.listener):
            self._context.listener(LockEvent(kind=LockEventKind.METRIC, name=name, value=value))
