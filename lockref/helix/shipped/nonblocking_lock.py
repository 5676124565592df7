"""`ZKDistributedNonblockingLock`: one persistent znode with an instant until which its owner has the lock.

Every act of it is one update of the znode: a function from the record that is there to the record that shall be. The
functions are below, and carry the lock's mistakes; the numbers are those of docs/helix.md.

Source: helix-lock 1.4.3, `ZKDistributedNonblockingLock`, `HelixLockScope`. What it answers, throws and stores is held
to the original in tests/conformance/test_helix_lock_recorded.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from lockref.errors import ConfigError, LockError
from lockref.helix.shipped.data_accessor import DataAccessor
from lockref.helix.shipped.lock_info import CLEARED, NOBODY, LockInfo
from lockref.helix.shipped.stored_record import LONG_MAX, StoredRecord
from lockref.runtime import NS_PER_MS, Runtime

WAITING_FOR_EVER_MS: Final = 2**31 - 1
"""The waiting timeout of the constructor that takes none. The builders have 0."""


_PLACE: Final = re.compile(r"\{.+?\}")


class HelixException(LockError):
    """The error that the original throws under this name; within an update it ends as False."""


class LockScope(StrEnum):
    """The scope of a lock, and the path of its znode."""

    CLUSTER = "/{clusterName}/LOCK/CLUSTER/{clusterName}"
    PARTICIPANT = "/{clusterName}/LOCK/PARTICIPANT/{participantName}"
    RESOURCE = "/{clusterName}/LOCK/RESOURCE/{resourceName}"

    def path(self, names: Sequence[str]) -> str:
        """names: of the cluster, and of what is locked; of a cluster its name, then anything.

        Raises ConfigError for another number of names, or a name with a brace, which the original's template refuses.
        """
        if len(names) != 2:
            raise ConfigError(f"{self.name} requires 2 arguments to get znode, but was: [{', '.join(names)}]")
        path = self.value
        for place, name in zip(_PLACE.findall(path), names, strict=True):
            path = path.replace(place, name)
        if "{" in path or "}" in path:
            raise ConfigError(f"Unable to instantiate template: {self.value} using keys: [{', '.join(names)}]")
        return path


class LockStatus(Enum):
    """The result of the latest wait of a lock object. It is never reset (HJ4, HJ15)."""

    LOCKED = "LOCKED"
    PENDING = "PENDING"
    PREEMPTED = "PREEMPTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockConfig:
    """The arguments of a lock object. Durations in milliseconds.

    user: names the owner; two objects of one user are one owner. lease_ms: how long the lock is held, from now.
    priority: a higher one pre-empts. waiting_ms: how long a higher one waits for the owner's clean-up. cleanup_ms: how
    long an owner may clean up. is_forceful: take the lock when the waiting is over. on_cleanup: told when the owner is
    pre-empted; its return gives the lock up. None for none, with which the owner never gives way (HJ6).
    Raises ConfigError for a negative number.
    """

    user: str
    lease_ms: int
    message: str = ""
    priority: int = 0
    waiting_ms: int = WAITING_FOR_EVER_MS
    cleanup_ms: int = 0
    is_forceful: bool = False
    on_cleanup: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if min(self.lease_ms, self.waiting_ms, self.cleanup_ms) < 0:
            raise ConfigError("Timeout cannot be negative.")
        if self.priority < 0:
            raise ConfigError("Priority cannot be negative.")


class NonblockingLock:
    """One lock object. status: of its latest waiting; None while it never waited. is_waiting: a call waits just now."""

    def __init__(self, accessor: DataAccessor, runtime: Runtime, path: str, config: LockConfig) -> None:
        self.config = config
        self.status: LockStatus | None = None
        self.is_waiting = False
        self.path = path
        self._accessor = accessor
        self._runtime = runtime
        self._pending_ms = 0
        self._decided = runtime.event()

    # The calls.

    def try_lock(self) -> bool:
        """Ask for the lock; ask again to renew. A higher priority than the owner's waits for the owner's clean-up.

        Raises HelixException where the owner has not cleaned up in time; StoreRejected if the server refuses.
        """
        self._accessor.subscribe(self.path, self._changed)
        info = self._own_info(requestor=None, requestor_waiting_ms=0, requested_ms=0)
        is_updated = self._accessor.update(self.path, lambda found: self._asked(found, info))
        if self.status is not LockStatus.PENDING:
            if not is_updated:
                self._accessor.unsubscribe(self.path)
            return is_updated
        # Also where this call never began to wait: the status is that of an earlier one (HJ4).
        self.is_waiting = True
        self._decided.wait(max(0, self._pending_ms) * NS_PER_MS)
        self.is_waiting = False
        return self._waited()

    def _waited(self) -> bool:
        """The outcome of the waiting."""
        if self.status is LockStatus.LOCKED:
            return True
        if self.status is LockStatus.PREEMPTED:
            self._accessor.unsubscribe(self.path)
            return False
        if self.config.is_forceful:
            # Nobody looks at what the update says: the requestor may be another by now, or nobody (Z19).
            self._accessor.update(self.path, self._forced)
            return True
        self._accessor.unsubscribe(self.path)
        raise HelixException("Cleanup has not been finished by lock owner")

    def unlock(self) -> bool:
        """Write a free lock's record. False: another has the lock. True also where nothing was held (HJ2).

        The record is written whole, so whoever waits is forgotten (HJ3).
        """
        free = LockInfo()
        return self._accessor.update(self.path, lambda found: self._asked(found, free))

    def current_info(self) -> LockInfo:
        """The record of the znode. Raises CorruptRecord, StoreRejected."""
        return LockInfo.of(self._accessor.get(self.path))

    def is_current_owner(self) -> bool:
        """True if the znode names this user and its lease has not ended by our wall clock.

        Raises CorruptRecord, StoreRejected.
        """
        return self._owns(self.current_info())

    def close(self) -> None:
        """End the connection. Raises HelixException, and ends nothing, while the znode says that it holds."""
        if self.is_current_owner():
            raise HelixException("Please unlock the lock before closing it.")
        self._accessor.unsubscribe(self.path)
        self._accessor.close()

    # The updates: from what is stored to what shall be.

    def _asked(self, found: StoredRecord | None, wanted: LockInfo) -> StoredRecord:
        """The update of `try_lock`, and of `unlock`, which wants a lock of nobody."""
        info = LockInfo.of(found)
        if self._now_ms() > info.timeout_ms or self._owns(info):
            return wanted.record()
        if wanted.owner == NOBODY:
            raise HelixException(
                f"User {self.config.user} is not the lock owner and cannot release lock at {self.path}"
            )
        if self.config.priority <= info.priority:
            raise HelixException(f"User {self.config.user} failed to acquire lock at Lock path {self.path}.")
        if info.waiting == NOBODY:
            self._pending_ms = min(self.config.waiting_ms, info.cleanup_timeout_ms)
        elif self.config.priority > info.requestor_priority:
            passed_ms = _long(self._now_ms() - info.requested_ms)
            self._pending_ms = min(self.config.waiting_ms, _long(info.cleanup_timeout_ms - passed_ms))
        # A lower priority than the requestor's was to be refused here. It replaces the requestor (HJ13).
        self.status = LockStatus.PENDING
        return info._replace(
            requestor=wanted.owner,
            requestor_priority=wanted.priority,
            requestor_waiting_timeout_ms=wanted.waiting_timeout_ms,
            requested_ms=self._now_ms(),
        ).record()

    def _forced(self, found: StoredRecord | None) -> StoredRecord:
        """The update of a forceful lock whose waiting is over. Raises HelixException if it is not the requestor."""
        if LockInfo.of(found).waiting != self.config.user:
            raise HelixException(f"User {self.config.user} is not current lock requestor at {self.path}")
        return self._new_owner().record()

    def _cleaned(self, found: StoredRecord | None) -> StoredRecord:
        """The update of an owner that gives way: its own fields are cleared, the requestor's stay."""
        if found is None or not self._owns(LockInfo.of(found)):
            raise HelixException(f"User {self.config.user} is not current lock owner of {self.path}")
        assert found.simple is not None, "an owner has a name"
        found.simple.update(CLEARED)
        return found

    # Changes of the znode.

    def _changed(self) -> None:
        """The znode has changed, or has been made. Raises HelixException, NoZnode, CorruptRecord."""
        info = LockInfo.of(self._accessor.get(self.path, must_exist=True))
        if self._owns(info):
            if info.waiting != NOBODY and info.priority <= info.requestor_priority:
                self._give_way()
        elif info.waiting == self.config.user:
            if info.owner == NOBODY:
                # Nobody looks at what the update says: somebody may have been quicker, and holds (HJ14).
                mine = self._new_owner()
                self._accessor.update(self.path, lambda found: self._asked(found, mine))
                self._decide(LockStatus.LOCKED)
        elif info.waiting != NOBODY and self.status is LockStatus.PENDING:
            self._decide(LockStatus.PREEMPTED)

    def _give_way(self) -> None:
        if self.config.on_cleanup is None:
            raise HelixException(f"{self.path}: the owner is pre-empted and has no listener to tell")
        self.config.on_cleanup()
        if not self._accessor.update(self.path, self._cleaned):
            raise HelixException(f"User {self.config.user} failed to update lock path {self.path}")

    def _decide(self, status: LockStatus) -> None:
        """Wake the waiting task. The event stays set: the next waiting of this object ends at once (HJ15)."""
        self.status = status
        self._decided.set()

    # What it knows of itself.

    def _own_info(self, *, requestor: str | None, requestor_waiting_ms: int, requested_ms: int) -> LockInfo:
        config = self.config
        return LockInfo(
            owner=config.user,
            message=config.message,
            timeout_ms=min(LONG_MAX, self._now_ms() + config.lease_ms),
            priority=config.priority,
            waiting_timeout_ms=config.waiting_ms,
            cleanup_timeout_ms=config.cleanup_ms,
            requestor=requestor,
            requestor_priority=0,
            requestor_waiting_timeout_ms=requestor_waiting_ms,
            requested_ms=requested_ms,
        )

    def _new_owner(self) -> LockInfo:
        """The record of an owner that had waited. It differs from another owner's in the requestor's fields only."""
        return self._own_info(requestor=NOBODY, requestor_waiting_ms=-1, requested_ms=-1)

    def _owns(self, info: LockInfo) -> bool:
        return info.owner == self.config.user and self._now_ms() < info.timeout_ms

    def _now_ms(self) -> int:
        return self._runtime.wall_ns() // NS_PER_MS


def _long(value: int) -> int:
    """Java's arithmetic goes round at 64 bits, which a record with a strange instant shows."""
    return (value + 2**63) % 2**64 - 2**63
