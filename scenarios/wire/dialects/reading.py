"""What the wire shows of a question and of its answer, which all clouds share.

A store answers a read in many ways, and lock clients see few of them: a part of an object (206), "not modified" (304),
a condition or a range that does not hold (412, 416). Each is an answer, and a healthy one. An answer that does not show
the present content of the object says nothing about it, and nothing against the store.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.answers import Answered, Asked, Question
from lockref.clouds.grammar import is_whole_range
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.dialects.conversation import Exchange
from scenarios.wire.dialects.objects import ObjectReply, ObjectRequest, State, content_of

_PARTIAL: Final = 206
_CONDITIONS: Final = frozenset({"if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range"})
_CONDITIONS_IN_QUERY: Final = frozenset(
    {"ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch"}
)
_ASKED: Final = {Op.READ: Asked.READ, Op.WRITE: Asked.WRITE, Op.DELETE: Asked.DELETE}


def question_of(exchange: Exchange, request: ObjectRequest, *, has_status_inside: bool = False) -> Question:
    """What the meaning of the answer depends on.

    has_status_inside: a success may hold an error in its body.
    """
    asked = _ASKED.get(request.op)
    if asked is None:
        # A request that deletes several objects may fail inside its answer, too.
        return Question(asked=Asked.OTHER, needs_object=False, has_status_inside=has_status_inside)
    has_condition = bool(_CONDITIONS & exchange.headers.keys() or _CONDITIONS_IN_QUERY & exchange.parameters.keys())
    return Question(
        asked=asked,
        needs_object=asked is not Asked.WRITE or request.condition not in ("", IF_ABSENT),
        is_conditional=has_condition,
        has_status_inside=has_status_inside,
    )


def error_body(exchange: Exchange) -> bytes:
    """The body of the answer, as far as it was kept. A body that was cut off before its first byte is not empty."""
    answer = exchange.answer
    return answer.kept or (b"" if answer.is_whole and answer.size == 0 else b"?")


def object_reply(found: Answered, *, version: str, state: State | None = None) -> ObjectReply:
    """The answer in the words of a history. version: as requests name it in their conditions."""
    is_done = found.outcome is Outcome.APPLIED
    return ObjectReply(
        outcome=found.outcome,
        version=version if is_done else "",
        state=state if is_done and not found.is_absent else None,
        is_absent=found.is_absent,
        reason=found.reason,
    )


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
