"""The decisions of a lease: functions of values, without clock, I/O or randomness. docs/the-lock.md tells why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from lockref.locks.values import Attempt, Deadline, LeaseTerms, Moment, R, Reason, Sight, Step, Stored, Take, Wait
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome

_BACKOFF_FIRST_NS, _BACKOFF_NS_MAX = 50 * NS_PER_MS, 2 * NS_PER_S
# Any other answer, a 412 and silence among them, is a reason to look (A2, H5).
_STEPS, _LOOK = {Outcome.APPLIED: Step.DONE, Outcome.REJECTED: Step.REFUSED}, Step.LOOK
_STEPS |= dict.fromkeys((Outcome.CONFLICT, Outcome.THROTTLED), Step.AGAIN)


def next_step(reply: WriteReply) -> Step:
    """The next step after the answer to a conditional write. A 412 is a reason to look, not an answer (A2, H5)."""
    if reply.missing and reply.outcome is Outcome.PRECONDITION_FAILED:
        return Step.GONE
    return _STEPS.get(reply.outcome, _LOOK)


def decide(
    stored: Stored[Any], *, owner: str, own_nonces: Collection[str], now_wall_ns: WallNs, terms: LeaseTerms
) -> Take | Wait:
    """May the lock be taken? At validUntil + β itself the lease still stands (E3).

    own_nonces: of earlier writes by this client in which nobody believes. The owner alone may be copied (A4, E33).
    """
    record = stored.record
    if record is None:
        return Take(Reason.ABSENT)
    if record.is_released:
        return Take(Reason.RELEASED)
    if record.owner == owner and record.nonce in own_nonces:
        return Take(Reason.OWN)
    free_at_ns = free_at_wall_ns(record, terms)
    return Take(Reason.LAPSED) if now_wall_ns >= free_at_ns else Wait(free_at_ns - now_wall_ns)


def free_at_wall_ns(record: R, terms: LeaseTerms) -> int:
    """The first wall instant at which an unreleased, unrenewed `record` may be taken over."""
    assert record.expiry_ns is not None, "a lock whose records tell durations decides by another rule"
    return record.expiry_ns + (terms.buffer_ns // NS_PER_MS + 1) * NS_PER_MS


def is_lapsed(write: Attempt[Any], now: Moment, terms: LeaseTerms) -> bool:
    """True if a write of ours, which is no grant, no longer makes other clients wait."""
    return free_at_wall_ns(write.record, terms) <= now.wall_ns


def deadline_after(sent: Moment, terms: LeaseTerms) -> Deadline:
    """When the holder must have stopped: L − M after the write was *sent*, on both clocks (H1, M22)."""
    believable_ns = terms.validity_ns - terms.margin_ns
    return Deadline(WallNs(sent.wall_ns + believable_ns), MonoNs(sent.mono_ns + believable_ns))


def next_token(stored: Stored[Any], token_max: int) -> int:
    """The token after the record's and after every one that we have seen, where the record carries one (H21)."""
    return max(0 if stored.record is None else stored.record.token or 0, token_max) + 1


def recognise(record: R | None, attempts: Iterable[Attempt[R]]) -> Attempt[R] | None:
    """Which of our attempts wrote `record`? Owner, expiry and nonce must all agree (H5, A4)."""
    for attempt in attempts:  # No generator: what a Ctrl-C raises in one that is being closed is lost.
        if attempt.record == record:
            return attempt
    return None


def sight(
    stored: Stored[R], *, expected: Version | None, attempts: Iterable[Attempt[R]], released: R | None = None
) -> Sight:
    """The meaning of a look for a client that last knew version `expected`; the other arguments as of `Cell.settle`."""
    if stored.record is None:
        return Sight.ABSENT
    if released is not None and stored.record == released:
        return Sight.RELEASED_BY_US
    if recognise(stored.record, attempts) is not None:
        return Sight.OURS
    return Sight.UNCHANGED if stored.version == expected else Sight.OTHER


def is_denied(*, has_seen_other: bool, is_unresolved: bool) -> bool:
    """May a call without a grant say no? Only if somebody else's lease was seen and no write of ours is open (S7)."""
    return has_seen_other and not is_unresolved


def backoff_ns(failures: int, jitter: float) -> int:
    """The pause after so many failures in a row: exponential, times a drawn `jitter` of 0.5 to 1 (H16)."""
    longest_ns = min(_BACKOFF_FIRST_NS << min(failures - 1, 10), _BACKOFF_NS_MAX)
    return round(longest_ns * jitter)
