"""Situations in which an original and our model of it must do the same, request by request.

A situation is data: the row at first, the calls of one client, and what happens at its n-th request. Nothing in it
depends on how fast a machine is: the row is changed just before a request arrives, as by another client, and never at a
time. The client's own periods are such that each decision about time has half a second to spare.

A lease of "now+N" is a number: the epoch second N seconds after the situation began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lockref.delta.record import DATA, DURATION, NOT_ACQUIRABLE, OWNER, RELEASED
from lockref.dynamodb.table import VERSION, Item, flag, text

KEY_VALUE: Final = "s3://lake/orders"
OWNER_NAME: Final = "writer"
LOST, LOST_BEFORE, THROTTLED, UNAVAILABLE = "lost", "lost-before", "throttled", "unavailable"
"""What may become of a request: it takes effect and its answer is lost; it never arrives; it is refused as too many; it
is refused with the status 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """about: in words. row: at first; None: there is none. calls: of the client, in order.

    before: by number of a request, from 1: the row from just before that request on. fates: likewise, what becomes of
    the request. lease_s, refresh_ms, additional_ms: the client's options.
    """

    name: str
    about: str
    row: Item | None = None
    calls: tuple[Mapping[str, Any], ...]
    before: Mapping[int, Item | None] = field(default_factory=dict)
    fates: Mapping[int, str] = field(default_factory=dict)
    lease_s: int = 2
    refresh_ms: int = 1500
    additional_ms: int = 2000


def _theirs(version: str = "v1", lease: Mapping[str, str] | None = None, more: Item | None = None) -> Item:
    """A row of another owner. lease: text of 2 s if nothing else is said."""
    return {OWNER: text("other"), VERSION: text(version), DURATION: lease or text("2"), **(more or {})}


def _without(row: Item, attribute: str) -> Item:
    return {name: value for name, value in row.items() if name != attribute}


_NUMBER: Final = {"N": "now+2"}
_ACQUIRE: Final = {"do": "acquire", "data": "mine"}
_ACQUIRE_ALONE: Final = {"do": "acquire", "data": None}
_UPDATE: Final = {"do": "update", "data": "mine, changed"}
_RELEASE: Final = {"do": "release"}
_DEAD: Final = {DATA: text("theirs")}

CRATE: Final[tuple[Situation, ...]] = (
    Situation(name="free", about="no row: taken, and deleted at the release", calls=(_ACQUIRE, _RELEASE)),
    Situation(name="free-without-data", about="the same without data", calls=(_ACQUIRE_ALONE, _RELEASE)),
    Situation(name="updated", about="the holder changes its data", calls=(_ACQUIRE, _UPDATE, _RELEASE)),
    Situation(
        name="released-later", about="a live holder deletes its row before the third look", row=_theirs(more=_DEAD),
        calls=(_ACQUIRE, _RELEASE), before={3: None}, lease_s=20, additional_ms=20_000,
    ),
    Situation(
        name="dead-text", about="a dead holder's lease is text; whoever cannot read that gets the row when it goes",
        row=_theirs(more=_DEAD), calls=(_ACQUIRE, _UPDATE, _RELEASE), before={7: None},
    ),
    Situation(
        name="dead-number", about="a dead holder's lease is a number; the row goes before the sixth look",
        row=_theirs(lease=_NUMBER, more=_DEAD), calls=(_ACQUIRE, _RELEASE), before={6: None},
    ),
    Situation(
        name="live-number", about="a live holder's lease is a number, an hour ahead; the row goes later",
        row=_theirs(lease={"N": "now+3600"}, more=_DEAD), calls=(_ACQUIRE, _RELEASE), before={4: None},
    ),
    Situation(
        name="no-lease", about="a row without a lease never expires, nor does the attempt",
        row=_without(_theirs(more=_DEAD), DURATION), calls=(_ACQUIRE, _RELEASE), before={6: None},
    ),
    Situation(
        name="long-text", about="a lease of two years as text", row=_theirs(lease=text("63072000")),
        calls=(_ACQUIRE,), before={4: None},
    ),
    Situation(
        name="no-text", about="a lease of other words", row=_theirs(lease=text("soon")), calls=(_ACQUIRE,),
        before={4: None},
    ),
    Situation(
        name="no-version", about="a row without a version", row=_without(_theirs(), VERSION), calls=(_ACQUIRE,)
    ),
    Situation(name="no-owner", about="a row without an owner", row=_without(_theirs(), OWNER), calls=(_ACQUIRE,)),
    Situation(
        name="changed-and-over", about="the version changes; the attempt ends before the count does",
        row=_theirs(), calls=(_ACQUIRE,), before={3: _theirs("v2"), 6: None},
    ),
    Situation(
        name="changed-and-taken", about="the same with a longer attempt: the count begins anew",
        row=_theirs(), calls=(_ACQUIRE, _RELEASE), before={3: _theirs("v2"), 8: None}, additional_ms=5000,
    ),
    Situation(
        name="fraction-of-a-second", about="what an attempt may last beyond the lease is cut to whole seconds (B3)",
        row=_theirs(lease=text("3")), calls=(_ACQUIRE,), additional_ms=1900, refresh_ms=1500,
        before={2: _theirs("v2", lease=text("3")), 4: _theirs("v3", lease=text("3")), 6: None},
    ),
    Situation(
        name="only-the-first-lease", about="the second holder's longer lease does not prolong the attempt (B7)",
        row=_theirs(), calls=(_ACQUIRE,), before={2: _theirs("v2", lease=text("60")), 6: None},
    ),
    Situation(
        name="released-mark", about="the row is marked as released, by text",
        row=_theirs(more={**_DEAD, RELEASED: text("1")}),
        calls=(_ACQUIRE, _RELEASE),
    ),
    Situation(
        name="released-flag", about="the mark is a truth value: seen, and never equal to the text of the condition",
        row=_theirs(more={RELEASED: flag(True)}), calls=(_ACQUIRE,),
    ),
    Situation(
        name="not-acquirable", about="an operator lets nobody lock", row=_theirs(more={NOT_ACQUIRABLE: text("1")}),
        calls=(_ACQUIRE,),
    ),
    Situation(
        name="rival-was-faster", about="a rival puts its row between our look and our write", calls=(_ACQUIRE,),
        before={2: _theirs(), 7: None},
    ),
    Situation(
        name="rival-took-over", about="a rival takes the dead holder's row over between our look and our write",
        row=_theirs(), calls=(_ACQUIRE,), before={4: _theirs("v2"), 7: None},
    ),
    Situation(
        name="stolen-before-release", about="the row is another's at the release", calls=(_ACQUIRE, _RELEASE),
        before={3: _theirs()},
    ),
    Situation(
        name="gone-before-release", about="there is no row at the release", calls=(_ACQUIRE, _RELEASE), before={3: None}
    ),
    Situation(
        name="stolen-before-update", about="the row is another's when the data is to change", calls=(_ACQUIRE, _UPDATE),
        before={3: _theirs()},
    ),
    Situation(
        name="put-answer-lost", about="the write lands, its answer does not; the next attempt meets its own row (B6)",
        calls=(_ACQUIRE, _ACQUIRE, _RELEASE), fates={2: LOST}, before={8: None},
    ),
    Situation(name="put-lost", about="the write does not land", calls=(_ACQUIRE, _ACQUIRE), fates={2: LOST_BEFORE}),
    Situation(name="get-answer-lost", about="the answer to a read is lost", calls=(_ACQUIRE,), fates={1: LOST}),
    Situation(
        name="release-answer-lost", about="the answer to the release is lost",
        calls=(_ACQUIRE, _RELEASE), fates={3: LOST}
    ),
    Situation(name="get-throttled", about="a read is throttled", calls=(_ACQUIRE,), fates={1: THROTTLED}),
    Situation(name="put-throttled", about="a write is throttled", calls=(_ACQUIRE,), fates={2: THROTTLED}),
    Situation(
        name="release-throttled", about="a release is throttled", calls=(_ACQUIRE, _RELEASE), fates={3: THROTTLED}
    ),
)  # fmt: skip
"""For the crate dynamodb_lock. Looks are 1.5 s apart."""


def _within(timeout_s: int) -> Mapping[str, Any]:
    return {"do": "acquire", "key": KEY_VALUE, "timeout_s": timeout_s}


PORT: Final[tuple[Situation, ...]] = (
    Situation(name="free", about="no row: taken, and deleted at the release", calls=(_within(4), _RELEASE)),
    Situation(
        name="released-later", about="a live holder deletes its row before the third look",
        row=_theirs(lease=text("20")), calls=(_within(10), _RELEASE), before={3: None},
    ),
    Situation(
        name="dead", about="a dead holder's row is taken at the third look", row=_theirs(), calls=(_within(4), _RELEASE)
    ),
    Situation(
        name="live", about="a holder's longer lease outlasts the caller's time", row=_theirs(lease=text("20")),
        calls=(_within(4),),
    ),
    Situation(
        name="changed-and-over", about="the version changes; the caller's time ends before the count does",
        row=_theirs(), calls=(_within(4),), before={3: _theirs("v2")},
    ),
    Situation(
        name="changed-and-taken", about="the same with more time: the count begins anew",
        row=_theirs(), calls=(_within(7), _RELEASE), before={3: _theirs("v2")},
    ),
    Situation(
        name="rival-was-faster", about="a rival puts its row before ours; our next write has the same version",
        calls=(_within(7), _RELEASE), before={2: _theirs()},
    ),
    Situation(
        name="rival-took-over", about="a rival takes the dead holder's row over between our look and our write",
        row=_theirs(), calls=(_within(4),), before={4: _theirs("v2")},
    ),
    Situation(
        name="stolen-before-release", about="the row is another's at the release", calls=(_within(4), _RELEASE),
        before={3: _theirs()},
    ),
    Situation(
        name="gone-before-release", about="there is no row at the release", calls=(_within(4), _RELEASE),
        before={3: None},
    ),
    Situation(
        name="put-answer-lost", about="the write lands, its answer does not; the next call meets its own row (B6)",
        calls=(_within(4), _within(4), _RELEASE), fates={2: LOST},
    ),
    Situation(name="get-answer-lost", about="the answer to a read is lost", calls=(_within(4),), fates={1: LOST}),
    Situation(
        name="release-answer-lost", about="the answer to the release is lost", calls=(_within(4), _RELEASE),
        fates={3: LOST},
    ),
    Situation(name="put-throttled", about="a write is throttled", calls=(_within(4),), fates={2: THROTTLED}),
)  # fmt: skip
"""For python_dynamodb_lock, between two heartbeats. Looks are 1.5 s apart. Its leases are numbers, here text."""


_TAKE: Final = {"do": "acquire", "key": KEY_VALUE}
_BEAT: Final = {"do": "heartbeat"}
_WAIT: Final = {"do": "wait", "ms": "3000"}
_EXPIRED: Final = {"do": "expired"}
_MS: Final = text("4000")


def _java(version: str = "v1", more: Item | None = None) -> Item:
    """A row of another owner with a lease of 4 s in milliseconds."""
    return _theirs(version, lease=_MS, more=more)


def _for_java(*, additional_ms: int = 4000, **told: Any) -> Situation:
    """A situation in which decisions about time have a whole second to spare: Java loads classes at first use."""
    return Situation(lease_s=4, refresh_ms=3000, additional_ms=additional_ms, **told)


JAVA: Final[tuple[Situation, ...]] = (
    _for_java(name="free", about="no row: taken, and deleted at the release", calls=(_TAKE, _RELEASE)),
    _for_java(
        name="released-later", about="a live holder deletes its row before the third look", row=_java(),
        calls=(_TAKE, _RELEASE), before={2: _java("v2"), 3: None},
    ),
    _for_java(
        name="live", about="a live holder renews; the attempt ends after its lease and the additional time",
        row=_java(), calls=(_TAKE,), before={2: _java("v2"), 3: _java("v3"), 4: _java("v4")},
    ),
    _for_java(
        name="only-the-first-lease", about="the second holder's longer lease does not prolong the attempt",
        row=_java(), calls=(_TAKE,), before={2: _theirs("v2", lease=text("60000"))},
    ),
    _for_java(
        name="dead", about="a dead holder's row is taken at the third look", row=_java(), calls=(_TAKE, _RELEASE)
    ),
    _for_java(
        name="changed-and-taken", about="the version changes: the count begins anew",
        row=_java(), calls=(_TAKE, _RELEASE), before={3: _java("v2")}, additional_ms=10_000,
    ),
    _for_java(
        name="released-mark", about="the row is marked as released", row=_java(more={RELEASED: text("1")}),
        calls=(_TAKE, _RELEASE),
    ),
    _for_java(
        name="released-again", about="the marked row gets another version between our look and our write",
        row=_java(more={RELEASED: text("1")}), calls=(_TAKE, _RELEASE),
        before={2: _java("v2", more={RELEASED: text("1")})},
    ),
    _for_java(
        name="released-flag", about="the mark is a truth value: seen, and never equal to the text of the condition",
        row=_java(more={RELEASED: flag(True)}), calls=(_TAKE,), before={6: None},
    ),
    _for_java(
        name="rival-was-faster", about="a rival puts its row between our look and our write", calls=(_TAKE, _RELEASE),
        before={2: _java()}, additional_ms=10_000,
    ),
    _for_java(
        name="rival-took-over", about="a rival takes the dead holder's row over between our look and our write",
        row=_java(), calls=(_TAKE,), before={4: _java("v2")},
    ),
    _for_java(
        name="heartbeat", about="two heartbeats by hand, then the lease counts from the second",
        calls=(_TAKE, _WAIT, _BEAT, _WAIT, _BEAT, _EXPIRED, _RELEASE),
    ),
    _for_java(
        name="heartbeat-too-late", about="a heartbeat after the lease is refused by the client itself",
        calls=(_TAKE, _WAIT, _WAIT, _EXPIRED, _BEAT, _RELEASE),
    ),
    _for_java(
        name="heartbeat-unavailable", about="503 to a heartbeat: the row stands still, the lease counts anew (B14)",
        calls=(_TAKE, _WAIT, _BEAT, _WAIT, _EXPIRED, _BEAT, _RELEASE), fates={3: UNAVAILABLE},
    ),
    _for_java(
        name="heartbeats-unavailable", about="503 to each: held on, while another takes the row (B14)",
        calls=(_TAKE, _WAIT, _BEAT, _WAIT, _BEAT, _EXPIRED, _WAIT, _BEAT, _EXPIRED, _RELEASE),
        fates={3: UNAVAILABLE, 4: UNAVAILABLE, 5: UNAVAILABLE}, before={5: _java()},
    ),
    _for_java(
        name="heartbeat-answer-lost", about="the renewal lands, its answer does not; the next meets its own version",
        calls=(_TAKE, _BEAT, _BEAT, _RELEASE), fates={3: LOST},
    ),
    _for_java(
        name="heartbeat-throttled", about="a throttled heartbeat is an error and no renewal",
        calls=(_TAKE, _WAIT, _BEAT, _WAIT, _EXPIRED), fates={3: THROTTLED},
    ),
    _for_java(
        name="stolen-before-heartbeat", about="the row is another's at the heartbeat; the release asks all the same",
        calls=(_TAKE, _BEAT, _EXPIRED, _RELEASE), before={3: _java()},
    ),
    _for_java(
        name="stolen-before-release", about="the row is another's at the release", calls=(_TAKE, _RELEASE),
        before={3: _java()},
    ),
    _for_java(
        name="gone-before-release", about="there is no row at the release", calls=(_TAKE, _RELEASE), before={3: None}
    ),
    _for_java(
        name="put-answer-lost", about="the write lands, its answer does not; the attempt waits for its own row (B6)",
        calls=(_TAKE, _RELEASE), fates={2: LOST},
    ),
    _for_java(name="put-lost", about="the write does not land", calls=(_TAKE, _RELEASE), fates={2: LOST_BEFORE}),
    _for_java(name="get-answer-lost", about="the answer to a read is lost", calls=(_TAKE,), fates={1: LOST}),
    _for_java(
        name="release-answer-lost", about="the answer to the release is lost", calls=(_TAKE, _RELEASE), fates={3: LOST}
    ),
    _for_java(name="get-throttled", about="a read is throttled", calls=(_TAKE,), fates={1: THROTTLED}),
    _for_java(name="put-throttled", about="a write is throttled", calls=(_TAKE,), fates={2: THROTTLED}),
    _for_java(name="get-unavailable", about="503 to a read", calls=(_TAKE,), fates={1: UNAVAILABLE}),
    _for_java(name="put-unavailable", about="503 to a write", calls=(_TAKE,), fates={2: UNAVAILABLE}),
    _for_java(name="no-text", about="a lease of other words", row=_theirs(lease=text("soon")), calls=(_TAKE,)),
    _for_java(
        name="no-version", about="a row without a version", row=_without(_java(), VERSION), calls=(_TAKE,)
    ),
    _for_java(name="no-owner", about="a row without an owner", row=_without(_java(), OWNER), calls=(_TAKE,)),
)  # fmt: skip
"""For dynamodb-lock-client with hold-on-unavailable, without its background thread. Looks are 3 s apart."""
