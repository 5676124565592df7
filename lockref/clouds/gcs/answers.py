"""The answers of Google Cloud Storage, read from their bytes. Nothing is sent here.

The service has one reason, `notFound`, for an object and for a bucket that is not there. Only its message tells them
apart. A message repeats names that the user chose, such as a bucket that is called `bucket`. So it is judged by the
words with which it begins, and these stand before any name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lockref.clouds.answers import A_CREATE, SOMETHING_ELSE, Meaning, Question, RequestKind, decide, silence
from lockref.clouds.calls import (
    BEGIN_UPLOAD,
    LIST,
    PUT,
    READ,
    VERSIONING,
    VERSIONS,
    Answer,
    Call,
    Entries,
    HttpReply,
    Place,
)
from lockref.clouds.gcs.facts import (
    CONDITIONS,
    GENERATION_MAX,
    MARKS,
    NO_SUCH_BUCKET,
    NO_SUCH_OBJECT,
    OUTCOMES,
    REFUSAL_CODES,
    SERVICE,
)
from lockref.clouds.gcs.requests import UPLOAD_PATH, is_xml, metadata_state
from lockref.clouds.http_reply import JSON, failed, http_reply
from lockref.clouds.statuses import classify, error_code
from lockref.clouds.traffic import (
    Exchange,
    ObjectReply,
    ObjectRequest,
    State,
    error_body,
    object_reply,
    question_of,
    shown_bytes,
)
from lockref.grammar import code_word, decimal, json_object
from lockref.words import Op, Outcome

_NOT_FOUND: Final = 404
_NO_CONTENT: Final = 204
NULL: Final = b"null"
"""The body with which fake-gcs-server answers a removal; the service's own answer has none."""
_MESSAGE_CHARS_MAX: Final = 2000
_GONE: Final = r"(?:does not exist|doesn't exist|(?:was |is )?not found|not exist)"
_BUCKET: Final = re.compile(
    rf"(?:the )?(?:specified |requested )?bucket(?:[ :]+\S+)? {_GONE}|no such bucket|nosuchbucket", re.IGNORECASE
)
_OBJECT: Final = re.compile(
    r"no such object|nosuchkey|(?:the )?(?:specified |requested )?(?:(?:live|archived) version of )?object\b",
    re.IGNORECASE,
)

_MESSAGES: Final = {
    NO_SUCH_OBJECT: "No such object",
    NO_SUCH_BUCKET: "The specified bucket does not exist.",
}


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Meaning:
    """The meaning of an answer. headers: by their names in lower case.

    A download tells the generation in a header; every other answer tells it in the object's resource.
    """
    code = error_word(status, body, on_object=question.needs_object)
    row = classify(OUTCOMES, status, code)
    version = headers.get("x-goog-generation", "")
    if status // 100 == 2 and (question.kind is RequestKind.WRITE or question.is_about_metadata):
        version = version or _generation(body)
    return decide(
        row,
        question,
        status=status,
        code=code,
        version=version if decimal(version, most=GENERATION_MAX) else "",
        service=SERVICE,
        has_mark=_has_mark(status, headers, body),
    )


def _has_mark(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """True if the answer to a removal is no page of a proxy: it has no body, or bears a sign of the service.

    The service answers with 204, and gcp-storage-emulator with an empty 200.
    """
    if status == _NO_CONTENT or not body or not MARKS.isdisjoint(headers):
        return True
    return headers.get("content-type", "").startswith(JSON) and body.strip() == NULL


def _generation(body: bytes) -> str:
    """The generation in a resource, or in the resource of an object that was copied; "" for none."""
    found = json_object(body)
    resource = found.get("resource", found)
    return str(resource.get("generation", "")) if isinstance(resource, dict) else ""


def error_word(status: int, body: bytes, *, on_object: bool) -> str:
    """The code of an answer with this status and body, see `_code`; "" for a success.

    body: JSON, or the plain message with which downloads are answered, or XML.
    """
    if status // 100 == 2:
        return ""
    error = json_object(body).get("error")
    if not isinstance(error, dict):
        named = error_code(body)
        return _code(status, named, named or body[:_MESSAGE_CHARS_MAX].decode("utf-8", "replace"), on_object=on_object)
    return _code(status, _reason(error.get("errors")), str(error.get("message", "")), on_object=on_object)


def _code(status: int, reason: str, message: str, *, on_object: bool) -> str:
    """The service's reason, or ours for the two kinds of 404.

    on_object: the request is about an object that may be absent, such as a read. So a 404 that says nothing means the
    object. An upload needs nothing but the bucket.
    """
    if status != _NOT_FOUND:
        return code_word(reason)
    said = message.strip()
    if _BUCKET.match(said):
        return NO_SUCH_BUCKET
    if _OBJECT.match(said):
        return NO_SUCH_OBJECT
    return NO_SUCH_OBJECT if on_object else NO_SUCH_BUCKET


def _reason(errors: object) -> str:
    """The first reason in a list of the service's errors; "" for none."""
    for each in errors if isinstance(errors, (list, tuple)) else ():
        if isinstance(each, dict) and isinstance(each.get("reason"), str):
            return str(each["reason"])
    return ""


def write_answer(question: Question, answered: Meaning, *, body: bytes = b"") -> bytes:
    """The bytes of an answer with this meaning, such that `read_answer` reads it back.

    answered: status, code, version, and for an error `why`, which becomes its message. body: of an object that is read.
    """
    status = answered.status
    if status // 100 == 2 and question.kind is RequestKind.READ and not question.is_about_metadata:
        headers = (("x-goog-generation", answered.version),) if answered.version else ()
        return http_reply(status, *headers, body=body)
    if status // 100 == 2:
        resource = json.dumps({"kind": "storage#object", "generation": answered.version}) if answered.version else ""
        return http_reply(status, *((("Content-Type", JSON),) if resource else ()), body=resource.encode())
    if not answered.code:
        return http_reply(status)
    # The service has one reason for the two kinds of 404. Its message tells them apart.
    message = _MESSAGES.get(answered.code, answered.why)
    reason = "notFound" if answered.code in _MESSAGES else answered.code
    errors = [{"message": message, "domain": "global", "reason": reason}]
    told = json.dumps({"error": {"code": status, "message": message, "errors": errors}})
    return http_reply(status, ("Content-Type", JSON), body=told.encode())


def write_refusal(status: int, reason: str) -> bytes:
    """The refusal with this status that a fault may send. reason: for people."""
    return write_answer(SOMETHING_ELSE, failed(REFUSAL_CODES.get(status, "backendError"), status, reason))


def answer_to(place: Place, call: Call, reply: HttpReply) -> Answer:
    """The answer to a call of ours. A listing is told without the place's prefix."""
    # An upload needs nothing but the bucket: a condition that does not hold is answered with 412.
    question = A_CREATE if call.verb == PUT else call.question
    # What was asked for by its generation has that one. Emulators leave out the header.
    asked = {"x-goog-generation": call.version} if call.verb == READ and call.version else {}
    found = read_answer(question, reply.status, asked | reply.headers, reply.body)
    entries: Entries = ()
    if call.verb in (LIST, VERSIONS, VERSIONING) and found.outcome is Outcome.APPLIED:
        told = json_object(reply.body)
        if not told:
            # A page of somebody else's is no bucket without objects. The service names at least the kind of its answer.
            found = silence(Outcome.AMBIGUOUS, "a success that cannot be read", status=reply.status)
        elif call.verb == VERSIONING:
            versioning = told.get("versioning")
            is_on = isinstance(versioning, dict) and bool(versioning.get("enabled"))
            entries = (("status", "enabled" if is_on else ""),)
        else:
            items = told.get("items")
            cut = len(place.prefix)
            listed = items if isinstance(items, list) else []
            named = [each for each in listed if isinstance(each, dict) and "name" in each]
            entries = tuple((str(each["name"])[cut:], str(each.get("generation", ""))) for each in named)
    return Answer.of(
        found,
        status=reply.status,
        body=reply.body if call.verb == READ else None,
        upload=reply.headers.get("location", "") if call.verb == BEGIN_UPLOAD else "",
        entries=entries,
    )


def reply_to(exchange: Exchange, request: ObjectRequest) -> ObjectReply:
    """The meaning of an answer as it passed on a wire."""
    question = replace(
        question_of(exchange, request, has_condition=bool(CONDITIONS & exchange.parameters.keys())),
        is_about_metadata=request.op is Op.READ and not _shows_bytes(exchange),
    )
    if UPLOAD_PATH.fullmatch(exchange.path):
        # An upload needs nothing but the bucket: a condition that does not hold is answered with 412.
        question = replace(question, needs_object=False)
    found = read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
    if request.op is Op.READ:
        version, state = _shown(exchange)
        return object_reply(found, version=version, state=state)
    if found.is_absent and request.names_version:
        # That version is gone. Another one may be there.
        reason = f"{exchange.status}: the named version is not there"
        return ObjectReply(outcome=Outcome.PRECONDITION_FAILED, reason=reason)
    if found.outcome is not Outcome.APPLIED or request.op is not Op.WRITE:
        return object_reply(found, version="")
    made = json_object(exchange.answer.kept)
    version = _version(made.get("generation"), made.get("metageneration"))
    replaced = _replaced(request.condition, version) if request.is_metadata else ""
    return replace(object_reply(found, version=version, state=metadata_state(made)), condition=replaced)


def _shows_bytes(exchange: Exchange) -> bool:
    """True for a read whose answer is the object, with its generation in headers."""
    return exchange.parameters.get("alt") == "media" or is_xml(exchange)


def _shown(exchange: Exchange) -> tuple[str, State | None]:
    """The version and the content that an answer to a read shows: bytes with headers, or a resource."""
    headers = exchange.answer_headers
    if _shows_bytes(exchange):
        version = _version(headers.get("x-goog-generation"), headers.get("x-goog-metageneration"))
        return version, shown_bytes(exchange)
    told = json_object(exchange.answer.kept) if exchange.status == 200 and exchange.answer.is_whole else {}
    return _version(told.get("generation"), told.get("metageneration")), metadata_state(told)


def _version(generation: object, metageneration: object) -> str:
    made, changed = decimal(str(generation), most=GENERATION_MAX), decimal(str(metageneration or 1))
    return "" if not made or changed is None else f"{made}.{changed}"


def _replaced(condition: str, version: str) -> str:
    """The version that a change of metadata replaced; "" if unknown. version: that the change made.

    The condition names one half of the replaced version, the new version tells the other half: such a change keeps the
    generation, and raises the metageneration by one.
    """
    generation, _, metageneration = version.partition(".")
    if condition.startswith("*.") and generation:
        return generation + condition[1:]
    number = decimal(metageneration)
    if condition.endswith(".*") and number is not None:
        return f"{condition[:-1]}{number - 1}"
    return ""
