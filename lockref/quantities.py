"""Quantities with a unit: how the text `250ms` becomes a whole number of nanoseconds.

A bare number is refused, because nobody can tell whether 300 is seconds or milliseconds.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from lockref.errors import quote

NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
DURATION_NS_MAX = 366 * 24 * NS_PER_UNIT["h"]
"""A year: beyond it a quantity is a slip of the pen, and sums could leave 64 bits."""

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-zµ%]*)", re.ASCII)


def split_quantity(text: object, expected: str) -> tuple[Decimal, str]:
    """A quantity as its number and its unit, which may be "". Raises ValueError that names what was expected."""
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) and len(text) <= 64 else None
    if match is None:
        raise ValueError(f"is {quote(text)}; expected {expected}")
    try:
        return Decimal(match[1]), match[2]
    except InvalidOperation as error:
        raise ValueError(f"is {quote(text)}; expected {expected}") from error


def duration_ns(text: object) -> int:
    """`10s`, `250ms`, `-1.5s` to nanoseconds."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        raise ValueError(f"is {text}, without a unit; write {text}s or {text}ms")
    number, unit = split_quantity(text, "a duration such as 10s, 250ms or -1.5s")
    if unit not in NS_PER_UNIT:
        if number == 0 and not unit:
            return 0
        known = ", ".join(NS_PER_UNIT)
        raise ValueError(f"is {quote(text)}, {f'with unit {unit!r}' if unit else 'without a unit'}; expected {known}")
    exact = number * NS_PER_UNIT[unit]
    if abs(exact) > DURATION_NS_MAX:
        raise ValueError(f"is {quote(text)}; durations above a year are refused")
    if exact != int(exact):
        raise ValueError(f"is {quote(text)}; finer than a nanosecond")
    return int(exact)
