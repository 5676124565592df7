"""The parts of the hardened lock, and the way to make a variant of it.

A variant replaces one part, and is loaded by its name like any lock:

    class Forgetful(StorageLock):
        parts = replace(StorageLock.parts, cell=ForgetfulCell)

    class Bold(StorageLock):
        parts = replace(StorageLock.parts, rules=Rules(deadline_after=no_margin))
"""

from __future__ import annotations

from typing import Final

from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.assembly import Parts
from lockref.locks.fence import FenceMark
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.shortcut import RememberedVersion
from lockref.runtime import Runtime
from lockref.storage.lockfile import LockFile, owner_id
from lockref.storage.writer import LockFileWriter


def new_owner(runtime: Runtime) -> str:
    """An owner that nobody else has: a random UUID, as Hudi's (H22)."""
    return owner_id(runtime.token_bytes(16))


RFC91: Final[Parts[LockFile]] = Parts(
    owner=new_owner,
    writer=LockFileWriter,
    acquisition=ReturningAcquisition,
    waiting=AdaptiveWaiting,
    tokens=FenceMark,
    shortcut=RememberedVersion,
)
"""The parts of the hardened lock."""
