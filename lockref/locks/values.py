"""The words of a lease: how long it lasts, what was written and read, and what that may mean.

Values only. What is decided about them is in `decisions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, Self, TypeVar

from lockref.errors import ConfigError, LockError
from lockref.runtime import NS_PER_S, MonoNs, WallNs
from lockref.stores.port import ReadReply, Version, WriteReply

REQUEST_TIMEOUT_NS_MAX = 5 * NS_PER_S
"""No single request deserves to be waited for longer, however slow the heartbeat (H18)."""


class Record(Protocol):
    """The fields that a lease needs of a stored record, whatever its bytes.

    expiry_ns: wall time up to which nobody may take over; None where a record tells a duration instead, which each
    waiter counts for itself (T1). nonce: tells two writes of one owner apart (H22).
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
    def expiry_ns(self) -> int | None: ...
    def freed(self, nonce: str) -> Self:
        """The record that gives this one back: same owner, expiry and token, released."""


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The terms of a lease: its length, and the room for clock error of holder and contender. Durations in nanoseconds.

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
# twice as long to make; nobody changes one, and tests/unit/lockref/test_parts_own_their_state.py sees to it.


@dataclass(slots=True)
class Moment:
    """Both clocks of one process, read together."""

    wall_ns: WallNs
    mono_ns: MonoNs


@dataclass(slots=True)
class Deadline:
    """The end of a holder's belief: an instant on each clock, of which the earlier one counts (H1)."""

    wall_ns: WallNs
    mono_ns: MonoNs

    def remaining_ns(self, now: Moment) -> int:
        """0 once it has passed. Inclusive: at the deadline itself the holder must already have stopped."""
        if now.mono_ns >= self.mono_ns or now.wall_ns >= self.wall_ns:
            return 0
        return min(self.mono_ns - now.mono_ns, self.wall_ns - now.wall_ns)


@dataclass(slots=True)
class Attempt(Generic[R]):
    """A write that makes or extends our lease if it lands.

    record: what is written; its nonce makes the attempt recognisable (H5).
    sent: both clocks before the request left (M22). deadline: until when we may believe if it lands.
    wall_estimate_ns: what the wall clock should have shown, where the record carries a stamp (`LockFileWriter`).
    if_version: the precondition; None for "the object is absent".
    """

    record: R
    sent: Moment
    deadline: Deadline
    wall_estimate_ns: int
    if_version: Version | None


@dataclass(slots=True)
class Lease(Generic[R]):
    """The basis of a grant: the version that the next write must replace, and the attempt that made that version."""

    version: Version
    attempt: Attempt[R]

    @property
    def deadline(self) -> Deadline:
        return self.attempt.deadline


@dataclass(slots=True)
class Stored(Generic[R]):
    """The result of a read. Both None: there is no such object."""

    version: Version | None
    record: R | None


class Reason(Enum):
    """Why a lock may be taken."""

    ABSENT = "absent"
    RELEASED = "released"
    LAPSED = "lapsed"
    OWN = "own"
    RESUMED = "resumed"


# `Take`, `Wait` and `Reserved` are not frozen: they are made in every pass, and a frozen dataclass takes four times as
# long to make. Nobody changes one.


@dataclass(slots=True)
class Take:
    """No lease is in the way: write, on condition that nothing changes."""

    reason: Reason


@dataclass(slots=True)
class Wait:
    """The lease of another client is in the way. `for_ns`: wall time until it lapses, unless renewed or released."""

    for_ns: int


class Step(Enum):
    """The next step after the store's answer to a conditional write (A5: each answer its own branch).

    DONE     it landed
    LOOK     read before deciding: perhaps it landed, or somebody else's write did
    GONE     there is no object at all
    AGAIN    not now: this copy of it did not land, and a later request may; a look tells of copies (H5, S7)
    REFUSED  it did not land and never will
    """

    DONE = "done"
    LOOK = "look"
    GONE = "gone"
    AGAIN = "again"
    REFUSED = "refused"


class Sight(Enum):
    """The result of a look by a client with open writes.

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


@dataclass(slots=True)
class Look(Generic[R]):
    """The result of a look while writes are open. lease: our write, if it stands. error: why there is no record."""

    sight: Sight
    stored: Stored[R] | None = None
    lease: Lease[R] | None = None
    error: LockError | None = None


class Purpose(Enum):
    """The purpose of a write. All kinds are sent in the same way; a variant of the lock may break one kind alone."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    RELEASE = "release"


class Ending(Enum):
    """The result of a release."""

    FREED = "freed"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


@dataclass(slots=True)
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


class ConditionalStore(Protocol):
    """Conditional writes by key. An `ObjectStore` is one; a table or a tree of nodes can be seen as one."""

    def read(self, key: str) -> ReadReply: ...
    def put_if_absent(self, key: str, body: bytes) -> WriteReply: ...
    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply: ...


class Tokens(Protocol[R]):
    """The source of fencing tokens."""

    def reserve(self, stored: Stored[R], *, seen: int, is_over: Callable[[], bool]) -> Reserved | Refusal:
        """The token of the grant that replaces `stored`, above `seen`. is_over: no further request may begin (L5)."""
        ...


class AcquiringCall(Protocol[R]):
    """One acquiring call, as its client sees it.

    attempts: all its writes. is_unresolved: one of them stands in the store, or may yet, without being a grant.
    """

    attempts: list[Attempt[R]]
    is_unresolved: bool

    def run(self) -> bool:
        """True if granted, False if another's lease was seen, else raises OutcomeUnknown (L5, S7)."""
        ...


class Writer(Protocol[R]):
    """Makes the records of one owner, with both clocks read before the write leaves (H1, M22)."""

    owner: str

    def attempt(self, known: Stored[R], reserved: Reserved) -> Attempt[R]:
        """The acquiring write on `known`."""
        ...

    def renewal(self, current: Lease[R]) -> Attempt[R]:
        """The write that extends `current`: its expiry never falls (H19), its token stays (H21)."""
        ...
