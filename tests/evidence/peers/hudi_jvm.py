"""What only the comparison asks of Hudi's classes: paths, bytes, and its heartbeat manager tick by tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockref.errors import LockError
from lockref.originals.hudi_classes import LOCK, start_hudi
from lockref.originals.jvm import java
from lockref.storage.lockfile import LockFile


def serialize_with_jackson(record: LockFile) -> bytes:
    """The bytes that Hudi's own writer makes."""
    return bytes(
        java()
        .JClass(f"{LOCK}.models.StorageLockFile")
        .toByteArray(
            java().JClass(f"{LOCK}.models.StorageLockData")(record.expired, record.valid_until_ms, record.owner)
        )
    )


def lock_folder_of(base_path: str) -> str:
    """Hudi's own answer to: where is the lock folder of this table?"""
    return str(java().JClass(f"{LOCK}.StorageLockClient").getLockFolderPath(base_path))


def bucket_and_key_of(uri: str) -> tuple[str, str]:
    """Hudi's own answer to: which bucket and key does this URI name? Raises LockError with its message."""
    jpype = java()
    try:
        pair = jpype.JClass(f"{LOCK}.StorageLockClient").parseBucketAndPath(uri)
    except jpype.JException as error:
        raise LockError(str(error.getMessage())) from error
    return str(pair.getLeft()), str(pair.getRight())


class HudiHeartbeatOriginal:
    """Hudi's `LockProviderHeartbeatManager` on a scheduler whose ticks the caller makes.

    schedule: called as the executor's scheduleAtFixedRate would be, with the
        work to run at each tick and what cancels it; may raise to refuse.
    """

    def __init__(
        self,
        owner_id: str,
        renew: Callable[[], bool],
        *,
        schedule: Callable[[Callable[[], None]], Callable[[], None]],
        shutdown: Callable[[], None],
        stop_timeout_ms: int,
    ) -> None:
        start_hudi()
        jpype = java()

        def schedule_at_fixed_rate(work: Any, _initial: Any, _period: Any, _unit: Any) -> Any:
            cancel = schedule(work.run)

            def cancelled(_may_interrupt: Any) -> bool:
                cancel()
                return True

            return jpype.JProxy("java.util.concurrent.ScheduledFuture", dict={"cancel": cancelled})

        executor = jpype.JProxy(
            "java.util.concurrent.ScheduledExecutorService",
            dict={
                "scheduleAtFixedRate": schedule_at_fixed_rate,
                "shutdown": shutdown,
                "awaitTermination": lambda _timeout, _unit: True,
                "shutdownNow": lambda: None,
            },
        )
        java_class = jpype.JClass(f"{LOCK}.models.LockProviderHeartbeatManager").class_
        constructor = next(c for c in java_class.getDeclaredConstructors() if c.getParameterCount() == 7)
        constructor.setAccessible(True)
        arguments = [
            jpype.JString(owner_id),
            executor,
            jpype.JLong(1000),
            jpype.JLong(stop_timeout_ms),
            _supplier(lambda: jpype.JBoolean(renew())),
            jpype.JClass("java.util.concurrent.Semaphore")(1),
            jpype.JClass("org.slf4j.LoggerFactory").getLogger("hudi"),
        ]
        self._manager = constructor.newInstance(jpype.JArray(jpype.JObject)(arguments))

    def start(self, *, owner_is_alive: bool) -> bool:
        """Start for the calling thread, or for one that never ran."""
        thread = current_java_thread() if owner_is_alive else java().JClass("java.lang.Thread")()
        return bool(self._manager.startHeartbeatForThread(thread))

    def stop(self) -> bool:
        return bool(self._manager.stopHeartbeat(True))

    def is_active(self) -> bool:
        return bool(self._manager.hasActiveHeartbeat())

    def close(self) -> None:
        self._manager.close()


def current_java_thread() -> Any:
    """The calling thread as Java sees it; `isInterrupted()` may be asked from anywhere."""
    return java().JClass("java.lang.Thread").currentThread()


def _supplier(supply: Callable[[], Any]) -> Any:
    return java().JProxy("java.util.function.Supplier", dict={"get": supply})
