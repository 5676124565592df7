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

from lockref.dynamodb.item import DATA, DURATION, NOT_ACQUIRABLE, OWNER, RELEASED
from lockref.dynamodb.table import VERSION, Item, flag, text

KEY_VALUE: Final = "s3://lake/orders"
OWNER_NAME: Final = "writer"
LOST, LOST_BEFORE, THROTTLED = "lost", "lost-before", "throttled"
"""What may become of a request: it takes effect and its answer is lost; it never arrives; it is refused as too many."""


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
