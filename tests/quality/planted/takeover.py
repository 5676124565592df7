"""Bugs in taking the lock: no compare-and-swap, stale reads, tokens that start again, shared instances."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.storage import lease, lockfile
from lockref.storage.fence import Refusal, Reserved
from lockref.storage.lease import Attempt, Stored, Take, Wait
from lockref.storage.provider import StorageLock
from lockref.stores.port import WriteReply


class TakesOverByPut(StorageLock):
    """Take-over on a read alone, by an unconditional write (M12, M17: check, then write)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if attempt.if_version is not None:
            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return super()._acquire_write(attempt)


class CreatesByPut(StorageLock):
    """The first creation is unconditional: HEAD, then PUT (M12: OpenDAL shim)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if attempt.if_version is None:
            return self._store.put(self._key, lockfile.serialize(attempt.record))
        return super()._acquire_write(attempt)


class DeletesAndCreates(StorageLock):
    """Take-over by deleting the lapsed record and creating a new one: two contenders delete each other's (M4)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if attempt.if_version is not None:
            self._store.delete(self._key)
            return self._write(None, attempt.record)
        return super()._acquire_write(attempt)


class TakesOverOnStaleRead(StorageLock):
    """Decides on the record that it read first, however long ago, and writes on the version that it finds now (A3)."""

    def _acquire_write(self, attempt: Attempt) -> WriteReply:
        if attempt.if_version is not None:
            now = self._store.read(self._key)
            if now.version is not None:
                attempt = dataclasses.replace(attempt, if_version=now.version)
        return super()._acquire_write(attempt)


class TakesOverTheLiving(StorageLock):
    """Takes the lock over once its own wait is long enough, whatever the record says (S5)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        decision = super()._decide(known, call)
        return Take(lease.Reason.LAPSED) if isinstance(decision, Wait) and call.passes > 4 else decision


class RestartsTokens(StorageLock):
    """Tokens count this client's own grants (M5, M15)."""

    _given = 0

    def _next_token(self, known: Stored) -> int:
        self._given += 1
        return self._given


class FencesFromMemory(StorageLock):
    """Without a token in the record it counts on from what it has seen itself, and others have seen more (H21, M15)."""

    def _reserve(self, call: Any, known: Stored) -> Reserved | Refusal:
        return Reserved(lease.next_fence(known, self._fence_seen_max), None)


class TokenStaysTheSame(StorageLock):
    """Each take-over repeats the token that it found (M15)."""

    def _next_token(self, known: Stored) -> int:
        fence = known.record.fence if known.record is not None else None
        return fence or 1


class TokenSkipsTakeovers(StorageLock):
    """The token rises at releases only; a take-over from the dead keeps it (S2)."""

    def _next_token(self, known: Stored) -> int:
        record = known.record
        if record is not None and not record.expired:
            return record.fence or 1
        return super()._next_token(known)


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
        return (self._mine and self._tenure is not None and self._tenure.loss_reason is None) or self._claims()

    def _claims(self) -> bool:
        return self._mine and self._tenure is None

    def unlock(self) -> None:
        super().unlock()
        self._mine = False


class IgnoresRelease(StorageLock):
    """A released record counts like a live one: everybody waits for its validity to end (L3)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        record = known.record
        if record is not None and record.expired:
            known = Stored(known.version, dataclasses.replace(record, expired=False))
        return super()._decide(known, call)


class PollsTooSlowly(StorageLock):
    """Looks again only when the lease should have lapsed, whatever poll interval it was given (L3)."""

    def _poll_pause_ns(self, known: Stored, wait: Wait) -> int:
        return wait.for_ns


class NeverPolls(StorageLock):
    """Looks once, then waits for its timeout (L1, L3)."""

    def _poll_pause_ns(self, known: Stored, wait: Wait) -> int:
        return 10**12


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
