"""The answers of S3, read from their bytes. Nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lockref.clouds.answers import Answered, Asked, Question, decide
from lockref.clouds.s3.facts import BODILESS_404, OUTCOMES, SERVICE, STATUS_OF
from lockref.clouds.statuses import classify, error_code

_NOT_FOUND: Final = 404
_SUCCESS: Final = 200
_ERROR: Final = re.compile(rb"\s*(?:<\?xml[^>]*\?>)?\s*<Error[\s/>]")
_ETAG: Final = re.compile(rb"<ETag>([^<]{0,200})</ETag>")


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    """The meaning of an answer. headers: by their names in lower case. body: an error needs its first bytes only."""
    code = error_code(body) if status >= 300 else ""
    if status == _NOT_FOUND and not body:
        code = BODILESS_404
    if status == _SUCCESS and question.has_status_inside:
        status, code = error_inside(body) or (status, code)
    version = headers.get("etag", "")
    if question.has_status_inside and (shown := _ETAG.search(body)):
        version = shown[1].decode("latin-1").replace("&quot;", '"')
    return meaning_of(question, status, code=code, version=version)


def meaning_of(question: Question, status: int, *, code: str = "", version: str = "") -> Answered:
    """The meaning of an answer whose parts are known. code: `BODILESS_404` for a 404 that has no body."""
    if code == BODILESS_404 and question.asked is Asked.OTHER:
        code = ""
    row = classify(OUTCOMES, status, code)
    return decide(row, question, status=status, code=code, version=version, service=SERVICE)


def error_inside(body: bytes) -> tuple[int, str] | None:
    """The status and the code of an error in the body of a 200; None if the body is no error.

    A copy, the completion of an upload and a deletion of several objects may answer 200 and fail, so the body decides
    (aws-sdk-java-v2#6023).
    """
    if not _ERROR.match(body):
        return None
    code = error_code(body)
    return status_of(code), code


def status_of(code: str) -> int:
    """The status of an error that has a code alone; 500, which is ambiguous, for an unknown code."""
    return STATUS_OF.get(code, 500)
