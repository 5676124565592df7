"""Bugs in giving up: calls that go on for as long as the store says no, or that ask the wrong clock for the time."""

from __future__ import annotations

from typing import Any

from lockref.errors import OutcomeUnknown, StoreRejected
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lease import Attempt, Step, Stored, Wait
from lockref.storage.lockfile import LockFile
from lockref.storage.provider import StorageLock
from lockref.stores.port import Outcome, Version, WriteReply
from tests.quality.planted.strangers import HiddenLock, PlainLock

AGAIN_NS = 200 * NS_PER_MS


class _Insists(StorageLock):
    """Sends an acquiring write again until the store stops answering `stubborn_at`."""

    stubborn_at: Outcome

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        while (reply := super()._acquire_write(attempt)).outcome is self.stubborn_at:
            self._runtime.sleep(AGAIN_NS)
        return reply


class InsistsOnConflict(_Insists):
    """409 on acquire: try again, without end (L5)."""

    stubborn_at = Outcome.CONFLICT


class InsistsOnThrottle(_Insists):
    """429 and 503 on acquire: try again, without end (L5)."""

    stubborn_at = Outcome.THROTTLED


class InsistsOnServerError(_Insists):
    """No definite answer to an acquiring write: try again, without end (L5)."""

    stubborn_at = Outcome.AMBIGUOUS


class InsistsOnReading(StorageLock):
    """A look that is throttled is repeated without end (L5)."""

    def _read(self) -> Stored | None:
        while self._store.read(self._key).outcome is Outcome.THROTTLED:
            self._runtime.sleep(AGAIN_NS)
        return super()._read()


class InsistsOnRefusal(StorageLock):
    """403 is taken for a passing trouble: the credentials may yet be renewed (L5)."""

    def lock(self, timeout_s: float) -> bool:
        while True:
            try:
                return super().lock(timeout_s)
            except StoreRejected:
                self._runtime.sleep(NS_PER_S)


class _ReleaseInsists(StorageLock):
    """Sends the release again until the store stops answering `stubborn_at`."""

    stubborn_at: Outcome

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        while (reply := super()._release_write(version, body)).outcome is self.stubborn_at:
            self._runtime.sleep(AGAIN_NS)
        return reply


class ReleaseInsistsOnConflict(_ReleaseInsists):
    """409 on release: try again, without end (L5)."""

    stubborn_at = Outcome.CONFLICT


class ReleaseInsistsOnThrottle(_ReleaseInsists):
    """429 and 503 on release: try again, without end (L5)."""

    stubborn_at = Outcome.THROTTLED


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


class SleepsUntilTheStamp(StorageLock):
    """A waiter sleeps until the holder's stamp, counted on its own wall clock, whatever time it was given (L5)."""

    def _poll_pause_ns(self, known: Stored, wait: Wait) -> int:
        pause_ns = super()._poll_pause_ns(known, wait)
        if wait.for_ns > 2 * self.terms.validity_ns:
            self._runtime.sleep(wait.for_ns)
        return pause_ns


class SleepsAsLongAsItIsTold(StorageLock):
    """Waits out its whole backoff before it asks whether its time is up, and the backoff doubles (L5)."""

    def _interpret(self, reply: WriteReply) -> Step:
        step = super()._interpret(reply)
        if step is Step.AGAIN:
            self._refusals = getattr(self, "_refusals", 0) + 1
            self._runtime.sleep(NS_PER_S << min(self._refusals, 6))
        else:
            self._refusals = 0
        return step
