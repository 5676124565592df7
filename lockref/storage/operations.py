"""Around a lock's life: repairing a damaged lock object, and the end of the process."""

from __future__ import annotations

import atexit
from typing import Protocol

from lockref.errors import OutcomeUnknown
from lockref.locks.cell import Cell
from lockref.locks.values import Purpose, Step
from lockref.runtime import NS_PER_MS
from lockref.storage import lockfile
from lockref.storage.lockfile import LockFile
from lockref.words import Outcome


class ClosesAtExit(Protocol):
    """A lock that can be closed by the end of the process, such as `StorageLock` or `DynamoLock`."""

    def exit_hook(self) -> None: ...


def repair(cell: Cell[LockFile], owner: str) -> bool:
    """Replace a corrupt lock object by a released record of `owner`, if it is still the same one (H17).

    True: done. False: nothing to repair, or somebody else was quicker.
    Raises OutcomeUnknown if the store gave no definite answer.
    """
    found = cell.store.read(cell.key)
    if found.outcome is not Outcome.APPLIED:
        raise OutcomeUnknown(f"repairing {cell.key}: it could not be read ({found.outcome.name} {found.reason})")
    if found.body is None or found.version is None or lockfile.decode(found.body) is not None:
        return False
    # No token: others may have been given larger ones than we have seen, and the mark is above them all (H21).
    record = LockFile(owner, cell.runtime.wall_ns() // NS_PER_MS, expired=True, nonce=cell.new_nonce())
    reply = cell.swap(found.version, record, Purpose.RELEASE)
    match cell.rules.next_step(reply):
        case Step.DONE:
            return True
        case Step.LOOK | Step.GONE if reply.outcome is not Outcome.AMBIGUOUS:
            return False
        case _:
            raise OutcomeUnknown(f"repairing {cell.key}: {reply.in_words()}; look at it and try again")


def release_at_exit(lock: ClosesAtExit) -> None:
    """Let the end of the process close `lock`: nothing is released under a running critical section (H14).

    For a program that may end without `close`. A grant that is still in use
    when the interpreter ends is marked lost and left to lapse: its work may not
    be whole. What an earlier `unlock` could not release is tried once more.
    A forked child leaves its parent's lock alone. Opt-in, because such a hook
    keeps the lock alive as long as the process.
    """
    atexit.register(lock.exit_hook)
