"""Bugs with time: the wrong clock, the wrong end of a request, the wrong sign, the wrong unit."""

from __future__ import annotations

import dataclasses
from typing import Any

from lockref.runtime import NS_PER_MS, MonoNs, WallNs
from lockref.storage import lease
from lockref.storage.lease import Attempt, Deadline, Lease, Moment, Stored, Take, Wait
from lockref.storage.provider import StorageLock

FOREVER_NS = 10**18


class CountsFromTheReply(StorageLock):
    """The deadline runs from the answer instead of the sending (M22: python_dynamodb_lock)."""

    def _late(self, held: Lease) -> Lease:
        return Lease(held.version, dataclasses.replace(held.attempt, deadline=self._deadline(self._now())))

    def _grant(self, call: Any, first: Lease) -> bool:
        return super()._grant(call, self._late(first))

    def _extend(self, tenure: Any, extended: Lease) -> MonoNs | None:
        return super()._extend(tenure, self._late(extended))


class CountsRenewalsFromTheReply(StorageLock):
    """The grant counts from its sending, a renewal from its answer (M22, H4)."""

    def _extend(self, tenure: Any, extended: Lease) -> MonoNs | None:
        late = dataclasses.replace(extended.attempt, deadline=self._deadline(self._now()))
        return super()._extend(tenure, Lease(extended.version, late))


class WallClockOnly(StorageLock):
    """The deadline is on the wall clock alone, which steps (M3, E31)."""

    def _deadline(self, sent: Moment) -> Deadline:
        return Deadline(super()._deadline(sent).wall_ns, MonoNs(4 * FOREVER_NS))


class MonotonicClockOnly(StorageLock):
    """The deadline is on a clock alone that stands still while the machine sleeps (H1, U2)."""

    def _deadline(self, sent: Moment) -> Deadline:
        return Deadline(WallNs(4 * FOREVER_NS), super()._deadline(sent).mono_ns)


class MarginSignWrong(StorageLock):
    """The margin favours the holder: it stops after its record's end (M6: Hudi)."""

    def _deadline(self, sent: Moment) -> Deadline:
        reach_ns = self.terms.validity_ns + self.terms.margin_ns
        return Deadline(WallNs(sent.wall_ns + reach_ns), MonoNs(sent.mono_ns + reach_ns))


class NoDeadline(StorageLock):
    """The holder has no deadline: it believes until a renewal is refused (Hudi, H4)."""

    def _deadline(self, sent: Moment) -> Deadline:
        return Deadline(WallNs(4 * FOREVER_NS), MonoNs(4 * FOREVER_NS))


class HoldsIsAFlag(StorageLock):
    """The guard repeats what the heartbeat last said instead of asking the clock (U2, H2)."""

    def holds(self) -> bool:
        tenure = self._tenure
        return tenure is not None and tenure.loss_reason is None


class ChecksOnceAtGrant(StorageLock):
    """`holds` is asked once, at the grant, and repeats its answer until unlock (H2)."""

    def holds(self) -> bool:
        return self._tenure is not None


class NoCheckBeforeTrue(StorageLock):
    """`lock` returns true without looking at the clock again, and dates the lease from then (H3, E9, E10)."""

    def _grant(self, call: Any, first: Lease) -> bool:
        now = self._now()
        return super()._grant(
            call, Lease(first.version, dataclasses.replace(first.attempt, sent=now, deadline=self._deadline(now)))
        )


class SecondsForMilliseconds(StorageLock):
    """The validity is written in seconds where milliseconds are read (M1: apache/hudi#13277)."""

    def _new_attempt(self, known: Stored) -> Attempt:
        return _in_seconds(super()._new_attempt(known), self.terms.validity_ns)

    def _new_renewal(self, current: Lease) -> Attempt:
        return _in_seconds(super()._new_renewal(current), self.terms.validity_ns)


class EpochInSeconds(StorageLock):
    """validUntil as a whole is in seconds: a record of 1970 (M1: dynamodb-lock-rs)."""

    def _new_attempt(self, known: Stored) -> Attempt:
        attempt = super()._new_attempt(known)
        return _until(attempt, attempt.record.valid_until_ms // 1000)

    def _new_renewal(self, current: Lease) -> Attempt:
        attempt = super()._new_renewal(current)
        return _until(attempt, attempt.record.valid_until_ms // 1000)


class MicrosecondsForMilliseconds(StorageLock):
    """validUntil is in microseconds: thousands of years from now (M1)."""

    def _new_attempt(self, known: Stored) -> Attempt:
        attempt = super()._new_attempt(known)
        return _until(attempt, attempt.record.valid_until_ms * 1000)


class ComparesSecondsWithMilliseconds(StorageLock):
    """The contender compares its clock in seconds: a dead holder's lease never ends (M1)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        return lease.decide(
            known, owner=self.owner, own_nonces=(), now_wall_ns=WallNs(self._runtime.wall_ns() // 1000),
            terms=self.terms,
        )  # fmt: skip


class NeverExpires(StorageLock):
    """The expiry is compared as text of another type and never passes (M2: dynamodb-lock-rs PR #6)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        decision = super()._decide(known, call)
        if isinstance(decision, Take) and decision.reason is lease.Reason.LAPSED:
            return Wait(self.terms.validity_ns)
        return decision


class NoDriftMargin(StorageLock):
    """Takes over the moment its own clock passes the stamp, and stops at the stamp: no room for clocks (H1)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        return lease.decide(
            known, owner=self.owner, own_nonces=_nonces(self, call), now_wall_ns=self._runtime.wall_ns(),
            terms=dataclasses.replace(self.terms, buffer_ns=0),
        )  # fmt: skip

    def _deadline(self, sent: Moment) -> Deadline:
        reach_ns = self.terms.validity_ns
        return Deadline(WallNs(sent.wall_ns + reach_ns), MonoNs(sent.mono_ns + reach_ns))


class SubtractsTheDriftMargin(StorageLock):
    """The contender's allowance has the wrong sign: it takes over before the stamp has passed (M6)."""

    def _decide(self, known: Stored, call: Any) -> Take | Wait:
        ahead_ns = 2 * self.terms.buffer_ns + 2 * NS_PER_MS
        return lease.decide(
            known, owner=self.owner, own_nonces=_nonces(self, call),
            now_wall_ns=WallNs(self._runtime.wall_ns() + ahead_ns), terms=self.terms,
        )  # fmt: skip


class TokenFromClock(StorageLock):
    """The token is the wall clock in seconds: it repeats, and it falls with the clock (M15)."""

    def _next_token(self, known: Stored) -> int:
        return self._runtime.wall_ns() // 10**9


class TokenFromNanoseconds(StorageLock):
    """The token is the wall clock in nanoseconds: unique, but it falls when another clock is behind (M3)."""

    def _next_token(self, known: Stored) -> int:
        return self._runtime.wall_ns()


def _nonces(lock: StorageLock, call: Any) -> set[str]:
    return {attempt.record.nonce for attempt in (*lock._strays, *call.attempts) if attempt.record.nonce is not None}


def _until(attempt: Attempt, valid_until_ms: int) -> Attempt:
    return dataclasses.replace(attempt, record=dataclasses.replace(attempt.record, valid_until_ms=valid_until_ms))


def _in_seconds(attempt: Attempt, validity_ns: int) -> Attempt:
    return _until(attempt, attempt.sent.wall_ns // NS_PER_MS + validity_ns // 10**9)
