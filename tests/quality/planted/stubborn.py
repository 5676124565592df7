"""Bugs in giving up: calls that go on for as long as the store says no, or that ask the wrong clock for the time."""

from __future__ import annotations

from functools import partial
from typing import Any

from lockref.errors import OutcomeUnknown, StoreRejected
from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.assembly import Parts
from lockref.locks.cell import Cell
from lockref.locks.values import Purpose, Stored
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome
from tests.quality.planted.broken import WritesApart, other
from tests.quality.planted.strangers import HiddenLock, PlainLock

AGAIN_NS = 200 * NS_PER_MS


class _Insists(WritesApart):
    """Sends an acquiring write again until the store stops answering `stubborn_at`."""

    def __init__(self, *args: Any, stubborn_at: Outcome, **more: Any) -> None:
        super().__init__(*args, **more)
        self.stubborn_at = stubborn_at

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        while (reply := super().acquire(if_version, record)).outcome is self.stubborn_at:
            self.runtime.sleep(AGAIN_NS)
        return reply


def _insists_on(outcome: Outcome) -> Parts:
    return other(cell=partial(_Insists, stubborn_at=outcome))


class InsistsOnConflict(StorageLock):
    """409 on acquire: try again, without end (L5)."""

    parts = _insists_on(Outcome.CONFLICT)


class InsistsOnThrottle(StorageLock):
    """429 and 503 on acquire: try again, without end (L5)."""

    parts = _insists_on(Outcome.THROTTLED)


class InsistsOnServerError(StorageLock):
    """No definite answer to an acquiring write: try again, without end (L5)."""

    parts = _insists_on(Outcome.AMBIGUOUS)


class _InsistsOnReading(Cell[LockFile]):
    def look(self) -> Stored[LockFile] | None:
        while self.store.read(self.key).outcome is Outcome.THROTTLED:
            self.runtime.sleep(AGAIN_NS)
        return super().look()


class InsistsOnReading(StorageLock):
    """A look that is throttled is repeated without end (L5)."""

    parts = other(cell=_InsistsOnReading)


class InsistsOnRefusal(StorageLock):
    """403 is taken for a passing trouble: the credentials may yet be renewed (L5)."""

    def lock(self, timeout_s: float) -> bool:
        while True:
            try:
                return super().lock(timeout_s)
            except StoreRejected:
                self.runtime.sleep(NS_PER_S)


class _ReleaseInsists(WritesApart):
    """Sends the release again until the store stops answering `stubborn_at`."""

    def __init__(self, *args: Any, stubborn_at: Outcome, **more: Any) -> None:
        super().__init__(*args, **more)
        self.stubborn_at = stubborn_at

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        while (reply := super().release(if_version, record)).outcome is self.stubborn_at:
            self.runtime.sleep(AGAIN_NS)
        return reply


class ReleaseInsistsOnConflict(StorageLock):
    """409 on release: try again, without end (L5)."""

    parts = other(cell=partial(_ReleaseInsists, stubborn_at=Outcome.CONFLICT))


class ReleaseInsistsOnThrottle(StorageLock):
    """429 and 503 on release: try again, without end (L5)."""

    parts = other(cell=partial(_ReleaseInsists, stubborn_at=Outcome.THROTTLED))


class PlainInsists(PlainLock):
    """A stranger's retry loop: every answer that is neither yes nor no is worth another try (L5)."""

    def put(self, body: bytes, version: Version | None) -> Any:
        while (reply := super().put(body, version)).outcome in (Outcome.CONFLICT, Outcome.THROTTLED):
            self.runtime.sleep(AGAIN_NS)
        return reply


class HiddenInsists(HiddenLock):
    """The same in records that nobody else can read."""

    def put(self, body: bytes, version: Version | None) -> Any:
        while (reply := super().put(body, version)).outcome in (Outcome.CONFLICT, Outcome.THROTTLED):
            self.runtime.sleep(AGAIN_NS)
        return reply


class CountsTheWaitOnTheWall(PlainLock):
    """The caller's timeout is an instant on the wall clock, which somebody sets back meanwhile (L5, M3)."""

    def acquire(self, timeout_ns: int) -> bool:
        end_ns = self.runtime.wall_ns() + max(timeout_ns, 3 * self.timeout_ns)
        is_granted = False
        try:
            while True:
                answer = self.attempt(self.runtime.monotonic_ns() + 3 * self.timeout_ns)
                if answer:
                    is_granted = True
                    return True
                left_ns = end_ns - self.runtime.wall_ns()
                if left_ns <= 0 or timeout_ns == 0:
                    if answer is None:
                        raise OutcomeUnknown("not granted, and nobody else was seen to have it")
                    return False
                self.runtime.sleep(min(left_ns, self.settings.poll_interval_ns))
        finally:
            if not is_granted:
                self.leave()


class _SleepsUntilTheStamp(AdaptiveWaiting):
    def __init__(self, interval_ns: int, validity_ns: int, runtime: Runtime) -> None:
        super().__init__(interval_ns, validity_ns, runtime)
        self.validity_ns, self.runtime = validity_ns, runtime

    def pause_ns(self, record: Any, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        pause_ns = super().pause_ns(record, now_wall_ns=now_wall_ns, lapses_in_ns=lapses_in_ns)
        if lapses_in_ns > 2 * self.validity_ns:
            self.runtime.sleep(lapses_in_ns)
        return pause_ns


class SleepsUntilTheStamp(StorageLock):
    """A waiter sleeps until the holder's stamp, counted on its own wall clock, whatever time it was given (L5)."""

    parts = other(waiting=_SleepsUntilTheStamp)


class _SleepsAsItIsTold(Cell[LockFile]):
    refusals = 0

    def swap(self, if_version: Version | None, record: LockFile, purpose: Purpose) -> WriteReply:
        reply = super().swap(if_version, record, purpose)
        if reply.outcome in (Outcome.CONFLICT, Outcome.THROTTLED):
            self.refusals += 1
            self.runtime.sleep(NS_PER_S << min(self.refusals, 6))
        else:
            self.refusals = 0
        return reply


class SleepsAsLongAsItIsTold(StorageLock):
    """Waits out its whole backoff before it asks whether its time is up, and the backoff doubles (L5)."""

    parts = other(cell=_SleepsAsItIsTold)
