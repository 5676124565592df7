"""Hudi's storage-based lock provider, answer by answer: the baseline.

This is what the hardened lock is measured against, so nothing is repaired:
the holder never fences itself (U1), a lost renewal leaves the lock object
(U7), a failed release is followed by "re-entrant" answers without a heartbeat
(U4, U5). tests/conformance/test_hudi_differential.py drives it and the Java
original through the same traces.

Names follow Hudi's, so that the two can be read side by side. Times inside are
epoch milliseconds, as on the wire. Python exceptions: LockrefError stands for
what Java code catches as Exception.

Source: RFC-91; Hudi 1.2.0 `StorageBasedLockProvider`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, assert_never

from lockref.errors import ConfigError, LockError, LockrefError, ReleaseFailed
from lockref.provider import Grant, LockEvent, LockEventKind, LockListener, hears_metrics
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.storage.config import DRIFT_BUFFER_NS, StorageLockConfig, check_scheme
from lockref.storage.hudi.audit import AuditOperationState, AuditService, is_audit_enabled
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, StorageLockClient, StorageLockFile
from lockref.storage.hudi.heartbeat import HeartbeatLoader, HeartbeatManager, LockProviderHeartbeatManager, Log, no_log
from lockref.storage.hudi.java_threads import JavaThreads, Monitor
from lockref.storage.lockfile import LockFile

DRIFT_BUFFER_MS: Final = DRIFT_BUFFER_NS // NS_PER_MS
POLL_NS: Final = 1 * NS_PER_S
"""How often a waiter looks; Hudi has no setting for it (D13)."""

THROTTLE_RETRY_SECONDS: Final = (1, 2, 4)
"""Waits before a throttled release is tried again (#18439)."""


class LockState(StrEnum):
    """Hudi's names for the steps of a lock's life, as they appear in its messages."""

    ACQUIRING = "ACQUIRING"
    ACQUIRED = "ACQUIRED"
    ALREADY_ACQUIRED = "ALREADY_ACQUIRED"
    RELEASING = "RELEASING"
    RELEASED = "RELEASED"
    ALREADY_RELEASED = "ALREADY_RELEASED"
    FAILED_TO_ACQUIRE = "FAILED_TO_ACQUIRE"
    FAILED_TO_RELEASE = "FAILED_TO_RELEASE"


class HoodieLockException(LockError):
    """The error that Hudi's provider throws on purpose; `state` is None if its message names none.

    Its caller, `LockManager`, tries again after this one and after no other.
    """

    def __init__(self, message: str, *, state: LockState | None = None) -> None:
        super().__init__(message)
        self.state = state


class HoodieReleaseFailed(HoodieLockException, ReleaseFailed):
    """FAILED_TO_RELEASE: after a commit it reports failure for committed data (D16)."""


class ExpireLockResult(StrEnum):
    """Outcome of one attempt to write the lock object as expired."""

    SUCCESS = "SUCCESS"
    THROTTLED = "THROTTLED"
    FAILED = "FAILED"


ClientLoader = Callable[[str, StorageLockConfig], StorageLockClient]
"""Owner id and settings: the client for the lock object that the settings name."""


class StorageBasedLockProvider:
    """One owner's handle on one lock object; made anew for every lock cycle by `LockManager`.

    owner_id: written into the lock object; a UUID per instance.
    validity_ns, renew_interval_ns: from the settings, whole seconds in Hudi.
    heartbeat: makes the heartbeat manager; default Hudi's own.
    threads: who may call; a lost lock interrupts the one that took it.
    remove_hook: takes back the shutdown hook, whose body is `run_shutdown_hook`.
    """

    def __init__(
        self,
        owner_id: str,
        *,
        lock_file_path: str,
        validity_ns: int,
        renew_interval_ns: int,
        client: StorageLockClient,
        runtime: Runtime,
        heartbeat: HeartbeatLoader | None = None,
        threads: JavaThreads | None = None,
        listener: LockListener = lambda _event: None,
        remove_hook: Callable[[], None] = lambda: None,
        log: Log = no_log,
    ) -> None:
        self.owner_id = owner_id
        self.lock_file_path = lock_file_path
        self._locks_folder = lock_file_path.rpartition("/")[0]
        self._validity_ms = validity_ns // NS_PER_MS
        self._client = client
        self._runtime = runtime
        self._threads = threads or JavaThreads(runtime)
        self._listener = listener
        self._remove_hook = remove_hook
        self._log = log
        self._monitor = Monitor(runtime)
        self._lock: StorageLockFile | None = None
        self._is_closed = False
        self._audit: AuditService | None = None
        load_heartbeat = heartbeat or self._default_heartbeat
        self.heartbeat = load_heartbeat(owner_id, renew_interval_ns, self.renew_lock)

    def _default_heartbeat(self, owner_id: str, interval_ns: int, renew: Callable[[], bool]) -> HeartbeatManager:
        return LockProviderHeartbeatManager(
            owner_id, interval_ns, renew, runtime=self._runtime, threads=self._threads, log=self._log
        )

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, object],
        *,
        load_client: ClientLoader,
        runtime: Runtime,
        heartbeat: HeartbeatLoader | None = None,
        listener: LockListener = lambda _event: None,
    ) -> StorageBasedLockProvider:
        """Make a provider from Hudi's properties.

        Raises ConfigError for bad settings, HoodieLockException where no client
        can be had: Hudi wraps every cause in one message.
        """
        config = StorageLockConfig.from_properties(properties, ignores_unknown=True)
        owner_id = random_uuid(runtime.token_bytes(16))
        try:
            location = config.location
            check_scheme(location.scheme)
            client = load_client(owner_id, config)
        except (ConfigError, LockError) as error:
            raise HoodieLockException(f"Failed to load and initialize StorageLock: {error}") from error
        return cls(
            owner_id,
            lock_file_path=location.key,
            validity_ns=config.validity_ns,
            renew_interval_ns=config.renew_interval_ns,
            client=client,
            runtime=runtime,
            heartbeat=heartbeat,
            listener=listener,
        )

    # What a caller asks.

    @property
    def lock_object(self) -> StorageLockFile | None:
        """Hudi's `getLock()` without its monitor: for observers, who must never wait."""
        return self._lock

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def get_lock(self) -> StorageLockFile | None:
        """The lock object this provider last wrote and has not released; it may have lapsed long ago."""
        with self._monitor:
            return self._lock

    def try_lock(self) -> bool:
        """One attempt. Raises HoodieLockException when closed or when a heartbeat outlived its lease."""
        with self._monitor:
            if self._is_closed:
                self._count("lock.provider.fatal.error")
                raise HoodieLockException("Lock provider already closed")
            if self._actually_holds_lock():
                # "Re-entrant": no request, and no look at thread or heartbeat (U5, U6, U7).
                return True
            if self.heartbeat.has_active_heartbeat():
                self._count("lock.provider.fatal.error")
                raise self._failed_to_acquire()
            return self._acquire()

    def try_lock_for(self, timeout_ns: int) -> bool:
        """`tryLock(time, unit)`: attempts, one second apart. A timeout of 0 attempts nothing."""
        is_granted = attempt_until(self._runtime, self._threads, timeout_ns, self.try_lock)
        if is_granted is None:
            self._count("lock.interrupted")
            raise self._failed_to_acquire()
        return is_granted

    def unlock(self) -> None:
        """Write the lock object as expired. Raises HoodieReleaseFailed; nothing held is nothing to do."""
        with self._monitor:
            if self._lock is None:
                return
            if self.heartbeat.has_active_heartbeat() and not self.heartbeat.stop_heartbeat(True):
                # The monitor is held while `stop` waits for a renewal that waits for the monitor (D9).
                self._count("lock.release.failure")
                raise self._failed_to_release()
            attempted = self._lock
            result = self._try_expire_current_lock(from_shutdown_hook=False)
        for delay_s in THROTTLE_RETRY_SECONDS:
            if result is not _EXPIRY_THROTTLED:
                break
            if self._sleep_for_throttle_retry(delay_s):
                self._count("lock.release.failure")
                raise self._failed_to_release()
            with self._monitor:
                if self._lock is not attempted:
                    return
                result = self._try_expire_current_lock(from_shutdown_hook=False)
        if result is not _EXPIRED:
            self._count("lock.release.failure")
            raise self._failed_to_release()

    def renew_lock(self) -> bool:
        """Renew, for the heartbeat: True unless the lock is certainly lost. Never raises what Java calls Exception."""
        with self._monitor:
            try:
                return self._renew()
            except LockrefError as error:
                self._log(f"Owner {self.owner_id}: Exception occurred while renewing lock: {error}")
                self._count("lock.provider.fatal.error")
                return False

    def close(self) -> None:
        """Release, then close client, heartbeat and audit; a failure of one does not keep the others."""
        with self._monitor:
            # The monitor stays held through the waits of a throttled release.
            steps = (self._remove_hook, self.unlock, self._client.close, self.heartbeat.close)
            for step in steps:
                try:
                    step()
                except LockrefError as error:
                    self._log(f"Owner {self.owner_id}: Failed to close: {error}")
            self._audit = None
            self._is_closed = True

    def run_shutdown_hook(self) -> None:
        """Do as the JVM's shutdown hook does: one attempt at releasing; the heartbeat is left running (U16)."""
        with self._monitor:
            if not self._is_closed and self._actually_holds_lock():
                self._try_expire_current_lock(from_shutdown_hook=True)
            # Not reached if the client raises, as in Hudi.
            self._is_closed = True

    # One step each.

    def _acquire(self) -> bool:
        result, current = self._client.read_current_lock_file()
        if result is _READ_UNKNOWN:
            self._count("lock.state.unknown")
            return False
        if result is _READ_FOUND and current is not None and self._is_lock_still_valid(current):
            # Even when the owner is this provider: its own lost write blocks it (D3).
            return False
        acquired_ms = self._now_ms()
        upserted, written = self._client.try_upsert_lock_file(
            LockFile(self.owner_id, acquired_ms + self._validity_ms, expired=False), current
        )
        if upserted is not _WRITE_LANDED:
            self._count(_ACQUIRE_FAILURE_METRICS[upserted])
            return False
        assert written is not None, "an applied write names what it wrote"
        self._set_lock(written)
        self._gauge_deadline(written.data.valid_until_ms)
        if not self.heartbeat.start_heartbeat_for_thread(self._threads.current()):
            self._count("lock.provider.fatal.error")
            self._try_expire_current_lock(from_shutdown_hook=False)  # Its answer is ignored (U8).
            return False
        if self._audit is None and is_audit_enabled(self._client, self._locks_folder):
            self._audit = AuditService(
                owner_id=self.owner_id,
                locks_folder=self._locks_folder,
                started_ms=acquired_ms,
                validity_ms=self._validity_ms,
                client=self._client,
                lock_held=self._actually_holds_lock,
            )
        self._record_audit(_AUDIT_START, acquired_ms)
        # Nobody asks whether the lease is still alive by now (U3).
        return True

    def _renew(self) -> bool:
        lock = self._lock
        if lock is None:
            return False
        renewed_ms = self._now_ms()
        # The lease's own expiry is not looked at: a lapsed one is revived if nobody took it.
        result, written = self._client.try_upsert_lock_file(
            LockFile(self.owner_id, renewed_ms + self._validity_ms, expired=False), lock
        )
        match result:
            case LockUpsertResult.SUCCESS:
                assert written is not None, "an applied write names what it wrote"
                self._set_lock(written)
                self._gauge_deadline(lock.data.valid_until_ms)
                self._record_audit(_AUDIT_RENEW, renewed_ms)
                grant = Grant(owner=self.owner_id, version=written.version)
                self._listener(LockEvent(kind=LockEventKind.RENEWED, grant=grant))
                return True
            case LockUpsertResult.ACQUIRED_BY_OTHERS:
                self._count("lock.acquired.others.error")
                return False  # The lock object stays (U7).
            case LockUpsertResult.UNKNOWN_ERROR:
                self._count("lock.state.unknown")
                return True  # For ever, also past the lease (U1).
            case LockUpsertResult.THROTTLED:
                self._count("lock.throttled")
                return True
        assert_never(result)

    def _try_expire_current_lock(self, *, from_shutdown_hook: bool) -> ExpireLockResult:
        if not from_shutdown_hook and self.heartbeat.has_active_heartbeat():
            raise HoodieLockException("Must stop heartbeat before expire lock file")
        lock = self._lock
        assert lock is not None, "only a held lock is expired"
        expired_ms = self._now_ms()
        result, _written = self._client.try_upsert_lock_file(
            LockFile(self.owner_id, lock.data.valid_until_ms, expired=True), lock
        )
        match result:
            case LockUpsertResult.SUCCESS:
                self._record_audit(_AUDIT_END, expired_ms)
                self._set_lock(None)
                return _EXPIRED
            case LockUpsertResult.ACQUIRED_BY_OTHERS:
                self._set_lock(None)
                self._count("lock.acquired.others.error")
                return ExpireLockResult.FAILED
            case LockUpsertResult.UNKNOWN_ERROR:
                self._count("lock.state.unknown")
                return ExpireLockResult.FAILED  # The lock object stays (U4, U5).
            case LockUpsertResult.THROTTLED:
                self._count("lock.throttled")
                return ExpireLockResult.THROTTLED
        assert_never(result)

    def _sleep_for_throttle_retry(self, delay_s: int) -> bool:
        return self._threads.current().sleep(delay_s * NS_PER_S)

    def _set_lock(self, lock: StorageLockFile | None) -> None:
        if lock is not None and lock.data.owner != self.owner_id:
            raise HoodieLockException(
                f"Owners do not match. Current lock owner: {self.owner_id} "
                f"lock path: {self.lock_file_path} owner: {lock.data.owner}"
            )
        self._lock = lock

    def _now_ms(self) -> int:
        return self._runtime.wall_ns() // NS_PER_MS

    def _actually_holds_lock(self) -> bool:
        return self._lock is not None and self._is_lock_still_valid(self._lock)

    def _is_lock_still_valid(self, lock: StorageLockFile) -> bool:
        """True if the lease still stands. The buffer favours the owner in the record, the holder included (U1)."""
        if lock.data.expired:
            return False
        if self._now_ms() > lock.data.valid_until_ms + DRIFT_BUFFER_MS:
            self._count("lock.dangling")
            return False
        return True

    def _record_audit(self, state: AuditOperationState, at_ms: int) -> None:
        if self._audit is None:
            return
        try:
            is_written = self._audit.record(state, at_ms)
        except LockrefError as error:
            self._log(f"Owner {self.owner_id}: Failed to record audit operation {state}: {error}")
            return
        if not is_written:
            self._log(f"Owner {self.owner_id}: Failed to write audit records to: {self._audit.path}")

    def _count(self, name: str) -> None:
        if hears_metrics(self._listener):
            self._listener(LockEvent(kind=LockEventKind.METRIC, name=name))

    def _gauge_deadline(self, valid_until_ms: int) -> None:
        if not hears_metrics(self._listener):
            return
        left_ms = max(0, valid_until_ms - self._now_ms())
        self._listener(LockEvent(kind=LockEventKind.METRIC, name="lock.expiration.deadline", value=left_ms))

    def _state_message(self, state: LockState) -> str:
        thread = self._runtime.current_task().name
        return state_message(self.owner_id, self.lock_file_path, thread, state)

    def _failed_to_acquire(self) -> HoodieLockException:
        state = LockState.FAILED_TO_ACQUIRE
        return HoodieLockException(self._state_message(state), state=state)

    def _failed_to_release(self) -> HoodieReleaseFailed:
        state = LockState.FAILED_TO_RELEASE
        return HoodieReleaseFailed(self._state_message(state), state=state)


def state_message(owner_id: str, lock_file_path: str, thread: str, state: LockState) -> str:
    """Hudi's words about a lock that it could not take or give back."""
    return f"Owner {owner_id}: Lock file path {lock_file_path}, Thread {thread}, Storage based lock state {state}"


def attempt_until(runtime: Runtime, threads: JavaThreads, timeout_ns: int, try_lock: Callable[[], bool]) -> bool | None:
    """The loop of `tryLock(time, unit)`: True once an attempt is granted; None if an interrupt ended the waiting."""
    deadline_ns = runtime.monotonic_ns() + timeout_ns
    while runtime.monotonic_ns() < deadline_ns:
        if try_lock():
            return True
        if threads.current().sleep(POLL_NS):
            return None
    return False


# Python 3.11 takes long to find a member of an enumeration; these are asked for with every attempt.
_READ_FOUND: Final = LockGetResult.SUCCESS
_READ_UNKNOWN: Final = LockGetResult.UNKNOWN_ERROR
_WRITE_LANDED: Final = LockUpsertResult.SUCCESS
_EXPIRED: Final = ExpireLockResult.SUCCESS
_EXPIRY_THROTTLED: Final = ExpireLockResult.THROTTLED
_AUDIT_START: Final = AuditOperationState.START
_AUDIT_RENEW: Final = AuditOperationState.RENEW
_AUDIT_END: Final = AuditOperationState.END

_ACQUIRE_FAILURE_METRICS: Final = {
    LockUpsertResult.ACQUIRED_BY_OTHERS: "lock.acquire.precondition.failure",
    LockUpsertResult.THROTTLED: "lock.throttled",
    LockUpsertResult.UNKNOWN_ERROR: "lock.state.unknown",
}


def random_uuid(entropy: bytes) -> str:
    """A version 4 UUID in text from 16 unpredictable bytes."""
    marked = bytearray(entropy)
    marked[6] = marked[6] & 0x0F | 0x40
    marked[8] = marked[8] & 0x3F | 0x80
    text = marked.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
