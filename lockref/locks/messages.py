"""The texts of a lease's errors: which action, on which object, what went wrong, and what to do about it.

One place for the texts, so that the algorithm reads without them. A port has its own.
"""

from __future__ import annotations

from lockref.errors import LockError, LockForked, LockLost, LockNotHeld, OutcomeUnknown, ReleaseFailed, StoreRejected
from lockref.locks.values import Sight
from lockref.runtime import NS_PER_S
from lockref.stores.port import ReadReply


def closed(key: str) -> LockError:
    """This lock was closed."""
    return LockError(f"locking {key} with a lock that is closed: make a new one")


def forked(key: str, *, here: int, maker: int) -> LockForked:
    """A forked child uses its parent's lock (H9). here, maker: process ids."""
    return LockForked(
        f"using the lock {key} in process {here}, a forked child of the process "
        f"{maker} that made it: only the parent may act; make a new lock in the child"
    )


def not_locked(key: str) -> LockNotHeld:
    """A task unlocks what it has not locked (H9)."""
    return LockNotHeld(f"unlocking {key}, which this task has not locked: fix the calling code")


def busy(key: str) -> OutcomeUnknown:
    """Another task of the process is contending, so nobody is known to have it (S7)."""
    return OutcomeUnknown(f"locking {key}: another task of this process is busy with it; try again")


def not_granted(key: str, *, is_unresolved: bool, trouble: str) -> OutcomeUnknown:
    """Out of time, and nothing definite was learned (S7)."""
    what = "a write of ours may have landed and is being undone" if is_unresolved else "nobody was seen to hold it"
    return OutcomeUnknown(f"locking {key}: not granted, and {what} ({trouble or 'no time left'}); try again")


def read_refused(key: str, reply: ReadReply) -> StoreRejected:
    """The store refused to read, and always will (H16)."""
    return StoreRejected(
        f"reading {key}: the store refused ({reply.status} {reply.reason}): "
        f"give this client the right to read there, or choose another store"
    )


def write_refused(key: str, trouble: str) -> StoreRejected:
    """The store refused to write, and always will."""
    return StoreRejected(
        f"locking {key}: the store refused the write ({trouble}): "
        f"give this client the right to write there, or choose another store"
    )


def release_failed(key: str, *, validity_ns: int) -> ReleaseFailed:
    """The store could not be told of a release (H24)."""
    return ReleaseFailed(
        f"unlocking {key}: the store did not take the release; the protected work is done, do not "
        f"repeat it. Others wait until the lease lapses, {validity_ns / NS_PER_S:g} s at most"
    )


def superseded(sight: Sight) -> str:
    """Why a grant has ended that the store does not show any more (H8)."""
    match sight:
        case Sight.ABSENT:
            return "the lock object was deleted"
        case Sight.NO_RECORD:
            # Without the error's text, which may quote what was found: reasons are logged.
            return "the lock object was overwritten with something that is no lock record"
        case _:
            return "somebody else's record has replaced it"


def lost(key: str, *, token: int | None, reason: str) -> LockLost:
    """A grant has ended before its unlock (H12)."""
    message = f"holding {key} with token {token}: lost, {reason}; stop protected work now"
    return LockLost(message, token=token, reason=reason)
