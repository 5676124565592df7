"""Bugs with time: the wrong clock, the wrong end of a request, the wrong sign, the wrong unit."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from lockref.locks import decisions
from lockref.locks.tenure import Tenure
from lockref.locks.values import Attempt, Deadline, Lease, LeaseTerms, Moment, Reason, Stored, Take, Wait
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, Runtime, WallNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.storage.writer import LockFileWriter
from tests.quality.planted.broken import FOREVER_NS, OtherNumbers, after, counted_from_now, other, other_rules


class _ExtendedLate(Tenure[LockFile]):
    def extend(self, extended: Lease[LockFile]) -> bool:
        return super().extend(counted_from_now(extended, self.runtime))


class _BegunAndExtendedLate(_ExtendedLate):
    def __init__(self, first: Lease[LockFile], *, runtime: Runtime, **more: Any) -> None:
        super().__init__(counted_from_now(first, runtime), runtime=runtime, **more)


class CountsFromTheReply(StorageLock):
    """The deadline runs from the answer instead of the sending (M22: python_dynamodb_lock)."""

    parts = other(tenure=_BegunAndExtendedLate)


class CountsRenewalsFromTheReply(StorageLock):
    """The grant counts from its sending, a renewal from its answer (M22, H4)."""

    parts = other(tenure=_ExtendedLate)


def _on_the_wall(sent: Moment, terms: LeaseTerms) -> Deadline:
    return Deadline(decisions.deadline_after(sent, terms).wall_ns, MonoNs(FOREVER_NS))


class WallClockOnly(StorageLock):
    """The deadline is on the wall clock alone, which steps (M3, E31)."""

    parts = other_rules(deadline_after=_on_the_wall)


def _without_the_wall(sent: Moment, terms: LeaseTerms) -> Deadline:
    return Deadline(WallNs(FOREVER_NS), decisions.deadline_after(sent, terms).mono_ns)


class MonotonicClockOnly(StorageLock):
    """The deadline is on a clock alone that stands still while the machine sleeps (H1, U2)."""

    parts = other_rules(deadline_after=_without_the_wall)


class MarginSignWrong(StorageLock):
    """The margin favours the holder: it stops after its record's end (M6: Hudi)."""

    parts = other_rules(deadline_after=lambda sent, terms: after(sent, terms.validity_ns + terms.margin_ns))


class NoDeadline(StorageLock):
    """The holder has no deadline: it believes until a renewal is refused (Hudi, H4)."""

    parts = other_rules(deadline_after=lambda _sent, _terms: Deadline(WallNs(FOREVER_NS), MonoNs(FOREVER_NS)))


class HoldsIsAFlag(StorageLock):
    """The guard repeats what the heartbeat last said instead of asking the clock (U2, H2)."""

    def holds(self) -> bool:
        tenure = self.tenure
        return tenure is not None and tenure.loss_reason is None


class ChecksOnceAtGrant(StorageLock):
    """`holds` is asked once, at the grant, and repeats its answer until unlock (H2)."""

    def holds(self) -> bool:
        return self.tenure is not None


class _DatedAtTheGrant(Tenure[LockFile]):
    def __init__(self, first: Lease[LockFile], *, runtime: Runtime, **more: Any) -> None:
        dated = counted_from_now(first, runtime)
        now = Moment(runtime.wall_ns(), runtime.monotonic_ns())
        fresh: Attempt[LockFile] = dataclasses.replace(dated.attempt, sent=now)
        super().__init__(Lease(first.version, fresh), runtime=runtime, **more)


class NoCheckBeforeTrue(StorageLock):
    """`lock` returns true without looking at the clock again, and dates the lease from then (H3, E9, E10)."""

    parts = other(tenure=_DatedAtTheGrant)


class _WritesSeconds(LockFileWriter):
    @staticmethod
    def valid_until_ms(wall_ns: int, terms: LeaseTerms) -> int:
        return wall_ns // NS_PER_MS + terms.validity_ns // NS_PER_S

    @staticmethod
    def renewed_valid_until_ms(_previous: Attempt[LockFile], wall_estimate_ns: int, terms: LeaseTerms) -> int:
        return _WritesSeconds.valid_until_ms(wall_estimate_ns, terms)


class _WritesAllInSeconds(LockFileWriter):
    @staticmethod
    def valid_until_ms(wall_ns: int, terms: LeaseTerms) -> int:
        return LockFileWriter.valid_until_ms(wall_ns, terms) // 1000

    @staticmethod
    def renewed_valid_until_ms(_previous: Attempt[LockFile], wall_estimate_ns: int, terms: LeaseTerms) -> int:
        return _WritesAllInSeconds.valid_until_ms(wall_estimate_ns, terms)


class _WritesMicroseconds(LockFileWriter):
    @staticmethod
    def valid_until_ms(wall_ns: int, terms: LeaseTerms) -> int:
        return LockFileWriter.valid_until_ms(wall_ns, terms) * 1000


class SecondsForMilliseconds(StorageLock):
    """The validity is written in seconds where milliseconds are read (M1: apache/hudi#13277)."""

    parts = other(writer=_WritesSeconds)


class EpochInSeconds(StorageLock):
    """validUntil as a whole is in seconds: a record of 1970 (M1: dynamodb-lock-rs)."""

    parts = other(writer=_WritesAllInSeconds)


class MicrosecondsForMilliseconds(StorageLock):
    """validUntil is in microseconds: thousands of years from now (M1)."""

    parts = other(writer=_WritesMicroseconds)


def _in_seconds(stored: Stored[LockFile], *, now_wall_ns: int, own_nonces: Any, **known: Any) -> Take | Wait:
    return decisions.decide(stored, own_nonces=(), now_wall_ns=WallNs(now_wall_ns // 1000), **known)


class ComparesSecondsWithMilliseconds(StorageLock):
    """The contender compares its clock in seconds: a dead holder's lease never ends (M1)."""

    parts = other_rules(decide=_in_seconds)


def _never_lapsed(stored: Stored[LockFile], *, terms: LeaseTerms, **known: Any) -> Take | Wait:
    decision = decisions.decide(stored, terms=terms, **known)
    if isinstance(decision, Take) and decision.reason is Reason.LAPSED:
        return Wait(terms.validity_ns)
    return decision


class NeverExpires(StorageLock):
    """The expiry is compared as text of another type and never passes (M2: dynamodb-lock-rs PR #6)."""

    parts = other_rules(decide=_never_lapsed)


def _at_the_stamp(stored: Stored[LockFile], *, terms: LeaseTerms, **known: Any) -> Take | Wait:
    return decisions.decide(stored, terms=dataclasses.replace(terms, buffer_ns=0), **known)


class NoDriftMargin(StorageLock):
    """Takes over the moment its own clock passes the stamp, and stops at the stamp: no room for clocks (H1)."""

    parts = other_rules(decide=_at_the_stamp, deadline_after=lambda sent, terms: after(sent, terms.validity_ns))


def _before_the_stamp(stored: Stored[LockFile], *, now_wall_ns: int, terms: LeaseTerms, **known: Any) -> Take | Wait:
    ahead_ns = 2 * terms.buffer_ns + 2 * NS_PER_MS
    return decisions.decide(stored, now_wall_ns=WallNs(now_wall_ns + ahead_ns), terms=terms, **known)


class SubtractsTheDriftMargin(StorageLock):
    """The contender's allowance has the wrong sign: it takes over before the stamp has passed (M6)."""

    parts = other_rules(decide=_before_the_stamp)


class _Dated(OtherNumbers):
    """Tokens are readings of the wall clock, in units of so many nanoseconds."""

    def __init__(self, *args: Any, runtime: Runtime, unit_ns: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self.runtime = runtime
        self.unit_ns = unit_ns

    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        return self.runtime.wall_ns() // self.unit_ns


class TokenFromClock(StorageLock):
    """The token is the wall clock in seconds: it repeats, and it falls with the clock (M15)."""

    unit_ns = NS_PER_S

    def __init__(self, *args: Any, runtime: Runtime, **options: Any) -> None:
        self.parts = other(tokens=partial(_Dated, runtime=runtime, unit_ns=self.unit_ns))  # type: ignore[misc]
        super().__init__(*args, runtime=runtime, **options)


class TokenFromNanoseconds(TokenFromClock):
    """The token is the wall clock in nanoseconds: unique, but it falls when another clock is behind (M3)."""

    unit_ns = 1
