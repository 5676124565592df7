"""The decisions of a lease, without clock, I/O or randomness.

May this record be taken over? Until when may a holder believe? What does an
answer of the store leave open, and whose record is this? Each decision is a
function of values, so it can be tested with every value. `Rules` holds the
functions, so that a variant of a lock can replace one of them.

Two clocks enter every decision. The wall clock is what RFC-91 writes into the
record and compares; it steps. The monotonic clock does not step, but counts
from nowhere. A holder obeys whichever says "stop" first (H1).

Source: RFC-91 "Algorithm"; clauses H1, H3, H5, H19, H21 and envelope row
"expiry stamp compared with wall clocks; holder stops at D".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, Self, TypeVar

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.stores.port import Outcome, Version, WriteReply

REQUEST_TIMEOUT_NS_MAX = 5 * NS_PER_S
"""No single request deserves to be waited for longer, however slow the heartbeat (H18)."""

_BACKOFF_FIRST_NS, _BACKOFF_NS_MAX = 50 * NS_PER_MS, 2 * NS_PER_S


class Record(Protocol):
    """What a lease needs of a stored record, whatever its bytes.

    expiry_ns: wall time up to which nobody may take over. nonce: tells two writes of one owner apart (H22).
    token: the fencing token; None where the writer gave none.
    """

    @property
    def owner(self) -> str | None: ...
    @property
    def token(self) -> int | None: ...
    @property
    def nonce(self) -> str | None: ...
    @property
    def is_released(self) -> bool: ...
    @property
    def expiry_ns(self) -> int: ...
    def freed(self, nonce: str) -> Self:
        """The record that gives this one back: same owner, expiry and token, released."""


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """How long a lease lasts and who leaves room for whose clock. Durations in nanoseconds.

    validity_ns: L, from the moment before the write was sent. renew_interval_ns: r.
    margin_ns: M, by how much a holder stops earlier than its record says.
    buffer_ns: β, by how much a contender starts later than the record says.
    request_timeout_ns: how long one request to the store may take.

    Two clients exclude each other while their wall clocks differ by at most β + M (H1).
    """

    validity_ns: int
    renew_interval_ns: int
    margin_ns: int
    buffer_ns: int
    request_timeout_ns: int

    def __post_init__(self) -> None:
        if min(self.renew_interval_ns, self.request_timeout_ns) <= 0 or min(self.margin_ns, self.buffer_ns) < 0:
            raise ConfigError(
                f"a lease renewed every {self.renew_interval_ns} ns with request timeout {self.request_timeout_ns} ns, "
                f"margin {self.margin_ns} ns and buffer {self.buffer_ns} ns: "
                f"the first two must be positive, the others not negative"
            )
        if self.margin_ns + self.renew_interval_ns >= self.validity_ns:
            raise ConfigError(
                f"a lease of {self.validity_ns} ns ends {self.margin_ns} ns early and is renewed every "
                f"{self.renew_interval_ns} ns: it would end before its first renewal; raise the validity"
            )

    @staticmethod
    def default_request_timeout_ns(renew_interval_ns: int) -> int:
        """A third of the renew interval, a few seconds at most: three tries before a renewal is late (H18)."""
        return max(1, min(renew_interval_ns // 3, REQUEST_TIMEOUT_NS_MAX))


# The values below are made several times in every cycle. They are not frozen, because a frozen dataclass takes
# twice as long to make; nobody changes one, and tests/docs/test_the_lock.py sees to it.


@dataclass(slots=True)
class Moment:
    """Both clocks of one process, read together."""

    wall_ns: WallNs
    mono_ns: MonoNs


@dataclass(slots=True)
class Deadline:
    """Until when a holder may believe: an instant on each clock, the earlier one counts (H1)."""

    wall_ns: WallNs
    mono_ns: MonoNs

    def has_passed(self, now: Moment) -> bool:
        """Inclusive: at the deadline itself the holder must already have stopped."""
        return now.mono_ns >= self.mono_ns or now.wall_ns >= self.wall_ns

    def remaining_ns(self, now: Moment) -> int:
        return max(0, min(self.mono_ns - now.mono_ns, self.wall_ns - now.wall_ns))


@dataclass(slots=True, kw_only=True)
class Attempt(Generic[R]):
    """A write that makes or extends our lease if it lands.

    record: what is written; its nonce makes the attempt recognisable (H5).
    sent: both clocks before the request left (M22). deadline: until when we may believe if it lands.
    wall_estimate_ns: what the wall clock should have shown, see `estimate_wall`.
    if_version: the precondition; None for "the object is absent".
    """

    record: R
    sent: Moment
    deadline: Deadline
    wall_estimate_ns: int
    if_version: Version | None


@dataclass(slots=True)
class Lease(Generic[R]):
    """What a holder lives on: the version it must replace, and the attempt that made it."""

    version: Version
    attempt: Attempt[R]

    @property
    def deadline(self) -> Deadline:
        return self.attempt.deadline


@dataclass(slots=True)
class Stored(Generic[R]):
    """What a read showed. Both None: there is no such object."""

    version: Version | None
    record: R | None


class Reason(Enum):
    """Why a lock may be taken."""

    ABSENT = "absent"
    RELEASED = "released"
    LAPSED = "lapsed"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Take:
    """Nobody's lease is in the way: write, on condition that nothing changes."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody's lease is. `for_ns`: wall time until it lapses unless it is renewed or released."""

    for_ns: int


class Step(Enum):
    """What to do next after the store's answer to a conditional write (A5: each answer its own branch).

    DONE     it landed
    LOOK     read before deciding: perhaps it landed, or somebody else's write did
    GONE     there is no object at all
    AGAIN    it did not land; the same request may be sent again later
    REFUSED  it did not land and never will
    """

    DONE = "done"
    LOOK = "look"
    GONE = "gone"
    AGAIN = "again"
    REFUSED = "refused"


class Sight(Enum):
    """What a look showed a client with open writes.

    UNKNOWN    no definite answer
    NO_RECORD  bytes that are no record
    """

    ABSENT = "absent"
    UNCHANGED = "unchanged"
    OURS = "ours"
    RELEASED_BY_US = "released by us"
    OTHER = "other"
    NO_RECORD = "no record"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reserved:
    """A token that may be used, and the mark at or above it; both None where this grant cannot be fenced."""

    token: int | None
    mark: int | None


UNFENCED = Reserved(None, None)


class Refusal(Enum):
    """Why there is no token now.

    LOST_RACE  somebody else has raised the mark: look at the record again
    TROUBLE    no definite answer, or throttled: try again after a pause
    """

    LOST_RACE = "lost race"
    TROUBLE = "trouble"


class Tokens(Protocol[R]):
    """Where fencing tokens come from."""

    def reserve(self, stored: Stored[R], *, seen: int, is_over: Callable[[], bool]) -> Reserved | Refusal:
        """The token of the grant that replaces `stored`, above `seen`. is_over: no further request may begin (L5)."""
        ...


def next_step(reply: WriteReply) -> Step:
    """Fold the answer to a conditional write into what to do next.

    A failed precondition is a reason to look, not an answer: an SDK, a proxy
    or the network may have delivered our own write twice, and then the second
    copy meets the first (A2, H5).
    """
    match reply.outcome:
        case Outcome.APPLIED:
            return Step.DONE
        case Outcome.PRECONDITION_FAILED:
            return Step.GONE if reply.missing else Step.LOOK
        case Outcome.CONFLICT | Outcome.THROTTLED:
            return Step.AGAIN
        case Outcome.REJECTED:
            return Step.REFUSED
        case _:
            return Step.LOOK


def decide(
    stored: Stored[Any], *, owner: str, own_nonces: Collection[str], now_wall_ns: WallNs, terms: LeaseTerms
) -> Take | Wait:
    """May the lock be taken from what is stored?

    own_nonces: of earlier writes by this client in which nobody believes any
        more. The owner alone would not do: somebody may have copied it (A4, E33).
    Expiry is strict and counted in whole milliseconds, as in Hudi: at
    validUntil + β itself the lease still stands (E3).
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


def free_at_wall_ns(record: Record, terms: LeaseTerms) -> int:
    """The first wall instant at which an unreleased, unrenewed `record` may be taken over."""
    return record.expiry_ns + (terms.buffer_ns // NS_PER_MS + 1) * NS_PER_MS


def valid_until_ms(wall_ns: int, terms: LeaseTerms) -> int:
    """The stamp of a write sent at `wall_ns`; rounded up, so that the record never promises less than we believe."""
    return -(-(wall_ns + terms.validity_ns) // NS_PER_MS)


def deadline_after(sent: Moment, terms: LeaseTerms) -> Deadline:
    """When the holder must have stopped: L − M after the write was *sent*, on both clocks (H1, M22).

    Counted from the response instead, a slow answer would lengthen the
    holder's belief beyond what the record tells the others.
    """
    believable_ns = terms.validity_ns - terms.margin_ns
    return Deadline(WallNs(sent.wall_ns + believable_ns), MonoNs(sent.mono_ns + believable_ns))


def estimate_wall(previous: Attempt[Any], now: Moment, terms: LeaseTerms) -> int:
    """What the wall clock should show now, judging by the monotonic clock since `previous` (H19, E31).

    If the wall has stepped back by more than the margin, one of its two
    readings was wrong and nobody knows which; the later one is the safe one
    to write, since it only makes others wait. Smaller differences are ordinary
    slewing, and following them keeps the two clocks from drifting apart.
    """
    expected_ns = previous.wall_estimate_ns + (now.mono_ns - previous.sent.mono_ns)
    return expected_ns if expected_ns - now.wall_ns > terms.margin_ns else now.wall_ns


def renewed_valid_until_ms(previous: Attempt[R], wall_estimate_ns: int, terms: LeaseTerms) -> int:
    """The stamp of a renewal: never lower than before (H19)."""
    return max(previous.record.expiry_ns // NS_PER_MS, valid_until_ms(wall_estimate_ns, terms))


def next_token(stored: Stored[Any], token_max: int) -> int:
    """The token after the record's and after every one that we have seen (H21).

    Only where the record carries one. A record that Hudi wrote has none, and what one client has seen is not what
    another has: then a mark beside the record decides, see `lockref/storage/fence.py`.
    """
    token = stored.record.token if stored.record is not None else None
    return max(token or 0, token_max) + 1


def recognise(record: R | None, attempts: Iterable[Attempt[R]]) -> Attempt[R] | None:
    """Which of our attempts wrote `record`? Owner, expiry and nonce must all agree (H5, A4)."""
    for attempt in attempts:
        if attempt.record == record:
            return attempt
    return None


def sight(
    stored: Stored[R], *, expected: Version | None, attempts: Iterable[Attempt[R]], released: R | None = None
) -> Sight:
    """What a look shows to a client that last knew version `expected`.

    attempts: writes of ours that may have landed since.
    released: the released body that we have been writing, if any.
    """
    if stored.record is None:
        return Sight.ABSENT
    if released is not None and stored.record == released:
        return Sight.RELEASED_BY_US
    if recognise(stored.record, attempts) is not None:
        return Sight.OURS
    return Sight.UNCHANGED if stored.version == expected else Sight.OTHER


def is_own_past(record: Record | None, current: Record) -> bool:
    """Is `record` an earlier state of the grant that `current` belongs to? Then the read lags (A8).

    Owner and token together: no two grants of one chain share a token.
    """
    if record is None or record.is_released or record.token is None:
        return False
    return record.owner == current.owner and record.token == current.token


def is_past(record: Record | None, current: Record) -> bool:
    """Is `record` older than `current`, as far as tokens tell? Then it is no successor's; the read lags (A8)."""
    if is_own_past(record, current):
        return True
    if record is None or record.token is None or current.token is None:
        return False
    return record.token < current.token


def is_denied(*, has_seen_other: bool, is_unresolved: bool) -> bool:
    """May a call without a grant say no? Only if somebody else's lease was seen and no write of ours is open (S7)."""
    return has_seen_other and not is_unresolved


def backoff_ns(failures: int, jitter: float) -> int:
    """The pause after so many failures in a row: exponential, times a drawn `jitter` of 0.5 to 1 (H16)."""
    longest_ns = min(_BACKOFF_FIRST_NS << min(failures - 1, 10), _BACKOFF_NS_MAX)
    return round(longest_ns * jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The decisions as a value: each field is the function of its name. `dataclasses.replace` breaks exactly one."""

    decide: Callable[..., Take | Wait] = decide
    next_step: Callable[[WriteReply], Step] = next_step
    deadline_after: Callable[[Moment, LeaseTerms], Deadline] = deadline_after
    valid_until_ms: Callable[[int, LeaseTerms], int] = valid_until_ms
    renewed_valid_until_ms: Callable[[Attempt[Any], int, LeaseTerms], int] = renewed_valid_until_ms
    estimate_wall: Callable[[Attempt[Any], Moment, LeaseTerms], int] = estimate_wall
    recognise: Callable[..., Any] = recognise
    sight: Callable[..., Sight] = sight
    is_denied: Callable[..., bool] = is_denied
    is_own_past: Callable[[Record | None, Record], bool] = is_own_past
    is_past: Callable[[Record | None, Record], bool] = is_past
    backoff_ns: Callable[[int, float], int] = backoff_ns
