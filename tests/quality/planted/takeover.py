"""Bugs in taking the lock: no compare-and-swap, stale reads, tokens that start again, shared instances."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.decisions import decide, next_token
from lockref.locks.fence import FenceMark
from lockref.locks.returning import ReturningAcquisition
from lockref.locks.values import Reason, Refusal, Reserved, Stored, Take, Wait
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version, WriteReply
from tests.quality.planted.broken import OtherNumbers, WritesApart, other, other_rules


class _OverwritesToTakeOver(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return super().acquire(None, record) if if_version is None else self.overwrite(record)


class TakesOverByPut(StorageLock):
    """Take-over on a read alone, by an unconditional write (M12, M17: check, then write)."""

    parts = other(cell=_OverwritesToTakeOver)


class _OverwritesToCreate(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return self.overwrite(record) if if_version is None else super().acquire(if_version, record)


class CreatesByPut(StorageLock):
    """The first creation is unconditional: HEAD, then PUT (M12: OpenDAL shim)."""

    parts = other(cell=_OverwritesToCreate)


class _DeletesFirst(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        if if_version is not None:
            self.store.delete(self.key)  # type: ignore[attr-defined]
        return super().acquire(None, record)


class DeletesAndCreates(StorageLock):
    """Take-over by deleting the lapsed record and creating a new one: two contenders delete each other's (M4)."""

    parts = other(cell=_DeletesFirst)


class _WritesOnWhatItFinds(WritesApart):
    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        if if_version is not None:
            if_version = self.store.read(self.key).version or if_version
        return super().acquire(if_version, record)


class TakesOverOnStaleRead(StorageLock):
    """Decides on the record that it read first, however long ago, and writes on the version that it finds now (A3)."""

    parts = other(cell=_WritesOnWhatItFinds)


class _LosesPatience(ReturningAcquisition[LockFile]):
    def decide(self, known: Stored[LockFile]) -> Take | Wait:
        decision = super().decide(known)
        return Take(Reason.LAPSED) if isinstance(decision, Wait) and self.passes > 4 else decision


class TakesOverTheLiving(StorageLock):
    """Takes the lock over once its own wait is long enough, whatever the record says (S5)."""

    parts = other(acquisition=_LosesPatience)


class _CountsItsOwn(OtherNumbers):
    given = 0

    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        self.given += 1
        return self.given


class RestartsTokens(StorageLock):
    """Tokens count this client's own grants (M5, M15)."""

    parts = other(tokens=_CountsItsOwn)


class FromMemory(FenceMark):
    """Asks no fence object: the next number is that after the record's, or after what this client has seen."""

    def reserve(self, stored: Stored[LockFile], *, seen: int, is_over: Any) -> Reserved | Refusal:
        return Reserved(next_token(stored, seen), None)


class FencesFromMemory(StorageLock):
    """Without a token in the record it counts on from what it has seen itself, and others have seen more (H21, M15)."""

    parts = other(tokens=FromMemory)


class _Repeats(OtherNumbers):
    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        return (stored.record.fence if stored.record is not None else None) or 1


class TokenStaysTheSame(StorageLock):
    """Each take-over repeats the token that it found (M15)."""

    parts = other(tokens=_Repeats)


class _RepeatsTheDead(OtherNumbers):
    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        record = stored.record
        return (record.fence or 1) if record is not None and not record.expired else token


class TokenSkipsTakeovers(StorageLock):
    """The token rises at releases only; a take-over from the dead keeps it (S2)."""

    parts = other(tokens=_RepeatsTheDead)


class SharesWithAnyTask(StorageLock):
    """Re-entrant without asking which task it is: the second thread is told yes at once (U6)."""

    def try_lock(self) -> bool:
        return self.holds() or super().try_lock()

    def lock(self, timeout_s: float) -> bool:
        return self.holds() or super().lock(timeout_s)


class RemembersYes(StorageLock):
    """Once granted, `lock` answers from memory until unlock has worked (M27: Hudi)."""

    _mine = False

    def lock(self, timeout_s: float) -> bool:
        self._mine = self._mine or super().lock(timeout_s)
        return self._mine

    def holds(self) -> bool:
        return self._mine and (self.tenure is None or self.tenure.loss_reason is None)

    def unlock(self) -> None:
        super().unlock()
        self._mine = False


def _release_is_nothing(stored: Stored[LockFile], **known: Any) -> Take | Wait:
    record = stored.record
    if record is not None and record.expired:
        stored = Stored(stored.version, dataclasses.replace(record, expired=False))
    return decide(stored, **known)


class IgnoresRelease(StorageLock):
    """A released record counts like a live one: everybody waits for its validity to end (L3)."""

    parts = other_rules(decide=_release_is_nothing)


class _WaitsForTheEnd(AdaptiveWaiting):
    def pause_ns(self, record: Any, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        return lapses_in_ns


class PollsTooSlowly(StorageLock):
    """Looks again only when the lease should have lapsed, whatever poll interval it was given (L3)."""

    parts = other(waiting=_WaitsForTheEnd)


class _WaitsForEver(AdaptiveWaiting):
    def pause_ns(self, record: Any, *, now_wall_ns: int, lapses_in_ns: int) -> int:
        return 10**12


class NeverPolls(StorageLock):
    """Looks once, then waits for its timeout (L1, L3)."""

    parts = other(waiting=_WaitsForEver)


class AlwaysYes(StorageLock):
    """The canary: every call is granted, and it always holds. If nobody hears it, the alarm is dead."""

    def lock(self, timeout_s: float) -> bool:
        return True

    def try_lock(self) -> bool:
        return True

    def holds(self) -> bool:
        return True

    def unlock(self) -> None:
        """Nothing was locked."""
