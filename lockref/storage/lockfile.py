"""The RFC-91 lock object: its bytes, and what may be read from them.

Hudi writes `{"expired":…,"validUntil":…,"owner":…}`, compact, in this order;
`serialize` gives the same bytes. Reading is where implementations drift apart,
so there are two readers: `parse_strictly_as_hudi` accepts exactly what Hudi's
Jackson accepts, quirks included, and `parse` accepts that, reads the field
name of the RFC text (`expiration`), and knows our three extra fields. Hudi
ignores extra fields and drops them with every write of its own (H21).

Source: RFC-91 "Lock file"; Hudi 1.2.0 `StorageLockFile`, `StorageLockData`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from lockref.errors import CorruptRecord
from lockref.provider import RecordView
from lockref.runtime import NS_PER_MS, WallNs

BODY_BYTES_MAX: Final = 64 * 1024
"""Larger bodies are refused unread: a lock object has about a hundred bytes."""

OPENINGS_MAX: Final = 200
"""More opening brackets than this are refused unread, so that nesting cannot exhaust the stack."""

NOT_A_RECORD: Final = "Failed to deserialize JSON content into StorageLockData"
NULL_RECORD: Final = "Data must not be null."

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_IN_UTF16 = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_JAVA_TRIM = "".join(map(chr, range(0x21)))
_JSON_SPACE = " \t\r\n"
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord("\b"): "\\b", ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r",
    ord('"'): '\\"', ord("\\"): "\\\\",
}  # fmt: skip

# The shortcut for nearly every record there is. `serialize` and Hudi write plain ASCII without spaces, in one order
# of fields. What has that form means the same to every JSON reader; all else goes through the decoder. An opening
# bracket inside a text is not plain, because OPENINGS_MAX counts it. Possessive (`*+`, `?+`): nothing that one part has
# matched could be matched by the next, and not to keep the places to which a search could go back saves a third.
_PLAIN_TEXT = re.compile(r"[ !#-Z\]-z|-~]*")
_PLAIN_RECORD = re.compile(
    rb'\{"expired":(true|false),"validUntil":(0|[1-9]\d{0,17}+),"owner":"([ !#-Z\]-z|-~]*+)"'
    rb'(?:,"nonce":"([ !#-Z\]-z|-~]*+)")?+(?:,"fence":(0|[1-9]\d{0,17}+))?+(?:,"fenceMark":(0|[1-9]\d{0,17}+))?+\}'
)


# Not frozen: a frozen dataclass takes four times as long to make, and each request makes one. Nobody changes it.
@dataclass(slots=True, unsafe_hash=True)
class _Content:
    """The fields of a `LockFile`."""

    owner: str | None
    valid_until_ms: int
    expired: bool
    nonce: str | None = None
    fence: int | None = None
    mark: int | None = None


class LockFile(_Content):
    """The content of a lock object.

    owner: who wrote it last; Hudi accepts null.
    valid_until_ms: wall time of the writer, epoch milliseconds. A release leaves it unchanged.
    expired: released; time plays no part any more.
    nonce: tells two writes of one owner apart (H22). Absent in Hudi's records.
    fence: fencing token, non-negative (H21). Absent in Hudi's records.
    mark: the number up to which tokens were reserved when this was written, see `fence.py`. Absent in Hudi's records.
    """

    __slots__ = ()

    # The names by which a lease knows a record, whatever its format (`lockref.locks.values.Record`). Two are second
    # names of slots: a property would be a call, and a lease asks for them a hundred times in a few cycles.
    token: int | None = vars(_Content)["fence"]
    is_released: bool = vars(_Content)["expired"]

    @property
    def expiry_ns(self) -> int:
        return self.valid_until_ms * NS_PER_MS

    def freed(self, nonce: str) -> LockFile:
        """The record that gives this one back: same owner, validUntil and token, as in Hudi (H21)."""
        return LockFile(self.owner, self.valid_until_ms, True, nonce, self.fence, self.mark)


def owner_id(entropy: bytes) -> str:
    """An owner as Hudi writes it: the usual form of a random UUID (version 4), from 16 random bytes (H22)."""
    number = bytearray(entropy)
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class _Unreadable(ValueError):
    """Why a body is no record; becomes the CorruptRecord that names the object."""


class _Integer(str):
    """An integer literal, unconverted: an owner may be one, and then keeps its spelling."""


class _Decimal(str):
    """A literal with fraction or exponent, unconverted."""


_Value = str | bool | list[object] | tuple[object, ...] | None
"""A JSON value; objects are tuples of pairs, so that duplicate keys survive."""


def _no_constant(name: str) -> object:
    raise _Unreadable(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Integer, parse_float=_Decimal, parse_constant=_no_constant
)


def _utf16_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))


def _json_text(text: str) -> str:
    """Quoted as Jackson does it: non-ASCII left alone up to U+FFFF, hexadecimal digits in capitals."""
    # Letters and digits alone, as in every nonce, are seen at once.
    if text.isascii() and text.isalnum():
        return f'"{text}"'
    return _other_json_text(text)


@lru_cache(maxsize=64)
def _other_json_text(text: str) -> str:
    """As `_json_text`, remembered, because an owner writes its name again and again."""
    if _PLAIN_TEXT.fullmatch(text):
        return f'"{text}"'
    return f'"{_SURROGATE_IN_UTF16.sub(_utf16_escape, text.translate(_ESCAPES))}"'


def serialize(record: LockFile) -> bytes:
    """The bytes of `record`; byte for byte Hudi's while nonce and fence are None."""
    text = (
        f'{{"expired":{"true" if record.expired else "false"},"validUntil":{record.valid_until_ms}'
        f',"owner":{"null" if record.owner is None else _json_text(record.owner)}'
    )
    if record.nonce is not None:
        text += f',"nonce":{_json_text(record.nonce)}'
    if record.fence is not None:
        text += f',"fence":{record.fence}'
    if record.mark is not None:
        text += f',"fenceMark":{record.mark}'
    return (text + "}").encode()


def _first_value(body: bytes) -> _Value:
    """The first JSON value; Jackson stops there, so what follows is never looked at."""
    if len(body) > BODY_BYTES_MAX:
        raise _Unreadable(f"{len(body)} bytes, more than {BODY_BYTES_MAX}")
    if body.count(b"{") + body.count(b"[") > OPENINGS_MAX:
        raise _Unreadable(f"more than {OPENINGS_MAX} opening brackets")
    encoding = json.detect_encoding(body)
    # Damage after the value must not matter, so bad bytes pass here and are
    # looked for below, in the part that was consumed.
    text = body.decode(encoding, "surrogateescape" if encoding.startswith("utf-8") else "replace")
    text = text.lstrip(_JSON_SPACE)
    value, end = _DECODER.raw_decode(text)
    if _SURROGATE.search(text, 0, end):
        raise _Unreadable("not UTF-8")
    if value is None and text[end : end + 1].isidentifier():
        raise _Unreadable("an unknown word")
    checked: _Value = value
    return checked


def _as_bool(value: _Value) -> bool:
    match value:
        case bool():
            return value
        case _Decimal():
            raise _Unreadable(f"expired is {value}")
        case _Integer():
            return int(value) != 0
        case str():
            word = value.strip(_JAVA_TRIM)
            if word in ("true", "True", "TRUE"):
                return True
            if word in ("false", "False", "FALSE"):
                return False
    raise _Unreadable("expired is neither true nor false")


def _as_long(value: _Value, name: str) -> int:
    match value:
        case _Decimal():
            number = float(value)
            if _LONG_MIN <= number <= float(2**63):
                # As a Java cast does it: towards zero, and 2^63 becomes 2^63-1.
                return min(int(number), _LONG_MAX)
        case str() if _INTEGER.fullmatch(text := value if isinstance(value, _Integer) else value.strip(_JAVA_TRIM)):
            whole = int(text)
            if _LONG_MIN <= whole <= _LONG_MAX:
                return whole
    raise _Unreadable(f"{name} is not a number of milliseconds")


def _as_text(value: _Value) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
    raise _Unreadable("owner is an object or a list")


def _as_instant_ms(value: _Value) -> int:
    """`expiration` of the RFC text, a "UTC timestamp": epoch milliseconds, or ISO 8601 (UTC if it names no zone)."""
    text = value.strip(_JAVA_TRIM) if isinstance(value, str) and not isinstance(value, _Decimal) else None
    # Digits alone are milliseconds, though ISO 8601 would read eight of them as a date.
    if text is not None and not _INTEGER.fullmatch(text):
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        return round((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    return _as_long(value, "expiration")


def _as_fence(value: _Value, name: str) -> int:
    if not isinstance(value, _Integer):
        raise _Unreadable(f"{name} is not an integer")
    fence = _as_long(value, name)
    if fence < 0:
        raise _Unreadable(f"{name} is negative: {fence}")
    return fence


def _as_nonce(value: _Value) -> str:
    if not isinstance(value, str) or isinstance(value, _Integer | _Decimal):
        raise _Unreadable("nonce is not text")
    return value


def _pairs(value: _Value) -> tuple[tuple[str, _Value], ...]:
    if not isinstance(value, tuple):
        raise _Unreadable("not a JSON object")
    return value  # type: ignore[return-value]  # the decoder's hook makes tuples of pairs only


def _of_plain(plain: re.Match[bytes], *, is_lenient: bool) -> LockFile:
    """The record of a body that has the plain form. Hudi's reader does not look at our three extra fields."""
    expired, valid_until_ms, owner, nonce, fence, mark = plain.groups()
    if not is_lenient:
        return LockFile(owner.decode(), int(valid_until_ms), expired == b"true")
    return LockFile(
        owner.decode(),
        int(valid_until_ms),
        expired == b"true",
        None if nonce is None else nonce.decode(),
        None if fence is None else int(fence),
        None if mark is None else int(mark),
    )


@lru_cache(maxsize=64)
def _read(body: bytes, is_lenient: bool) -> LockFile:
    """Remembered, because a waiting client reads the same unchanged object again and again.

    Called by position, which makes the key of what is remembered in a third of the time.
    Raises _Unreadable, and other ValueErrors of the JSON decoder.
    """
    plain = _PLAIN_RECORD.fullmatch(body)
    if plain is not None and len(body) <= BODY_BYTES_MAX:
        return _of_plain(plain, is_lenient=is_lenient)
    return _of_json(body, is_lenient=is_lenient)


def _of_json(body: bytes, *, is_lenient: bool) -> LockFile:
    """Fields in the order of the text: each occurrence must be sound, the last one counts."""
    expired: bool | None = None
    valid_until_ms: int | None = None
    expiration_ms: int | None = None
    owner: str | None = None
    has_owner = False
    nonce: str | None = None
    fence: int | None = None
    mark: int | None = None
    value = _first_value(body)
    if value is None:
        raise _Unreadable(NULL_RECORD)
    for name, field in _pairs(value):
        match name:
            case "expired":
                expired = _as_bool(field)
            case "validUntil":
                valid_until_ms = _as_long(field, name)
            case "owner":
                owner, has_owner = _as_text(field), True
            case "expiration" if is_lenient:
                expiration_ms = _as_instant_ms(field)
            case "nonce" if is_lenient:
                nonce = _as_nonce(field)
            case "fence" if is_lenient:
                fence = _as_fence(field, name)
            case "fenceMark" if is_lenient:
                mark = _as_fence(field, name)
    if valid_until_ms is None:
        valid_until_ms = expiration_ms
    if expired is None or valid_until_ms is None or not has_owner:
        raise _Unreadable("expired, validUntil or owner is missing")
    if is_lenient and (_SURROGATE.search(owner or "") or _SURROGATE.search(nonce or "")):
        # Hudi keeps half a character as owner; no history or log can hold one.
        raise _Unreadable("owner or nonce is not Unicode text")
    return LockFile(owner, valid_until_ms, expired, nonce, fence, mark)


def parse(body: bytes, *, where: str = "the lock object") -> LockFile:
    """Read a lock object as Hudi does, and the RFC text's `expiration`, and our nonce, fence and mark.

    where: names the object in the error.
    Raises CorruptRecord for everything else. Two things that Hudi would accept
    are refused: a `nonce`, `fence` or `fenceMark` of the wrong type, and an owner that is
    not Unicode text.
    """
    try:
        return _read(body, True)
    except ValueError as error:
        raise CorruptRecord(
            f"reading {where} found no lock record ({error}; {len(body)} bytes): nobody can lock until it is repaired"
        ) from error


def parse_strictly_as_hudi(body: bytes, *, where: str = "the lock object") -> LockFile:
    """Read a lock object exactly as Hudi 1.2.0 does; extra fields are ignored.

    Raises CorruptRecord with Hudi's own words. Known differences: bodies beyond
    BODY_BYTES_MAX or OPENINGS_MAX are refused, and so is ill-formed UTF-8 that
    Jackson lets through (overlong forms, encoded surrogates).
    """
    try:
        return _read(body, False)
    except ValueError as error:
        words = NULL_RECORD if str(error) == NULL_RECORD else f"{NOT_A_RECORD} ({error})"
        raise CorruptRecord(f"reading {where}: {words}") from error


def decode(body: bytes) -> RecordView | None:
    """A lock object as the checks see it; None for a body that is no lock record."""
    try:
        record = _read(body, True)
    except ValueError:
        return None
    # A nonsense time may exceed what a history column holds; the sign is what matters then.
    valid_until_ns = record.valid_until_ms * NS_PER_MS
    if not -_LONG_MAX <= valid_until_ns <= _LONG_MAX:
        valid_until_ns = _LONG_MAX if valid_until_ns > 0 else -_LONG_MAX
    return RecordView(record.owner or "", record.fence, WallNs(valid_until_ns), record.expired, record.nonce)
