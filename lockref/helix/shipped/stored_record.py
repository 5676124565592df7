"""The form in which Helix' client reads and writes a record, byte for byte: `ZNRecord` under Jackson.

`lockref.helix.records.zn_record` is ours, and strict. This one takes what Jackson takes, for the lock's mistakes begin
here: what cannot be parsed is read as nothing at all (HJ1), an unknown field is passed over, and a number that is none
counts as the default. What was read and is written again keeps the order of its fields, as Java's maps do.

Source: zookeeper-api 1.4.3, `ZNRecordSerializer`, `ZNRecord`; Jackson 2.12.7. Held to the original by
tests/conformance/test_helix_lock_recorded.py.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

_GZIP: Final = b"\x1f\x8b"
_NUMBER: Final = re.compile(r"[+-]?\d+")
_ESCAPE: Final = re.compile(r"\\u[0-9a-f]{4}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = " \t\r\n"


class _Malformed(ValueError):
    """Jackson would throw."""


def _no_constant(name: str) -> Any:
    raise _Malformed(f"{name} is no JSON")


# Numbers stay as they are written: Jackson makes text of a number where text is expected.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


@dataclass(slots=True)
class StoredRecord:
    """One record as Helix' client has it in memory. None in the place of a mapping: the stored one was `null`."""

    id: str | None
    simple: dict[str, str | None] | None = field(default_factory=dict)
    maps: Any = field(default_factory=dict)
    lists: Any = field(default_factory=dict)
    payload: str | None = None

    def text(self, name: str) -> str | None:
        """A simple field; None where it is absent or `null`."""
        assert self.simple is not None, "whoever asks has looked"
        return self.simple.get(name)

    def number(self, name: str, default: int, *, most: int = LONG_MAX) -> int:
        """A simple field as a whole number; the default where it is absent, no number, or beyond the type's range."""
        found = self.text(name)
        if found is None or _NUMBER.fullmatch(found) is None:
            return default
        value = int(found)
        return value if -most - 1 <= value <= most else default

    def to_json(self) -> bytes:
        """The bytes that the original writes."""
        parts: list[tuple[str, Any]] = [("id", self.id), ("simpleFields", self.simple)]
        parts += [("mapFields", self.maps), ("listFields", self.lists), ("rawPayload", self.payload)]
        return _printed({name: value for name, value in parts if value is not None}, "").encode()


def parsed(body: bytes | None) -> StoredRecord | None:
    """A znode's bytes as the original reads them. None: there is nothing, or nothing that it can read (HJ1)."""
    if not body:
        return None
    try:
        if body.startswith(_GZIP):
            body = gzip.decompress(body)
        text = body.decode("utf-8", "surrogateescape").lstrip(_SPACE)
        # Whatever follows the first value is not looked at.
        found, end = _DECODER.raw_decode(text)
        if _SURROGATE.search(text, 0, end):
            return None
        return None if found is None else _record(found)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None


def _record(found: Any) -> StoredRecord:
    if not isinstance(found, dict):
        raise _Malformed("a record is an object")
    record = StoredRecord(_text(found.get("id")))
    if "simpleFields" in found:
        record.simple = _texts(found["simpleFields"])
    if "mapFields" in found:
        record.maps = _each(found["mapFields"], _texts)
    if "listFields" in found:
        record.lists = _each(found["listFields"], _list)
    if "rawPayload" in found:
        record.payload = _text(found["rawPayload"])
    return record


def _text(value: Any) -> str | None:
    """Jackson makes text of every scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    raise _Malformed("text was expected")


def _texts(value: Any) -> Any:
    return _each(value, _text)


def _each(value: Any, read: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _Malformed("an object was expected")
    return {name: read(entry) for name, entry in value.items()}


def _list(value: Any) -> list[str | None] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _Malformed("a list was expected")
    return [_text(entry) for entry in value]


def _printed(value: Any, indent: str) -> str:
    """Jackson's default pretty printer: objects line by line, lists in one line."""
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        deeper = f"{indent}  "
        lines = [f"{deeper}{_quoted(name)} : {_printed(entry, deeper)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return "[ " + ", ".join(_printed(entry, indent) for entry in value) + " ]" if value else "[ ]"
    return "null" if value is None else _quoted(value)


def _quoted(text: str) -> str:
    """Jackson writes its hexadecimal digits in capitals."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPE.sub(lambda found: "\\u" + found.group()[2:].upper(), quoted) if "\\u" in quoted else quoted
