"""The meaning of a store's answers to one question: the quick form of the probe and the full one read them alike.

Both look at the same two things: what the store answered, and what is there afterwards. The quick form asks through the
port of an object store, the full one by raw requests; neither matters here. Each probe has sentences of its own around
a reading, and decides which clause a fault belongs to.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class AfterRefusal(StrEnum):
    """The end of a request that must be refused: RIGHT if it was, and nothing changed."""

    RIGHT = ""
    ACCEPTED = "accepted"
    ACCEPTED_AND_IDLE = "accepted, and did nothing"
    TOOK_BYTES = "refused, and stored its bytes all the same"
    CHANGED = "refused, and the object has changed"


def read_refusal(
    *, is_done: bool, is_delete: bool, sent: bytes | None, before: bytes | None, after: bytes | None
) -> AfterRefusal:
    """The end of a request that must be refused.

    is_done: the answer says that it was carried out. sent: its body. before, after: the object's body; None where there
    is no object. A repetition leaves the same bytes whether it was carried out or not.
    """
    is_changed = after != before
    if is_done:
        is_idle = not is_changed and (is_delete or sent != before)
        return AfterRefusal.ACCEPTED_AND_IDLE if is_idle else AfterRefusal.ACCEPTED
    if is_changed and after == sent and not is_delete:
        return AfterRefusal.TOOK_BYTES
    return AfterRefusal.CHANGED if is_changed else AfterRefusal.RIGHT


class RaceEnd(StrEnum):
    """The end of a race of requests that carry one condition. VOID proves nothing; RIGHT has one winner, who stays."""

    VOID = "nobody won"
    RIGHT = ""
    UNASKED = "refused every request, and carried one out"
    SEVERAL = "let several simultaneous requests succeed that carry one condition"
    BESIDE = "let a request take effect beside the winner"
    NOT_SHOWN = "confirmed a request, and shows what was there before"
    LOST = "does not hold the winner's bytes afterwards"


def read_race(
    winners: Collection[bytes | None],
    unknown: Collection[bytes | None],
    *,
    before: bytes | None,
    after: bytes | None,
) -> RaceEnd:
    """The end of one round.

    winners, unknown: what each confirmed request leaves, and each that may have landed without an answer that says so;
    None for a delete. before, after: the object's body; None where there is no object.
    """
    if not winners:
        # A request without an answer may be the one that changed the object: that is no fault.
        return RaceEnd.VOID if unknown or after == before else RaceEnd.UNASKED
    if len(winners) > 1:
        return RaceEnd.SEVERAL
    if after in winners:
        return RaceEnd.RIGHT
    if after in unknown:
        return RaceEnd.BESIDE
    return RaceEnd.NOT_SHOWN if after == before else RaceEnd.LOST
