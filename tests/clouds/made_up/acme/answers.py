"""The answers of Acme, read from their bytes and written. An error is JSON: `{"fault": CODE, "detail": …}`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lockref.clouds.answers import SOMETHING_ELSE, Meaning, Question, RequestKind, decide
from lockref.clouds.calls import READ, Answer, Call, HttpReply, Place
from lockref.clouds.http_reply import JSON, failed, http_reply
from lockref.clouds.statuses import classify
from lockref.clouds.traffic import (
    Exchange,
    ObjectReply,
    ObjectRequest,
    error_body,
    object_reply,
    question_of,
    shown_bytes,
)
from lockref.grammar import code_word, decimal, json_object
from lockref.words import Op
from tests.clouds.made_up.acme.facts import OUTCOMES, REFUSALS, SERVICE, VERSION


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Meaning:
    """The meaning of an answer."""
    code = code_word(str(json_object(body).get("fault", ""))) if status >= 300 else ""
    told = headers.get(VERSION, "")
    row = classify(OUTCOMES, status, code)
    return decide(
        row,
        question,
        status=status,
        code=code,
        version=told if decimal(told) else "",
        service=SERVICE,
        has_mark=not body,
    )


def write_answer(question: Question, answered: Meaning, *, body: bytes = b"") -> bytes:
    """The bytes of an answer with this meaning, such that `read_answer` reads it back."""
    if answered.status // 100 == 2:
        headers = ((VERSION, answered.version),) if answered.version else ()
        return http_reply(answered.status, *headers, body=body if question.kind is RequestKind.READ else b"")
    if not answered.code:
        return http_reply(answered.status)
    told = json.dumps({"fault": answered.code, "detail": answered.why}).encode()
    return http_reply(answered.status, ("Content-Type", JSON), body=told)


def write_refusal(status: int, reason: str) -> bytes:
    """The refusal that a fault may send, where others have this status."""
    own, code = REFUSALS.get(status, (status, "Broken"))
    return write_answer(SOMETHING_ELSE, failed(code, own, reason))


def answer_to(_place: Place, call: Call, reply: HttpReply) -> Answer:
    """The answer to a call of ours."""
    found = read_answer(call.question, reply.status, reply.headers, reply.body)
    return Answer.of(found, status=reply.status, body=reply.body if call.verb == READ else None)


def reply_to(exchange: Exchange, request: ObjectRequest) -> ObjectReply:
    """The meaning of an answer as it passed on a wire."""
    found = read_answer(question_of(exchange, request), exchange.status, exchange.answer_headers, error_body(exchange))
    return object_reply(found, version=found.version, state=shown_bytes(exchange) if request.op is Op.READ else None)
