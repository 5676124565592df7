"""Hudi's heartbeat manager: when does a renewal run, and when does it stop?

Two locks of its own: a monitor around the scheduled future, and a semaphore
with one permit that means "a run is in progress". `has_active_heartbeat` only
says that a future is stored, not that anything runs (U15), and `stop` can
answer False although nothing is left to stop (D9, D10). Both are kept.

Source: Hudi 1.2.0 `HeartbeatManager`, `LockProviderHeartbeatManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lockref.errors import LockrefError
from lockref.runtime import NS_PER_S, Mutex, Runtime
from lockref.storage.hudi.java_threads import FixedRateScheduler, JavaThread, JavaThreads, Monitor, ScheduledFuture

STOP_TIMEOUT_NS: Final = 15 * NS_PER_S
"""How long a stop waits for a run in progress."""

CLOSE_TIMEOUT_NS: Final = 5 * NS_PER_S

Log = Callable[[str], None]
"""Takes what Hudi would log. The port has no logger: a log line stamps real time."""


def no_log(_line: str) -> None:
    """The default Log."""


class HeartbeatManager(Protocol):
    """The face of a heartbeat that the provider needs."""

    def start_heartbeat_for_thread(self, thread: JavaThread) -> bool:
        """Begin to renew while `thread` lives; False if it could not begin."""
        ...

    def stop_heartbeat(self, may_interrupt: bool) -> bool:
        """End the renewals; True if this call ended them and none is in flight."""
        ...

    def has_active_heartbeat(self) -> bool: ...

    def close(self) -> None: ...


HeartbeatLoader = Callable[[str, int, Callable[[], bool]], HeartbeatManager]
"""Owner id, renew interval in nanoseconds, renewal: a heartbeat manager."""


class LockProviderHeartbeatManager:
    """Renews at a fixed rate until the renewal fails, the owner thread ends, or it is stopped.

    renew: True if the lock may still be held.
    scheduler, semaphore: injectable for tests, as in Hudi. The semaphore is a
        mutex: one permit, always given back by the task that took it.
    """

    def __init__(
        self,
        owner_id: str,
        interval_ns: int,
        renew: Callable[[], bool],
        *,
        runtime: Runtime,
        threads: JavaThreads,
        scheduler: FixedRateScheduler | None = None,
        semaphore: Mutex | None = None,
        stop_timeout_ns: int = STOP_TIMEOUT_NS,
        log: Log = no_log,
    ) -> None:
        short = owner_id[:6] if len(owner_id) >= 6 else ""
        self._scheduler = scheduler or FixedRateScheduler(runtime, name=f"LockProvider-HeartbeatManager-Thread-{short}")
        self._semaphore = semaphore or runtime.mutex()
        self._threads = threads
        self._monitor = Monitor(runtime)
        self._owner_id = owner_id
        self._interval_ns = interval_ns
        self._renew = renew
        self._stop_timeout_ns = stop_timeout_ns
        self._log = log
        self._future: ScheduledFuture | None = None
        self._is_stop_requested = False

    def start_heartbeat_for_thread(self, thread: JavaThread) -> bool:
        with self._monitor:
            if self.has_active_heartbeat():
                self._log(f"Owner {self._owner_id}: Heartbeat is already running.")
                return False
            self._is_stop_requested = False
            try:
                self._future = self._scheduler.schedule(lambda: self._run(thread), period_ns=self._interval_ns)
            except LockrefError as error:
                self._log(f"Owner {self._owner_id}: Unable to schedule heartbeat task: {error}")
                return False
            return True

    def has_active_heartbeat(self) -> bool:
        with self._monitor:
            return self._future is not None

    def _run(self, thread: JavaThread) -> None:
        if not self._semaphore.acquire(timeout_ns=0):
            self._log(f"Owner {self._owner_id}: Heartbeat semaphore is taken; this run is skipped.")
            return
        try:
            is_healthy = self._beat(thread)
        finally:
            self._semaphore.release()
        if is_healthy:
            return
        # From here on a stop no longer waits for this run. If stop and start
        # both pass in between, the next heartbeat is the one that is cancelled.
        if not self._is_stop_requested:
            self._log(f"Owner {self._owner_id}: Heartbeat failed; interrupting the writer.")
            thread.interrupt()
        with self._monitor:
            if self._future is not None:
                self._future.cancel()
                self._future = None

    def _beat(self, thread: JavaThread) -> bool:
        if not thread.is_alive():
            self._log(f"Owner {self._owner_id}: Monitored thread is no longer alive.")
            return False
        try:
            return self._renew()
        except LockrefError as error:
            # Anything else stands for a Java Error: it ends the task, unnoticed by `has_active_heartbeat` (U15).
            self._log(f"Owner {self._owner_id}: Heartbeat function raised: {error}")
            return False

    def stop_heartbeat(self, may_interrupt: bool) -> bool:
        del may_interrupt  # No request can be interrupted here; see `java_threads`.
        with self._monitor:
            if self._future is None:
                return False
            self._is_stop_requested = True
            self._future.cancel()
        # A set interrupt flag makes a timed wait fail at once, permit or not (D10).
        if self._threads.current().is_interrupted() or not self._semaphore.acquire(self._stop_timeout_ns):
            self._log(f"Owner {self._owner_id}: Heartbeat did not stop in time.")
            return False
        self._semaphore.release()
        with self._monitor:
            self._future = None
        return True

    def close(self) -> None:
        """Stop, and wait at most 5 s for the end of a run in flight. Holds the monitor meanwhile, as Hudi does."""
        with self._monitor:
            if self.has_active_heartbeat():
                self.stop_heartbeat(True)
            self._scheduler.shutdown()
            if self._threads.current().is_interrupted():
                return
            if self._scheduler.await_termination(CLOSE_TIMEOUT_NS):
                # No run is under way, and none can begin. The provider need not wait for the collector to be freed.
                self._renew = _nothing_to_renew


def _nothing_to_renew() -> bool:
    """The renewal of a closed heartbeat."""
    return False
