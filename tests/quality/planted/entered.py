"""Locks that may be entered twice: one that counts rightly, and bugs in counting and in leaving."""

from __future__ import annotations

from typing import Any

from lockref.errors import LockLost, LockNotHeld
from lockref.locks.gate import Gate
from lockref.locks.tenure import Tenure
from lockref.locks.values import Purpose
from lockref.runtime import MonoNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from tests.quality.planted.broken import WritesApart, extended, other
from tests.quality.planted.strangers import PlainLock


class CountingLock(PlainLock):
    """Correct: the task that holds may lock again; each unlock gives one entry back."""

    is_reentrant = True
    count = 0

    def re_enters(self) -> bool:
        return self.user == self.runtime.current_task() and self.holds()

    def acquire(self, timeout_ns: int) -> bool:
        if self.re_enters():
            self.count += 1
            return True
        if super().acquire(timeout_ns):
            self.count = 1
            return True
        return False

    def unlock(self) -> None:
        if self.user != self.runtime.current_task():
            raise LockNotHeld("this task has not locked it")
        self.count -= 1
        if self.count > 0:
            if not self.holds():
                raise LockLost("lost before the inner unlock", token=self.token, reason="lapsed or replaced")
            return
        super().unlock()


class ClosingTellsTheHolder(CountingLock):
    """Correct: whoever closes it stops the holder's belief first, and then gives the lock back."""

    def close(self) -> None:
        super().close()
        version, self.version = self.version, None
        if version is not None:
            self.release(version)


# From here on everything is wrong.


class _CountsUpByTwo(Gate):
    def set_depth(self, depth: int) -> None:
        super().set_depth(depth + 1 if depth > self.depth else depth)


class CountsTwice(StorageLock):
    """A second entry counts for two, so the outer unlock gives nothing back (H9, S7)."""

    parts = other(gate=_CountsUpByTwo)


class InnerUnlockGivesBack(StorageLock):
    """The first unlock gives the lock back, however often it was entered; the guard stays with the outer one (S3)."""

    def unlock(self) -> None:
        if self.tenure is not None and self.gate.depth > 1:
            self.cleanup.release(self.tenure)
        super().unlock()


class EntersWhatIsLost(StorageLock):
    """Whoever locked it may lock it again, lost or not (S7)."""

    def lock(self, timeout_s: float) -> bool:
        return self._enters() or super().lock(timeout_s)

    def try_lock(self) -> bool:
        return self._enters() or super().try_lock()

    def _enters(self) -> bool:
        if self.tenure is None or not self.gate.is_mine():
            return False
        self.gate.set_depth(self.gate.depth + 1)
        return True

    @property
    def grant(self) -> Any:
        return None if self.tenure is None else self.tenure.grant()


class CountOutlivesLoss(CountingLock):
    """The count of a lost grant goes on in the next one, whose unlock then gives nothing back (S7)."""

    def acquire(self, timeout_ns: int) -> bool:
        if self.re_enters():
            self.count += 1
            return True
        if PlainLock.acquire(self, timeout_ns):
            self.count += 1
            return True
        return False

    def unlock(self) -> None:
        if self.user == self.runtime.current_task() and not self.holds():
            PlainLock.unlock(self)
        super().unlock()


class LocksTwiceUnlocksOnce(CountingLock):
    """Counts entries one too high, so the last unlock is taken for an inner one (S7)."""

    def acquire(self, timeout_ns: int) -> bool:
        was_held = self.re_enters()
        granted = super().acquire(timeout_ns)
        if was_held and granted:
            self.count += 1
        return granted


class CloseLeavesTheHeartbeat(StorageLock):
    """Close says goodbye and lets the heartbeat go on (L1, U16)."""

    def close(self) -> None:
        """Nothing to do: the user may still be inside."""


class PlainCloseLeavesTheHeartbeat(PlainLock):
    """The same by a stranger (L1, U16)."""

    def close(self) -> None:
        """The heartbeat is a daemon; it ends with the process."""


class CloseStopsBelievingOnly(StorageLock):
    """Close clears what the lock knows; the heartbeat has a copy of that and renews on (L1, U16)."""

    def close(self) -> None:
        tenure, self.client.tenure = self.tenure, None
        if tenure is not None and not tenure.has_lapsed:
            tenure.end()
            self.runtime.spawn(lambda: self._keep(tenure), name="heartbeat-left")

    def _keep(self, tenure: Tenure[LockFile]) -> None:
        version, record = tenure.lease.version, tenure.lease.attempt.record
        for _ in range(60):
            renewal = extended(record, self.cell, self.terms)
            reply = self.cell.swap(version, renewal, Purpose.RENEW)
            if reply.version is not None:
                version, record = reply.version, renewal
            self.runtime.sleep(self.terms.renew_interval_ns)


class CloseKeepsBelieving(StorageLock):
    """Close gives the lock back and leaves the guard where it was (M27)."""

    _believed_until_ns = MonoNs(0)

    def close(self) -> None:
        if self.tenure is not None:
            self._believed_until_ns = self.tenure.lease.deadline.mono_ns
        super().close()

    def holds(self) -> bool:
        return super().holds() or self.runtime.monotonic_ns() < self._believed_until_ns


class CloseReleasesUnderTheHolder(StorageLock):
    """Another task's close gives the lock back, and the holder is not told (U16, S3)."""

    parts = other(cell=WritesApart)
    cell: WritesApart

    def close(self) -> None:
        tenure = self.tenure
        if tenure is None or self.gate.is_mine():
            super().close()
            return
        self.cell.overwrite(tenure.lease.attempt.record.freed(self.cell.new_nonce()))


class PlainCloseReleasesUnderTheHolder(PlainLock):
    """The same by a stranger: the condition holds, the guard goes on saying yes (U16, S3)."""

    def close(self) -> None:
        super().close()
        version = self.version
        if version is not None:
            self.release(version)
