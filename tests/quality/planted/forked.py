"""Locks and forks: one that refuses its child service, and bugs by which a child goes on with its parent's lock."""

from __future__ import annotations

from lockref.errors import LockNotHeld
from lockref.locks.gate import Gate
from lockref.locks.tenure import Tenure
from lockref.provider import LockContext
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from tests.quality.planted.broken import other
from tests.quality.planted.strangers import PlainLock


class ForkSafeLock(PlainLock):
    """Correct: it knows the process that made it, and answers no other."""

    is_fork_safe = True

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.process = context.runtime.process_id()

    def is_child(self) -> bool:
        return self.runtime.process_id() != self.process

    def holds(self) -> bool:
        return not self.is_child() and super().holds()

    def acquire(self, timeout_ns: int) -> bool:
        if self.is_child():
            raise LockNotHeld("made in another process: make a new lock here")
        return super().acquire(timeout_ns)

    def unlock(self) -> None:
        if self.is_child():
            raise LockNotHeld("made in another process: make a new lock here")
        super().unlock()


# From here on everything is wrong.


class ChildBelieves(StorageLock):
    """The guard looks at clocks only, and a child has the same (H9, S3)."""

    @property
    def tenure(self) -> Tenure[LockFile] | None:
        return self.client.tenure


class _AsksNobody(Gate):
    def check_process(self) -> None:
        """Whoever has this object may use it."""


class ChildReleases(StorageLock):
    """A child's unlock gives its parent's lock back: same owner, same version (H9, S6)."""

    parts = other(gate=_AsksNobody)


class ChildIsTheOwner(ChildBelieves):
    """A child is the owner in every respect (H9, E33)."""

    parts = other(gate=_AsksNobody)


class PlainChild(PlainLock):
    """A stranger that says it is safe and never looked (H9)."""

    is_fork_safe = True


class ChildMayNotUnlockOnly(ForkSafeLock):
    """Only unlock asks who calls (H9)."""

    def holds(self) -> bool:
        return PlainLock.holds(self)


class ChildLocksAnew(ForkSafeLock):
    """A child may lock anew, under its parent's name, and knows the record there for its own (H9, H22)."""

    def acquire(self, timeout_ns: int) -> bool:
        if self.is_child():
            self.process, self.version = self.runtime.process_id(), None
        return super().acquire(timeout_ns)
