"""The answers of Azure Blob Storage, read from their bytes. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lockref.clouds.answers import SOMETHING_ELSE, Meaning, Question, RequestKind, decide, silence
from lockref.clouds.azure.facts import MARK, OUTCOMES, REFUSAL_CODES, SERVICE
from lockref.clouds.azure.requests import plain_etag
from lockref.clouds.calls import LEASE, LIST, READ, Answer, Call, Entries, HttpReply, Place
from lockref.clouds.http_reply import XML, failed, http_reply, xml_error
from lockref.clouds.statuses import classify, error_code
from lockref.clouds.traffic import (
    Exchange,
    ObjectReply,
    ObjectRequest,
    error_body,
    object_reply,
    question_of,
    shown_bytes,
)
from lockref.clouds.xml_body import parsed
from lockref.grammar import code_word
from lockref.words import Op, Outcome

_ACCEPTED: Final = 202
"""The service's answer to a removal; it has no body."""


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Meaning:
    """The meaning of an answer. headers: by their names in lower case; one of them names the error."""
    code = code_word(headers.get("x-ms-error-code", ""))
    if status >= 300 and not code:
        code = error_code(body)
    row = classify(OUTCOMES, status, code)
    return decide(
        row,
        question,
        status=status,
        code=code,
        version=headers.get("etag", ""),
        service=SERVICE,
        has_mark=status == _ACCEPTED and (MARK in headers or not body),
    )


def write_answer(question: Question, answered: Meaning, *, body: bytes = b"") -> bytes:
    """The bytes of an answer with this meaning, such that `read_answer` reads it back.

    answered: status, code, version, and for an error `why`, which becomes its message. body: of an object that is read.
    """
    if answered.status // 100 == 2:
        headers = (("ETag", answered.version),) if answered.version else ()
        return http_reply(answered.status, *headers, body=body if question.kind is RequestKind.READ else b"")
    if not answered.code:
        return http_reply(answered.status)
    kind = (("Content-Type", XML), ("x-ms-error-code", answered.code))
    return http_reply(answered.status, *kind, body=xml_error(answered.code, answered.why))


def write_refusal(status: int, reason: str) -> bytes:
    """The refusal with this status that a fault may send. reason: for people."""
    return write_answer(SOMETHING_ELSE, failed(REFUSAL_CODES.get(status, "InternalError"), status, reason))


def answer_to(place: Place, call: Call, reply: HttpReply) -> Answer:
    """The answer to a call of ours. A listing is told without the place's prefix."""
    found = read_answer(call.question, reply.status, reply.headers, reply.body)
    entries: Entries = ()
    if call.verb == LEASE and reply.status in (409, 412):
        found = replace(found, outcome=Outcome.PRECONDITION_FAILED)
    if call.verb == LIST and found.outcome is Outcome.APPLIED:
        listed = _entries(reply.body, cut=len(place.prefix))
        if listed is None:
            found = silence(Outcome.AMBIGUOUS, "a success that cannot be read", status=reply.status)
        entries = listed or ()
    return Answer.of(
        found,
        status=reply.status,
        body=reply.body if call.verb == READ else None,
        upload=reply.headers.get("x-ms-lease-id", ""),
        entries=entries,
    )


def _entries(body: bytes, *, cut: int) -> Entries | None:
    """Names and versions of a listing; None for what is none."""
    root = parsed(body.removeprefix(b"\xef\xbb\xbf"))
    if root is None or root.tag != "EnumerationResults":
        return None
    return tuple(
        ((blob.findtext("Name") or "")[cut:], blob.findtext("Properties/Etag") or "") for blob in root.iter("Blob")
    )


def reply_to(exchange: Exchange, request: ObjectRequest) -> ObjectReply:
    """The meaning of an answer as it passed on a wire."""
    question = question_of(exchange, request)
    found = read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
    state = shown_bytes(exchange) if request.op is Op.READ else None
    return object_reply(found, version=plain_etag(found.version), state=state)
