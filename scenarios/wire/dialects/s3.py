"""S3 as it is spoken on the wire: the bucket in the path or in the host, conditions in headers, versions as ETags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from xml.etree import ElementTree

from lockref.clouds.grammar import hexadecimal
from lockref.clouds.s3.answers import read_answer, status_of
from lockref.clouds.s3.facts import OUTCOMES
from lockref.clouds.statuses import classify, reason_text
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.dialects.conversation import Body, Exchange
from scenarios.wire.dialects.objects import ObjectReply, ObjectRequest, State, content_of
from scenarios.wire.dialects.reading import error_body, object_reply, question_of, shown_bytes

_FORM_KEY: Final = re.compile(rb'name="key"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]*)\r\n')
"""Where the form of a browser's upload names the object."""
_SUBRESOURCES: Final = frozenset({"acl", "legal-hold", "retention", "select", "tagging", "versioning", "versions"})
_MULTIPART: Final = frozenset({"partNumber", "uploads"})
_COMPLETION, _COPY, _DELETION = "POST completion", "PUT copy", "DELETE objects"


class S3Dialect:
    """See `Dialect`. bucket: that of the run, which a request may name in its host instead of in its path."""

    name: Final = "s3"

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def request(self, exchange: Exchange) -> ObjectRequest:
        """See `Dialect`."""
        path = exchange.path.lstrip("/")
        if exchange.host.startswith(f"{self._bucket}."):
            path = f"{self._bucket}/{path}"
        bucket, _, key = path.partition("/")
        parameters, method = exchange.parameters, exchange.method
        verb = f"{method} object" if key else f"{method} bucket"
        if not key:
            if method == "POST" and "delete" in parameters:
                return ObjectRequest(verb=_DELETION, keys=tuple(_listed_keys(bucket, exchange.body)))
            if method == "POST" and exchange.headers.get("content-type", "").startswith("multipart/form-data"):
                named = _FORM_KEY.search(exchange.body.kept)
                name = named[1].decode("utf-8", "replace") if named else ""
                return ObjectRequest(verb="POST form", unfollowed=f"{bucket}/{name}")
            return ObjectRequest(verb=verb)
        place = f"{bucket}/{key}"
        if _SUBRESOURCES & parameters.keys() or _MULTIPART & parameters.keys():
            return ObjectRequest(verb=verb)
        if "uploadId" in parameters:
            # Only the request that completes an upload makes an object; what it holds was in other requests.
            is_completion = method == "POST"
            return ObjectRequest(
                verb=_COMPLETION if is_completion else verb,
                op=Op.WRITE if is_completion else Op.NONE,
                key=place if is_completion else "",
                condition=_condition(exchange),
            )
        if method == "PUT":
            is_copy = "x-amz-copy-source" in exchange.headers
            state = None if is_copy else _written(exchange)
            return ObjectRequest(
                verb=_COPY if is_copy else verb,
                op=Op.WRITE,
                key=place,
                condition=_condition(exchange),
                state=state,
            )
        names_version = "versionId" in parameters
        if method == "DELETE" and names_version:
            # Without the removed version, an older version may be the present one again.
            return ObjectRequest(verb="DELETE version", unfollowed=place)
        if method == "DELETE":
            return ObjectRequest(verb=verb, op=Op.DELETE, key=place, condition=_condition(exchange))
        if method in ("GET", "HEAD"):
            return ObjectRequest(verb=verb, op=Op.READ, key=place, names_version=names_version)
        return ObjectRequest(verb=verb)

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """See `Dialect`."""
        question = question_of(exchange, request, has_status_inside=request.verb in (_COMPLETION, _COPY, _DELETION))
        found = read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
        if found.outcome is Outcome.REJECTED:
            # Of a refusal the words of our table are told, and no word of the server's.
            found = replace(found, code="")
        state = shown_bytes(exchange) if request.op is Op.READ else None
        reply = object_reply(found, version=_plain(found.version), state=state)
        if request.keys and found.outcome is Outcome.APPLIED:
            return replace(reply, exceptions=_kept_objects(request.keys, exchange.answer.kept))
        return reply


def _condition(exchange: Exchange) -> str:
    if exchange.headers.get("if-none-match", "").strip() == "*":
        return IF_ABSENT
    named = _plain(exchange.headers.get("if-match", ""))
    # `If-Match: *` names no version: any object will do.
    return "" if named == "*" else named


def _plain(etag: str) -> str:
    return etag.replace("&quot;", '"').strip().removeprefix("W/").strip('"')


def _written(exchange: Exchange) -> State | None:
    """What a request writes; None while its body is still coming."""
    body = exchange.body
    if not exchange.is_complete:
        return None
    if not body.is_whole:
        return State(body.digest)
    data = body.kept
    if (
        "aws-chunked" in exchange.headers.get("content-encoding", "")
        or "x-amz-decoded-content-length" in exchange.headers
    ):
        data = unchunked(data)
    return State(content_of(data), data)


def unchunked(data: bytes) -> bytes:
    """The object inside a body of `aws-chunked` encoding: pieces, each behind its length and perhaps a signature.

    What is not of that form is returned as it is.
    """
    found, rest = b"", data
    while rest:
        head, separator, rest = rest.partition(b"\r\n")
        length = hexadecimal(head.partition(b";")[0])
        if length is None or not separator:
            return data
        if length == 0:
            return found
        found, rest = found + rest[:length], rest[length + 2 :]
    return data


def _listed_keys(bucket: str, body: Body) -> Iterator[str]:
    """The objects that a request to delete several names."""
    root = _parsed(body.kept)
    for element in () if root is None else root.iter():
        if _local(element) == "Key" and element.text:
            yield f"{bucket}/{element.text}"


def _kept_objects(keys: Sequence[str], body: bytes) -> dict[str, ObjectReply]:
    """The objects of a request for several deletions that were not deleted, or perhaps not, by what the answer says.

    The answer to a quiet request names errors alone, so an object that is not named is gone.
    """
    root = _parsed(body) if keys and body else None
    if root is None:
        # An unreadable answer leaves open which objects were deleted.
        unclear = ObjectReply(outcome=Outcome.AMBIGUOUS, reason="an answer that cannot be read")
        return dict.fromkeys(keys, unclear) if body else {}
    kept = {}
    for error in (element for element in root.iter() if _local(element) == "Error"):
        said = {_local(child): child.text or "" for child in error}
        code = said.get("Code", "")
        status = status_of(code)
        row = classify(OUTCOMES, status, code)
        named = [key for key in keys if key.partition("/")[2] == said.get("Key")]
        reply = ObjectReply(
            outcome=row.outcome, is_absent=row.missing, reason=reason_text(row.why, status_of(code), code)
        )
        kept.update(dict.fromkeys(named, reply))
    return kept


def _parsed(body: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return None


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
