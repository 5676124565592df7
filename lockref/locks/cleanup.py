"""Leaving nothing behind: the release of a grant, and the undoing of orphaned writes (H6).

A write is entered here before it is sent, and an ended grant before it is released, so that no exception can lose one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic

from lockref.locks.background import Background
from lockref.locks.cell import Cell
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Ending, LeaseTerms, Moment, Purpose, R, Sight, Step, Stored
from lockref.runtime import NS_PER_S
from lockref.words import Outcome

_RELEASE_TRIES_MAX = 6


class Cleanup(Generic[R]):
    """Writes released records: over a grant that is given back, and over orphans. name: of the background task."""

    def __init__(self, cell: Cell[R], *, terms: LeaseTerms, name: str) -> None:
        self.cell, self.terms, self.runtime = cell, terms, cell.runtime
        self.orphans: list[Attempt[R]] = []
        self._mutex = self.runtime.mutex()
        self.background: Background[R] = Background(cell.notices, name)

    def release(self, tenure: Tenure[R]) -> tuple[Ending, Stored[R] | None]:
        """H7: write the released record until its fate is known. Also returns it, where it stands in the store now."""
        cell, rules, version = self.cell, self.cell.rules, tenure.lease.version
        body = tenure.lease.attempt.record.freed(cell.new_nonce())
        has_lost_answer = False
        # As long as three requests may take, at least a second, never beyond a validity (L5).
        budget_ns = min(self.terms.validity_ns, max(3 * self.terms.request_timeout_ns, NS_PER_S))
        deadline_ns = self.runtime.monotonic_ns() + budget_ns
        for number in range(1, _RELEASE_TRIES_MAX + 1):
            reply = cell.swap(version, body, Purpose.RELEASE)
            match rules.next_step(reply):
                case Step.DONE:
                    return Ending.FREED, Stored(reply.version, body)
                case Step.GONE:
                    return Ending.SUPERSEDED, None
                case Step.REFUSED:
                    return Ending.UNKNOWN, None
                case Step.LOOK:
                    has_lost_answer = has_lost_answer or reply.outcome is Outcome.AMBIGUOUS
                    if self.runtime.monotonic_ns() >= deadline_ns:
                        break
                    # A renewal that was under way may have landed first; it is released like the rest.
                    found = cell.settle(tenure.pending, expected=version, released=body)
                    stored = found.stored
                    match found.sight:
                        case Sight.RELEASED_BY_US:
                            return Ending.FREED, stored
                        case Sight.OURS if found.lease is not None:
                            version, body = found.lease.version, found.lease.attempt.record.freed(cell.new_nonce())
                        case Sight.OTHER if stored is not None and rules.is_past(stored.record, body):
                            # The read lags: no successor has a smaller token. Try again.
                            pass
                        case Sight.OTHER | Sight.NO_RECORD if has_lost_answer:
                            # Our release landed and a successor has taken the lock: done.
                            return Ending.FREED, None
                        case Sight.OTHER | Sight.NO_RECORD | Sight.ABSENT:
                            return Ending.SUPERSEDED, None
            pause_ns = cell.backoff_ns(number)
            if self.runtime.monotonic_ns() + pause_ns >= deadline_ns:
                break
            self.runtime.sleep(pause_ns)
        return Ending.UNKNOWN, None

    def add(self, writes: Sequence[Attempt[R]]) -> None:
        """These may stand in the store from now on without being anybody's grant (H6)."""
        with self._mutex:
            self.orphans = [*self.orphans, *writes]

    def settle(self, settled: Collection[Attempt[R]]) -> None:
        """These stand in the store no more, and cannot land any more."""
        with self._mutex:
            self.orphans = [orphan for orphan in self.orphans if orphan not in settled]

    def abandon(self, attempts: Collection[Attempt[R]], *, unsettled: Sequence[Attempt[R]]) -> None:
        """An acquiring call ended without a grant (L6). attempts: all its writes; unsettled: those that may count."""
        with self._mutex:
            self.orphans = [orphan for orphan in self.unlapsed(self.orphans) if orphan not in attempts]
            self.orphans += unsettled
        self.start()

    def start(self) -> None:
        """H6: undo the orphans of now in the background, so that the caller's time is kept (L5)."""
        self.background.start(self, list(self.orphans))

    def undo(self, orphans: list[Attempt[R]]) -> bool:
        """Release an orphan that landed; overwrite what one could still land on, so that it meets a 412 (H6, E30)."""
        found = self.cell.settle(orphans, expected=None)
        if found.stored is None:
            return found.sight is not Sight.UNKNOWN  # Bytes that are no record hold no lease of ours.
        version = found.stored.version
        may_land = [write for write in orphans if write.if_version == version]
        if found.lease is None and not may_land:
            # A state from before the orphans proves nothing: the read lags (A8).
            return not any(self.cell.rules.is_past(found.stored.record, write.record) for write in orphans)
        orphan = may_land[-1] if found.lease is None else found.lease.attempt
        reply = self.cell.swap(version, orphan.record.freed(self.cell.new_nonce()), Purpose.RELEASE)
        return self.cell.rules.next_step(reply) in (Step.DONE, Step.REFUSED)

    def unlapsed(self, orphans: list[Attempt[R]]) -> list[Attempt[R]]:
        """The orphans whose records would still keep other owners waiting, if these records stand in the store."""
        now, is_lapsed = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns()), self.cell.rules.is_lapsed
        return [orphan for orphan in orphans if not is_lapsed(orphan, now, self.terms)]
