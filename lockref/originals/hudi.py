"""Hudi's own Java class as a lock of the laboratory, in the time of its Runtime.

Every decision about the record is taken by Hudi's `StorageBasedLockProvider` 1.2.0 and its JSON reader. Handed in are
the storage client, clock, sleeps, owner id and heartbeat manager. That manager is ours, as Hudi's own waits on the
machine's clock; the two are compared tick by tick (docs/parity.md). The loop of `tryLock(time, unit)` is ours as well.

The manager of a cycle is the baseline's (`HudiLock`), so whatever differs between the two comes from the provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lockref.durations import plain_duration
from lockref.errors import ConfigError
from lockref.originals.hudi_classes import HudiOriginal, parse_with_jackson, start_hudi
from lockref.provider import Grant, LockContext, LockEvent, LockEventKind, LockListener, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.storage.config import (
    BASE_PATH,
    LOCK_FILE_NAME,
    LOCKS_FOLDER,
    RENEW_INTERVAL,
    VALIDITY,
    StorageLockConfig,
)
from lockref.storage.hudi.client import ObjectStoreLockClient, StorageLockClient, StorageLockFile
from lockref.storage.hudi.heartbeat import HeartbeatManager, LockProviderHeartbeatManager
from lockref.storage.hudi.java_threads import JavaThreads, Monitor
from lockref.storage.hudi.lock_manager import CycleProvider, HudiLock
from lockref.storage.hudi.provider import HoodieLockException, LockState, attempt_until, state_message

_BELOW_TABLE: Final = f"/{LOCKS_FOLDER}/{LOCK_FILE_NAME}"


class HudiOriginalLock(HudiLock):
    """A `LockProvider` over Hudi's own class. It is made in a process that `set_up` has passed.

    Raises ConfigError for settings that Hudi refuses, fractions of a second among them.
    """

    needs_threads = True
    """A frame of Java belongs to the thread that made it, so no greenlet may carry it."""

    set_up = staticmethod(start_hudi)

    def __init__(self, context: LockContext) -> None:
        if refusal := self.refuses(context.settings):
            raise ConfigError(refusal)
        super().__init__(context)

    @staticmethod
    def refuses(settings: LockSettings) -> str:
        """Why Hudi does not take these settings; "" if it does."""
        for name, duration_ns in (("validity", settings.validity_ns), ("renew interval", settings.renew_interval_ns)):
            if duration_ns % NS_PER_S:
                return f"Hudi counts whole seconds, and the {name} is {plain_duration(duration_ns)}"
        try:
            StorageLockConfig.from_properties(_properties(settings), ignores_unknown=True)
        except ConfigError as error:
            return f"Hudi refuses these settings: {error}"
        return ""

    def _new_provider(self, owner_id: str) -> CycleProvider:
        settings = self._context.settings
        return _RuntimeProvider(
            owner_id,
            settings=settings,
            client=ObjectStoreLockClient(self._store, settings.key, parse=parse_with_jackson),
            runtime=self._runtime,
            threads=self._threads,
            listener=self._context.listener,
        )


def _properties(settings: LockSettings) -> dict[str, object]:
    return {
        # Hudi reads the audit's switch below this path. The path of the lock object is the client's own.
        BASE_PATH: f"s3://lockref/{settings.key.removesuffix(_BELOW_TABLE)}",
        VALIDITY: settings.validity_ns // NS_PER_S,
        RENEW_INTERVAL: settings.renew_interval_ns // NS_PER_S,
    }


class _RuntimeProvider:
    """Hudi's provider, entered by one task of a Runtime at a time.

    Its methods are `synchronized`, and a thread that waits for a Java monitor is lost to the simulator. So each call
    passes a monitor of the Runtime first, which is left exactly where Java leaves its own: between throttled releases.
    """

    def __init__(
        self,
        owner_id: str,
        *,
        settings: LockSettings,
        client: StorageLockClient,
        runtime: Runtime,
        threads: JavaThreads,
        listener: LockListener,
    ) -> None:
        self._owner_id = owner_id
        self._key = settings.key
        self._runtime = runtime
        self._threads = threads
        self._listener = listener
        self._monitor = Monitor(runtime)
        self._is_closing = False
        self._original = HudiOriginal(
            owner_id,
            _properties(settings),
            client=client,
            heartbeat=self._new_heartbeat,
            now_ms=self._now_ms,
            sleep=self._sleep,
            thread_name=lambda: runtime.current_task().name,
        )
        # A simulated process that crashed runs no hook, and its provider need not wait for the end of the JVM.
        self._original.remove_shutdown_hook()

    @property
    def lock_object(self) -> StorageLockFile | None:
        return self._original.look_at_lock()

    def try_lock(self) -> bool:
        with self._monitor:
            return self._original.try_lock()

    def try_lock_for(self, timeout_ns: int) -> bool:
        """Single attempts: Hudi's own loop waits on the machine's clock."""
        is_granted = attempt_until(self._runtime, self._threads, timeout_ns, self.try_lock)
        if is_granted is None:
            state = LockState.FAILED_TO_ACQUIRE
            thread = self._runtime.current_task().name
            raise HoodieLockException(state_message(self._owner_id, self._key, thread, state), state=state)
        return is_granted

    def unlock(self) -> None:
        with self._monitor:
            self._original.unlock()

    def run_shutdown_hook(self) -> None:
        with self._monitor:
            self._original.run_shutdown_hook()

    def close(self) -> None:
        with self._monitor:
            self._is_closing = True
            self._original.close()

    def _now_ms(self) -> int:
        return self._runtime.wall_ns() // NS_PER_MS

    def _sleep(self, seconds: int) -> bool:
        thread = self._threads.current()
        if self._is_closing:
            # `close` is synchronized as a whole, the sleeps of its release included.
            return thread.sleep(seconds * NS_PER_S)
        self._monitor.__exit__(None, None, None)
        try:
            return thread.sleep(seconds * NS_PER_S)
        finally:
            self._monitor.__enter__()

    def _new_heartbeat(self, owner_id: str, interval_ns: int, renew: Callable[[], bool]) -> HeartbeatManager:
        manager = LockProviderHeartbeatManager(
            owner_id, interval_ns, lambda: self._renew(renew), runtime=self._runtime, threads=self._threads
        )
        return _TaskHeartbeat(manager, self._threads)

    def _renew(self, renew: Callable[[], bool]) -> bool:
        with self._monitor:
            before = self.lock_object
            is_healthy = renew()
            after = self.lock_object
        if after is not None and after is not before and after != before:
            self._listener(
                LockEvent(kind=LockEventKind.RENEWED, grant=Grant(owner=self._owner_id, version=after.version))
            )
        return is_healthy


class _TaskHeartbeat:
    """A heartbeat manager that is told a Java thread, and watches the task that runs on it."""

    def __init__(self, manager: HeartbeatManager, threads: JavaThreads) -> None:
        self._threads = threads
        self._start = manager.start_heartbeat_for_thread
        self.stop_heartbeat = manager.stop_heartbeat
        self.has_active_heartbeat = manager.has_active_heartbeat
        self.close = manager.close

    def start_heartbeat_for_thread(self, _thread: object) -> bool:
        return self._start(self._threads.current())
