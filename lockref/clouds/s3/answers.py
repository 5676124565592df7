"""The answers of S3 in one dialect, read from their bytes and written. Nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypedDict
from xml.etree import ElementTree

from lockref.clouds.answers import SOMETHING_ELSE, Meaning, Question, RequestKind, decide, silence
from lockref.clouds.calls import (
    BEGIN_UPLOAD,
    LIST,
    PART,
    READ,
    UPLOADS,
    VERSIONING,
    VERSIONS,
    Answer,
    Call,
    Entries,
    HttpReply,
    Place,
)
from lockref.clouds.http_reply import XML, failed, http_reply, xml_error
from lockref.clouds.s3.facts import AMAZON, BODILESS_404, Dialect
from lockref.clouds.s3.requests import COMPLETION_VERB, COPY_VERB, DELETION_VERB, plain_etag
from lockref.clouds.statuses import classify, error_code, reason_text
from lockref.clouds.traffic import (
    Exchange,
    ObjectReply,
    ObjectRequest,
    error_body,
    object_reply,
    question_of,
    shown_bytes,
)
from lockref.clouds.xml_body import local_name, parsed, text_inside
from lockref.words import Op, Outcome

_NOT_FOUND: Final = 404
_SUCCESS: Final = 200
_NO_CONTENT: Final = 204
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_ERROR: Final = re.compile(rb"\s*(?:<\?xml[^>]*\?>)?\s*<Error[\s/>]")
_ETAG: Final = re.compile(rb"<ETag>([^<]{0,200})</ETag>")

_NO_ETAG: Final = "a part of an upload without an ETag"
_LISTED: Final = (LIST, UPLOADS, VERSIONS, VERSIONING, BEGIN_UPLOAD)
"""The requests whose answers are read further: they hold names, or the id of an upload."""


class _Details(TypedDict, total=False):
    """The details of an answer of S3 beside its meaning, see `Answer`."""

    upload: str
    entries: Entries


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one dialect of S3."""

    dialect: Dialect = AMAZON

    def read_answer(self, question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Meaning:
        """The meaning of an answer. headers: by their names in lower case. an error needs few bytes of its body."""
        code = error_code(body) if status >= 300 else ""
        if status == _NOT_FOUND and not body:
            code = BODILESS_404
        if status == _SUCCESS and question.has_status_inside:
            status, code = self.error_inside(body) or (status, code)
        version = headers.get("etag", "")
        if question.has_status_inside and (shown := _ETAG.search(body)):
            version = shown[1].decode("latin-1").replace("&quot;", '"')
        return self.meaning_of(question, status, code=code, version=version, headers=headers, is_empty=not body)

    def meaning_of(
        self,
        question: Question,
        status: int,
        *,
        code: str = "",
        version: str = "",
        headers: Mapping[str, str] = _NO_HEADERS,
        is_empty: bool = False,
    ) -> Meaning:
        """The meaning of an answer whose parts are known.

        code: `BODILESS_404` for a 404 that has no body. is_empty: the answer is known to have no body.
        """
        if code == BODILESS_404 and question.kind is RequestKind.OTHER:
            code = ""
        row = classify(self.dialect.outcomes, status, code)
        return decide(
            row,
            question,
            status=status,
            code=code,
            version=version,
            service=self.dialect.title,
            # A 204 has no body, so it is no page.
            has_mark=status == _NO_CONTENT
            or not self.dialect.marks.isdisjoint(headers)
            or (self.dialect.has_empty_removals and is_empty),
        )

    def error_inside(self, body: bytes) -> tuple[int, str] | None:
        """The status and the code of an error in the body of a 200; None if the body is no error.

        A copy, the completion of an upload and a deletion of several objects may answer 200 and fail, so the body
        decides (aws-sdk-java-v2#6023).
        """
        if not _ERROR.match(body):
            return None
        code = error_code(body)
        return self.status_of(code), code

    def status_of(self, code: str) -> int:
        """The status of an error that has a code alone; 500, which is ambiguous, for an unknown code."""
        return self.dialect.status_of.get(code, 500)

    def write_answer(self, question: Question, answered: Meaning, *, body: bytes = b"") -> bytes:
        """The bytes of an answer with this meaning, such that `read_answer` reads it back.

        answered: status, code, version, and for an error `why`, which becomes its message.
        body: of an object that is read.
        """
        if answered.status // 100 == 2:
            headers = (("ETag", answered.version),) if answered.version else ()
            return http_reply(answered.status, *headers, body=body if question.kind is RequestKind.READ else b"")
        if answered.code in ("", BODILESS_404):
            return http_reply(answered.status)
        return http_reply(answered.status, ("Content-Type", XML), body=xml_error(answered.code, answered.why))

    def write_refusal(self, status: int, reason: str) -> bytes:
        """The refusal with this status that a fault may send. reason: for people."""
        code = self.dialect.refusal_codes.get(status, "InternalError")
        return self.write_answer(SOMETHING_ELSE, failed(code, status, reason))

    def answer_to(self, place: Place, call: Call, reply: HttpReply) -> Answer:
        """The answer to a call of ours. A listing is told without the place's prefix."""
        found = self.read_answer(call.question, reply.status, reply.headers, reply.body)
        details: _Details = {}
        if found.outcome is Outcome.APPLIED and call.verb == PART:
            # A part is no version of the object, and the completion names it by its ETag.
            etag = reply.headers.get("etag", "")
            found = replace(found, version=etag) if etag else silence(Outcome.AMBIGUOUS, _NO_ETAG, status=reply.status)
        if found.outcome is Outcome.APPLIED and call.verb in _LISTED:
            root = parsed(reply.body)
            if root is None or (call.verb == LIST and local_name(root) != "ListBucketResult"):
                # Another document, such as a page in XHTML, is no bucket without objects.
                found = silence(Outcome.AMBIGUOUS, "a success that cannot be read", status=reply.status)
            else:
                details = _details(root, call.verb, cut=len(place.prefix))
        return Answer.of(found, status=reply.status, body=reply.body if call.verb == READ else None, **details)

    def reply_to(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """The meaning of an answer as it passed on a wire."""
        question = question_of(
            exchange, request, has_status_inside=request.verb in (COMPLETION_VERB, COPY_VERB, DELETION_VERB)
        )
        found = self.read_answer(question, exchange.status, exchange.answer_headers, error_body(exchange))
        if found.outcome is Outcome.REJECTED:
            # The words of our table tell a refusal, and no word of the server's.
            found = replace(found, code="")
        state = shown_bytes(exchange) if request.op is Op.READ else None
        reply = object_reply(found, version=plain_etag(found.version), state=state)
        if request.keys and found.outcome is Outcome.APPLIED:
            return replace(reply, exceptions=self._kept_objects(request.keys, exchange.answer.kept))
        return reply

    def _kept_objects(self, keys: Sequence[str], body: bytes) -> dict[str, ObjectReply]:
        """The objects of a request for several deletions that were not deleted, or perhaps not, by the answer's words.

        The answer to a quiet request names errors alone, so an object that is not named is gone.
        """
        root = parsed(body)
        if root is None or local_name(root) != "DeleteResult":
            # An unreadable answer, such as a page of a proxy, leaves open which objects were deleted.
            unclear = ObjectReply(outcome=Outcome.AMBIGUOUS, reason="an answer that cannot be read")
            return dict.fromkeys(keys, unclear)
        kept = {}
        for error in (element for element in root.iter() if local_name(element) == "Error"):
            said = {local_name(child): child.text or "" for child in error}
            code = said.get("Code", "")
            status = self.status_of(code)
            row = classify(self.dialect.outcomes, status, code)
            named = [key for key in keys if key.partition("/")[2] == said.get("Key")]
            reply = ObjectReply(outcome=row.outcome, is_absent=row.missing, reason=reason_text(row.why, status, code))
            kept.update(dict.fromkeys(named, reply))
        return kept


def _details(root: ElementTree.Element, verb: str, *, cut: int) -> _Details:
    if verb == BEGIN_UPLOAD:
        return {"upload": text_inside(root, "UploadId")}
    if verb == VERSIONING:
        return {"entries": (("status", text_inside(root, "Status")),)}
    kinds = {
        LIST: (("Contents",), "ETag"),
        UPLOADS: (("Upload",), "UploadId"),
        VERSIONS: (("Version", "DeleteMarker"), "VersionId"),
    }
    wanted, told = kinds[verb]
    found = [child for child in root if local_name(child) in wanted]
    return {"entries": tuple((text_inside(each, "Key")[cut:], text_inside(each, told)) for each in found)}
