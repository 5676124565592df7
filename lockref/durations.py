"""Durations as people read them. One definition, for messages of every room.

This module needs the standard library alone, as `lockref.words` does.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_MINUTE_NS: Final = 60_000_000_000
_ZEROS: Final = re.compile(r"(\.\d*?)0+(?= )")


def duration(nanoseconds: int | float | None) -> str:
    """A duration with its unit, three significant digits: `1.23 ms`; an en dash for none."""
    if nanoseconds is None:
        return "–"
    size = abs(nanoseconds)
    if size >= 2 * _MINUTE_NS:
        return f"{nanoseconds / _MINUTE_NS:,.1f} min"
    for unit_ns, unit in _UNITS:
        # The next unit from 999.5 on, so that no figure reads 1000.
        if size >= 0.9995 * unit_ns:
            return f"{_three_digits(nanoseconds / unit_ns)} {unit}"
    return f"{nanoseconds:.0f} ns"


def plain_duration(nanoseconds: int | float) -> str:
    """`duration` without zeros at its end: `3 s`, `500 ms`. For what was set and not measured: a bound, a tick."""
    return _ZEROS.sub(lambda match: match[1].rstrip("."), duration(nanoseconds))


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"
