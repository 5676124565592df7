"""The meaning of an answer to a read, which all clouds share.

A store answers a read in many ways, and lock clients see few of them: a part of an object (206), "not modified" (304),
a condition or a range that does not hold (412, 416). Each is an answer, and a healthy one. An answer that does not show
the present content of the object says nothing about it, and nothing against the store.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.grammar import is_whole_range
from lockref.clouds.statuses import StatusRow, reason_text
from lockref.words import Outcome
from scenarios.wire.dialects.conversation import Exchange
from scenarios.wire.dialects.objects import ObjectReply, State, content_of

_PARTIAL: Final = 206
_NOT_MODIFIED: Final = 304
_UNMET: Final = (412, 416)
"""The condition of a read does not hold, or the range that it asks for is not there."""


def read_answer(exchange: Exchange, row: StatusRow, *, code: str, version: str, state: State | None) -> ObjectReply:
    """The answer to a read.

    row: what the cloud's table says of its status. version: that the answer names, "" for none. state: the content that
    a success shows, see `shown_bytes`.
    """
    status = exchange.status
    if row.missing:
        return ObjectReply(outcome=Outcome.APPLIED, is_absent=True)
    if status // 100 == 2:
        return ObjectReply(outcome=Outcome.APPLIED, version=version, state=state)
    reason = reason_text(row, status, code)
    if status == _NOT_MODIFIED:
        # It names the version that the client has already, which is the present one.
        return ObjectReply(outcome=Outcome.APPLIED, version=version)
    if status in _UNMET:
        return ObjectReply(outcome=Outcome.PRECONDITION_FAILED, reason=reason)
    is_impossible = row.outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED)
    return ObjectReply(outcome=Outcome.AMBIGUOUS if is_impossible else row.outcome, reason=reason)


def shown_bytes(exchange: Exchange) -> State | None:
    """The object's bytes, if the answer has all of them.

    Some clients ask for a range by habit. A partial answer that has all bytes is the whole object, and says so. A
    success that does not say which bytes it has, though a range was asked for, may be a part.
    """
    if exchange.method != "GET" or not exchange.answer.is_whole:
        return None
    told = exchange.answer_headers.get("content-range", "")
    is_all = is_whole_range(told) if told else exchange.status == 200 and "range" not in exchange.headers
    if exchange.status not in (200, _PARTIAL) or not is_all:
        return None
    body = exchange.answer.kept
    return State(content_of(body), body)
