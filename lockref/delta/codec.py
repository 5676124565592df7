"""A lease's record as bytes, and back: one reader for every place, with the place's own notation of an attribute."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lockref.delta.record import (
    DATA,
    DURATION,
    GENERATION,
    INCARNATION,
    KNOWN,
    MARK,
    NOT_ACQUIRABLE,
    OWNER,
    PROCESS,
    RELEASED,
    VERSION,
    LeaseItem,
)  # fmt: skip
from lockref.errors import CorruptRecord
from lockref.grammar import decimal
from lockref.provider import LockView
from lockref.runtime import NS_PER_S, WallNs
from lockref.strict_json import NotJson, read_object

_TOKEN_MAX: Final = 2**62
"""A history keeps tokens in 64 bits, with a sign."""

_DURATION_S_MAX: Final = 10 * 365 * 24 * 3600
"""Ten years: more is an instant, and no duration."""

_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)

_INSTANT_S_MAX: Final = 10**18 - 1
"""An epoch second of more digits is damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """The notation of one place for the value of an attribute.

    place, form: what errors call the place and its bytes. text, number: write a value.
    text_in: the text in a value; None where there is none. number_in: the whole number in it, from 0 to the bound that
    is given; None where there is none. text_name, number_name: what errors say was expected.
    """

    place: str
    form: str
    text: Callable[[str], Any]
    number: Callable[[int], Any]
    text_in: Callable[[Any], str | None]
    number_in: Callable[[Any, int], int | None]
    text_name: str
    number_name: str


class _Unfit(ValueError):
    """A body that is no record. The text begins with a verb; whoever knows the name of the record puts that before."""


@dataclass(frozen=True, slots=True, eq=False)
class LeaseCodec:
    """Reads and writes the record in one notation. Each place has one codec, so codecs are compared as objects."""

    notation: Notation

    def attributes(self, record: LeaseItem) -> dict[str, Any]:
        """The record's attributes, without the key of the place."""
        text, number = self.notation.text, self.notation.number
        item = {**record.others, OWNER: text(record.name), VERSION: text(record.nonce)}
        assert record.duration_s is not None, "a record that we write tells a duration"
        item[DURATION] = text(str(record.duration_s))
        for attribute, value in ((GENERATION, record.token), (MARK, record.mark)):
            if value is not None:
                item[attribute] = number(value)
        for attribute, words in (
            (DATA, record.data),
            (INCARNATION, record.incarnation or None),
            (PROCESS, record.process or None),
        ):
            if words is not None:
                item[attribute] = text(words)
        if record.is_released:
            item[RELEASED] = text("1")
        return item

    def serialize(self, record: LeaseItem) -> bytes:
        """The record as JSON, without the key of the place."""
        return _JSON.encode(self.attributes(record)).encode()

    def parse(self, body: bytes, *, where: str = "", table: str = "") -> LeaseItem:
        """Read a record.

        where, table: for the error: the record's key, and the name of its table, "" where nobody knows it.
        Raises CorruptRecord, which names place and attribute, for a record without a version or with a wrong type:
        whoever locked over it would take somebody's lease, so nobody can lock until it is repaired.
        """
        try:
            return _read(self, body)
        except _Unfit as error:
            named = f"{self.notation.place} {where}" if where else f"the {self.notation.place}"
            if table:
                named = f"{named} of table {table}"
            raise CorruptRecord(f"{named} {error} ({len(body)} bytes): nobody can lock until it is repaired") from error

    def item_of(self, body: bytes) -> LeaseItem:
        """As `parse`, and nothing is remembered. Raises _Unfit."""
        notation = self.notation
        try:
            item = read_object(body)
        except NotJson as error:
            raise _Unfit(f"is no {notation.form}") from error

        def words(attribute: str, *, is_required: bool = False) -> str | None:
            if attribute not in item and not is_required:
                return None
            found = notation.text_in(item.get(attribute))
            if found is None or (is_required and not found):
                raise _wrong(attribute, item, notation.text_name)
            return found

        def count(attribute: str) -> int | None:
            if attribute not in item:
                return None
            found = notation.number_in(item[attribute], _TOKEN_MAX)
            if found is None:
                raise _wrong(attribute, item, notation.number_name)
            return found

        name, nonce = words(OWNER, is_required=True) or "", words(VERSION, is_required=True) or ""
        duration_s, ends_s = self._lease_s(item)
        return LeaseItem(
            name=name,
            nonce=nonce,
            duration_s=duration_s,
            ends_s=ends_s,
            incarnation=words(INCARNATION) or "",
            process=words(PROCESS) or "",
            token=count(GENERATION),
            mark=count(MARK),
            is_released=RELEASED in item,
            is_acquirable=NOT_ACQUIRABLE not in item,
            data=words(DATA),
            others={name: value for name, value in item.items() if name not in KNOWN},
        )

    def _lease_s(self, item: dict[str, Any]) -> tuple[int | None, int | None]:
        """The duration in seconds and None; or None and the epoch second at which the lease ends, as 0.6 writes it."""
        value = item.get(DURATION)
        told = self.notation.text_in(value)
        duration_s = None if told is None else decimal(told)
        if duration_s is not None and duration_s <= _DURATION_S_MAX:
            return duration_s, None
        ends_s = self.notation.number_in(value, _INSTANT_S_MAX)
        if ends_s is None:
            raise _wrong(DURATION, item, f"whole seconds as {self.notation.text_name}")
        return None, ends_s

    def decode_state(self, key: str, body: bytes) -> list[LockView]:
        """The lock that a record describes, for the checks; an empty list if the body is no record.

        A `StateDecoder`.
        """
        try:
            record = self.parse(body, where=key)
        except CorruptRecord:
            return []
        return [
            LockView(
                owner=record.owner,
                token=record.token,
                valid_until_ns=None if record.ends_s is None else WallNs(record.ends_s * NS_PER_S),
                duration_ns=None if record.duration_s is None else record.duration_s * NS_PER_S,
                is_released=record.is_released,
                nonce=record.nonce,
            )
        ]


@lru_cache(maxsize=64)
def _read(codec: LeaseCodec, body: bytes) -> LeaseItem:
    """The record of a body. Remembered, because a waiting client reads the same unchanged row again and again.

    Raises _Unfit.
    """
    return codec.item_of(body)


def _wrong(attribute: str, item: dict[str, Any], expected: str) -> _Unfit:
    return _Unfit(f"has {attribute} {_shown(item.get(attribute))}, expected {expected}")


def _shown(value: object) -> str:
    words = "missing" if value is None else ascii(value)
    return words if len(words) <= 60 else f"{words[:57]}..."
