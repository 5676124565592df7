"""The answers of Google Cloud Storage, read from their bytes. Nothing is sent here.

The service has one reason, `notFound`, for an object and for a bucket that is not there. Only its message tells them
apart. A message repeats names that the user chose, such as a bucket that is called `bucket`. So it is judged by the
words with which it begins, and these stand before any name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lockref.clouds.answers import Answered, Asked, Question, decide
from lockref.clouds.gcs.facts import NO_SUCH_BUCKET, NO_SUCH_OBJECT, OUTCOMES, SERVICE
from lockref.clouds.grammar import code_word, decimal
from lockref.clouds.statuses import classify, error_code
from lockref.strict_json import NotJson, read_object

_NOT_FOUND: Final = 404
_MESSAGE_CHARS_MAX: Final = 2000
_GONE: Final = r"(?:does not exist|doesn't exist|(?:was |is )?not found|not exist)"
_BUCKET: Final = re.compile(
    rf"(?:the )?(?:specified |requested )?bucket(?:[ :]+\S+)? {_GONE}|no such bucket|nosuchbucket", re.IGNORECASE
)
_OBJECT: Final = re.compile(
    r"no such object|nosuchkey|(?:the )?(?:specified |requested )?(?:(?:live|archived) version of )?object\b",
    re.IGNORECASE,
)


def read_answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    """The meaning of an answer. headers: by their names in lower case.

    A download tells the generation in a header; every other answer tells it in the object's resource.
    """
    code = error_word(status, body, on_object=question.needs_object)
    row = classify(OUTCOMES, status, code)
    version = headers.get("x-goog-generation", "")
    if status // 100 == 2 and (question.asked is Asked.WRITE or question.is_about_metadata):
        version = version or _generation(body)
    return decide(row, question, status=status, code=code, version=version if decimal(version) else "", service=SERVICE)


def _generation(body: bytes) -> str:
    """The generation in a resource, or in the resource of an object that was copied; "" for none."""
    found = _parsed(body)
    resource = found.get("resource", found)
    return str(resource.get("generation", "")) if isinstance(resource, dict) else ""


def error_word(status: int, body: bytes, *, on_object: bool) -> str:
    """The code of an answer with this status and body, see `_code`; "" for a success.

    body: JSON, or the plain message with which downloads are answered, or XML.
    """
    if status // 100 == 2:
        return ""
    error = _parsed(body).get("error")
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


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except NotJson:
        return {}
