"""A lease's record as an item of a table: each value with its type, text (S) or number (N).

The attributes and their meaning: `lockref/delta/record.py`.
"""

from __future__ import annotations

from typing import Any, Final

from lockref.delta.codec import LeaseCodec, Notation
from lockref.dynamodb.table import number, text
from lockref.grammar import decimal


def _text_in(value: Any) -> str | None:
    found = _only(value, "S")
    return found if isinstance(found, str) else None


def _number_in(value: Any, most: int) -> int | None:
    found = _only(value, "N")
    return decimal(found, most=most) if isinstance(found, str) else None


def _only(value: Any, kind: str) -> object:
    """The value of this type, where the attribute has no other one beside it."""
    return value.get(kind) if isinstance(value, dict) and len(value) == 1 else None


CODEC: Final = LeaseCodec(
    Notation(
        place="row", form="item", text=text, number=number, text_in=_text_in, number_in=_number_in,
        text_name="text (S)", number_name="a whole number (N)",
    )
)  # fmt: skip

attributes = CODEC.attributes
serialize = CODEC.serialize
parse = CODEC.parse
decode_state = CODEC.decode_state
