"""Numbers and words as wire formats write them, read strictly.

Python's `int` reads more than a wire format has: signs, spaces, underscores, digits of other scripts. It also raises an
error of its own over a number of many digits. A reader that takes a length from such text may wait for ever, or end
with an error that nobody expects.
"""

from __future__ import annotations

import re
from typing import Any, Final

from lockref.strict_json import NotJson, read_object

# 18 decimal digits, or 15 hexadecimal ones, always fit into 64 bits. A longer number is no length, stamp or generation.
_DECIMAL: Final = re.compile(r"[0-9]{1,18}")
_LONG_DECIMAL: Final = re.compile(r"[0-9]{1,38}")
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{1,15}")
_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]{0,59}|[0-9]{3}")
_DIGITS_IN_CODE_MAX: Final = 3


def decimal(text: str | bytes, *, most: int | None = None) -> int | None:
    """A number of ASCII digits alone, at most 18 of them; None for anything else.

    most: for a field that holds more than 18 digits, at most 38 of them: the largest number that it may have.
    """
    plain = _plain(text)
    if most is None:
        return int(plain) if _DECIMAL.fullmatch(plain) else None
    found = int(plain) if _LONG_DECIMAL.fullmatch(plain) else None
    return found if found is not None and found <= most else None


def hexadecimal(text: str | bytes) -> int | None:
    """A number of hexadecimal digits alone, at most 15 of them; None for anything else."""
    plain = _plain(text)
    return int(plain, 16) if _HEXADECIMAL.fullmatch(plain) else None


def is_whole_range(content_range: str) -> bool:
    """True for a `Content-Range` that has all bytes of the object: `bytes 0-9/10`."""
    found = _RANGE.fullmatch(content_range.strip())
    return found is not None and int(found[1]) == 0 and int(found[2]) + 1 == int(found[3])


def code_word(text: str) -> str:
    """A server's error code if it has the form of one, else "".

    Codes are printed, and a server may put anything in their place, such as a token that a request carried. A code is
    one word of letters, digits and dots with hardly any digit, or a status.
    """
    word = text.strip()
    if not _CODE.fullmatch(word) or sum(each.isdigit() for each in word) > _DIGITS_IN_CODE_MAX:
        return ""
    return word


def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body holds as JSON; {} for no body, for anything else, and for what is nested without end."""
    try:
        return read_object(body or b"{}")
    except NotJson:
        return {}


def is_json_object(body: bytes) -> bool:
    """True for a body that is an object of JSON. An empty body is none."""
    try:
        read_object(body)
    except NotJson:
        return False
    return True


def _plain(text: str | bytes) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else text
