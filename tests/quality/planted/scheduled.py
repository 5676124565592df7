"""Locks that are wrong only in some orders of what their own threads do: no fault shows it, and few schedules do."""

from __future__ import annotations

from lockref.locks.values import Stored
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import WritesApart, other
from tests.quality.planted.strangers import PlainLock


class TakesTurns(PlainLock):
    """Correct: the threads of one process take turns, and whose turn it is asks the store for the lease."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.turn_of = ""

    def take_turn(self) -> bool:
        with self.mutex:
            if self.turn_of:
                return False
            self.turn_of = self.runtime.current_task().name
            return True

    def acquire(self, timeout_ns: int) -> bool:
        end_ns = self.runtime.monotonic_ns() + timeout_ns
        while not self.take_turn():
            if self.runtime.monotonic_ns() >= end_ns:
                return False
            self.runtime.sleep(self.settings.poll_interval_ns // 10)
        is_granted = False
        try:
            is_granted = super().acquire(timeout_ns)
        finally:
            if not is_granted:
                self.turn_of = ""
        return is_granted

    def enter(self) -> bool:
        self.user, self.version = self.runtime.current_task(), None
        return True

    def unlock(self) -> None:
        try:
            super().unlock()
        finally:
            self.turn_of = ""


class ChecksThenActs(TakesTurns):
    """Two threads see that it is nobody's turn, and both take it: a clock is read between check and act."""

    def take_turn(self) -> bool:
        if self.turn_of:
            return False
        self.taken_ns = self.runtime.monotonic_ns()
        self.turn_of = self.runtime.current_task().name
        return True


class ChecksThenActsAtOnce(TakesTurns):
    """The same with nothing between check and act but the end of a line."""

    def take_turn(self) -> bool:
        if self.turn_of:
            return False
        self.turn_of = self.runtime.current_task().name
        return True


class RenewsWhatItReads(PlainLock):
    """The heartbeat reads the record and writes over it: a release that lands in between is undone."""

    def renew(self, epoch: int) -> None:
        seen = self.store.read(self.key)
        if seen.outcome is not Outcome.APPLIED:
            return
        mono_ns, wall_ns = self.runtime.monotonic_ns(), self.runtime.wall_ns()
        until_ms = max(self.until_ms, (wall_ns + self.settings.validity_ns) // NS_PER_MS)
        version = self.put(self.line(until_ms, self.token, "held"), seen.version).version
        if version is not None and epoch == self.epoch and self.holds():
            self.extend(version, mono_ns, wall_ns, until_ms)


class _TakesBlindlyAfterALostRead(WritesApart):
    """Remembers a read without an answer."""

    has_missed = False

    def look(self) -> Stored[LockFile] | None:
        found = super().look()
        self.has_missed = self.has_missed or found is None
        return found

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if self.has_missed else super().acquire(if_version, record)


class TakesBlindlyAfterALostRead(StorageLock):
    """After a read without an answer a grant is written without a condition: only a rival in between is hurt by it.

    So it needs a fault and an order of two clients' requests.
    """

    parts = other(cell=_TakesBlindlyAfterALostRead)
