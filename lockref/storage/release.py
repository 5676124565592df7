"""Leaving nothing behind: the release of a grant, and the undoing of writes in which nobody believes.

A release is written until its fate is known, for a bounded time (H7). What is
left then, and what a failed acquisition may have left, are *strays*: they are
undone in the background (H6), and lapse by themselves after one validity.
"""

from __future__ import annotations

from enum import Enum

from lockref.runtime import NS_PER_S
from lockref.storage import lease
from lockref.storage.exchange import Wiring
from lockref.storage.lease import Attempt, Sight, Step, Stored
from lockref.storage.lockfile import LockFile
from lockref.storage.renewal import Renewer
from lockref.storage.tenure import Tenure
from lockref.stores.port import Outcome, Version, WriteReply

_RELEASE_TRIES_MAX = 6


class Ending(Enum):
    """How a release ended."""

    FREED = "freed"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


class Releaser(Renewer):
    """Writes released records: over a grant that is given back, and over strays."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        # The record that our own last release left, with its version: the next
        # cycle may write at once instead of reading first.
        self._left_behind: Stored | None = None
        self._cleanup_epoch = 0

    def _release(self, tenure: Tenure) -> Ending:
        """H7: write the released body until its fate is known; each lost answer is looked up."""
        version = tenure.lease.version
        body = lease.released(tenure.lease.attempt.record, self._new_nonce())
        has_lost_answer = False
        deadline_ns = self._runtime.monotonic_ns() + self._release_budget_ns()
        for number in range(1, _RELEASE_TRIES_MAX + 1):
            reply = self._release_write(version, body)
            match self._interpret(reply):
                case Step.DONE:
                    self._left_behind = Stored(reply.version, body)
                    return Ending.FREED
                case Step.GONE:
                    return Ending.SUPERSEDED
                case Step.REFUSED:
                    return Ending.UNKNOWN
                case Step.LOOK:
                    has_lost_answer = has_lost_answer or reply.outcome is Outcome.AMBIGUOUS
                    stored = self._read_or_none()
                    if stored is not None:
                        # A renewal that was under way may have landed first; it is released like the rest.
                        own = lease.recognise(stored.record, tenure.pending)
                        match lease.sight(stored, expected=version, attempts=tenure.pending, released=body):
                            case Sight.RELEASED_BY_US:
                                self._left_behind = stored
                                return Ending.FREED
                            case Sight.OURS if own is not None and stored.version is not None:
                                version, body = stored.version, lease.released(own.record, self._new_nonce())
                            case Sight.OTHER if lease.is_past(stored.record, body):
                                # The read lags: no successor has a smaller fence. Try again.
                                pass
                            case Sight.OTHER if has_lost_answer:
                                # Our release landed and a successor has taken the lock: done.
                                return Ending.FREED
                            case Sight.OTHER | Sight.ABSENT:
                                return Ending.SUPERSEDED
            pause_ns = self._backoff_ns(number)
            if self._runtime.monotonic_ns() + pause_ns >= deadline_ns:
                break
            self._runtime.sleep(pause_ns)
        return Ending.UNKNOWN

    def _release_budget_ns(self) -> int:
        """How long an unlock tries: as long as three requests may take, at least a second, never beyond a validity."""
        return min(self.terms.validity_ns, max(3 * self.terms.request_timeout_ns, NS_PER_S))

    def _release_write(self, version: Version | None, body: LockFile) -> WriteReply:
        return self._write(version, body)

    # ---- undo what nobody believes in ----

    def _settle(self, settled: list[Attempt]) -> None:
        """These writes stand in the store no more, and cannot land any more."""
        with self._mutex:
            self._strays = [stray for stray in self._strays if stray not in settled]

    def _start_cleanup(self, strays: list[Attempt]) -> None:
        """H6: undo `strays` in the background, so that the caller's time is kept (L5)."""
        if not self._unlapsed(strays):
            return
        self._cleanup_epoch += 1
        epoch = self._cleanup_epoch
        self._notices.left_behind(len(strays))
        try:
            self._runtime.spawn(lambda: self._clean_up(epoch, strays), name=f"lockref-{self.owner[:6]}-cleanup")
        except (RuntimeError, MemoryError):
            # No thread to be had: once, here. If that fails, the next call or `close` tries again.
            self._try_to_undo(strays)

    def _clean_up(self, epoch: int, strays: list[Attempt]) -> None:
        """Until done, until the strays have lapsed, or until a new call takes over the task.

        It goes on after `close`: a caller who closes a lock does not wait for a store that does not answer.
        """
        failures = 0
        is_over = False
        try:
            while epoch == self._cleanup_epoch and self._unlapsed(strays):
                if self._try_to_undo(strays):
                    is_over = True
                    return
                failures += 1
                self._runtime.sleep(self._backoff_ns(failures))
            if epoch == self._cleanup_epoch:
                self._notices.not_undone()
            is_over = True
        finally:
            if not is_over and epoch == self._cleanup_epoch:
                # Somebody has killed this task; what it was for is still to be done.
                self._start_cleanup(strays)

    def _try_to_undo(self, strays: list[Attempt]) -> bool:
        """One attempt. An error of the store is logged, and the attempt repeated; only the end of the task stops it."""
        try:
            is_undone = self._undo(strays)
        except Exception as error:  # noqa: BLE001 - in a task without a caller; logged, repeated, bounded by the lease
            self._notices.cleanup_failed(error)
            return False
        if is_undone:
            self._settle(strays)
            self._notices.undone()
        return is_undone

    def _undo(self, strays: list[Attempt]) -> bool:
        """Release a stray that landed; overwrite what one could still land on, so that it meets a 412 (H6, E30)."""
        stored = self._read_or_none()
        if stored is None:
            return False
        landed = lease.recognise(stored.record, strays)
        may_land = [stray for stray in strays if stray.if_version == stored.version]
        if landed is None and not may_land:
            return True
        stray = landed or may_land[-1]
        reply = self._release_write(stored.version, lease.released(stray.record, self._new_nonce()))
        return self._interpret(reply) in (Step.DONE, Step.REFUSED)

    def _unlapsed(self, strays: list[Attempt]) -> list[Attempt]:
        now_ns = self._runtime.wall_ns()
        return [stray for stray in strays if lease.free_at_wall_ns(stray.record, self.terms) > now_ns]
