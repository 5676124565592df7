"""What Google Cloud Storage names in an error, read from the bytes of an answer.

The service has one reason, `notFound`, for an object and for a bucket that is not there. Only its message tells them
apart. A message repeats names that the user chose, such as a bucket that is called `bucket`. So it is judged by the
words with which it begins, and these stand before any name.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from lockref.clouds.grammar import code_word
from lockref.clouds.statuses import error_code

NO_SUCH_OBJECT: Final = "noSuchObject"
NO_SUCH_BUCKET: Final = "noSuchBucket"

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
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
