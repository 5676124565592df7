"""JSON that somebody else wrote: an object in a store, a znode, a row, a file, an answer of a server.

`json.loads` is no parser for such text. It takes `NaN` and `Infinity`, which are not JSON, and makes an infinity of
`1e999`. It ends in a RecursionError for deep nesting, at a depth that depends on who calls it. It lets half a character
(`"\\ud800"`) through, which breaks whoever writes the text out later. All of that is refused here by one error, which
is a ValueError and names the place. `tests/quality/test_strict_readers.py` finds every other reader.

Source: RFC 8259; sections 4 (names), 6 (numbers), 8.2 (characters), 9 (a parser may limit the depth).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from lockref.errors import quote

LEVELS_MAX: Final = 128
"""The deepest nesting that is read. Nothing that lockref, Hudi, Delta or Helix writes has more than 10 levels."""

_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_NOT_PLAIN: Final = re.compile(r"[^\n -~]")
_COMMAND: Final = re.compile(r"##(\w*\[)")
"""GitHub, Azure and TeamCity read `##[`, `##vso[` and `##teamcity[` anywhere in a line."""


class NotJson(ValueError):
    """Text that is no JSON, or none that lockref reads. line, column: the place, from 1; None where it has none."""

    def __init__(self, what: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(what if line is None else f"{what}, at line {line}, column {column}")
        self.what = what
        self.line = line
        self.column = column


def read_json(text: str | bytes, *, unique_names: bool = False, half_characters: bool = False) -> Any:
    """The value that a text stands for. Bytes are UTF-8; a byte order mark at the head is skipped.

    unique_names: refuse an object that has a name twice. For formats of our own; other readers take the last one.
    half_characters: let them through, for a reader that has room for them. Raises NotJson.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotJson(f"no UTF-8 at byte {error.start}") from None
    elif not text.isascii():
        _expect_characters(text)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if text.count("[") + text.count("{") > LEVELS_MAX:
        _expect_shallow(text)
    decoder = _UNIQUE if unique_names else _PLAIN
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, line=error.lineno, column=error.colno) from None
    except RecursionError:
        # The caller's own stack is nearly full.
        raise NotJson("nested too deep") from None
    except NotJson:
        raise
    except ValueError as error:
        # Python's bound on the digits of a whole number.
        raise NotJson(str(error).partition(";")[0]) from None
    if not half_characters and _HALF_CHARACTER.search(text):
        _expect_characters(value)
    return value


def read_object(text: str | bytes, *, unique_names: bool = False) -> dict[str, Any]:
    """The same for a text that must be one JSON object. Raises NotJson."""
    value = read_json(text, unique_names=unique_names)
    if not isinstance(value, dict):
        raise NotJson(f"no JSON object, but {quote(value)}")
    return value


def printable_json(text: str) -> str:
    """A JSON text that means the same and may be shown on a terminal or in the log of a CI system.

    Escapes stand for what is invisible, and for the second `#` of `##[`, which begins a command to such a system. Both
    occur inside strings only, so `text` must be JSON.
    """
    return _COMMAND.sub(r"#\\u0023\1", _NOT_PLAIN.sub(_escaped, text))


def _escaped(character: re.Match[str]) -> str:
    if character[0].isprintable():
        return character[0]
    units = character[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def is_whole(value: object, *, least: int = -(2**63), most: int = 2**63 - 1) -> TypeGuard[int]:
    """Is this value of a document a whole number that 64 bits hold? True and 1.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole_number(value: object, *, least: int, most: int) -> int:
    """A number of a JSON document that must be a whole one in this range. Raises ValueError, also for true and 1.0."""
    if not is_whole(value, least=least, most=most):
        raise ValueError(f"{quote(value)} is no whole number from {least} to {most}")
    return value


def _expect_shallow(text: str) -> None:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = found[0][0]
        if first in "[{":
            depth += 1
            if depth > LEVELS_MAX:
                at = found.start()
                line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
                raise NotJson(f"nested deeper than {LEVELS_MAX} levels", line=line, column=column)
        elif first in "]}":
            depth -= 1


def _expect_characters(value: object) -> None:
    """Raise NotJson for half a character anywhere."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise NotJson("half a character (a surrogate without its other half)") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson(f"the number {quote(text)} is too large")
    return number


def _no_constant(name: str) -> object:
    raise NotJson(f"{name} is not JSON")


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise NotJson(f"the name {quote(next(name for name in names if names.count(name) > 1))} stands twice")
    return found


_PLAIN: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
_UNIQUE: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_once_each)
