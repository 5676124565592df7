"""Durations for people: one definition, three significant digits."""

from __future__ import annotations

import pytest

from lockref.durations import duration, plain_duration


@pytest.mark.parametrize(
    ("nanoseconds", "measured", "was_set"),
    [
        (0, "0 ns", "0 ns"),
        (999, "999 ns", "999 ns"),
        (100_000, "100 µs", "100 µs"),
        (500_000_000, "500 ms", "500 ms"),
        (999_600_000, "1.00 s", "1 s"),
        (1_020_000_000, "1.02 s", "1.02 s"),
        (3_000_000_000, "3.00 s", "3 s"),
        (13_000_000_000, "13.0 s", "13 s"),
        (100_000_000_000, "100 s", "100 s"),
        (120_000_000_000, "2.0 min", "2 min"),
        (6_000_000_000_000, "100.0 min", "100 min"),
    ],
)
def test_a_duration_has_one_text(nanoseconds: int, measured: str, was_set: str) -> None:
    """What was measured shows how exactly; what was set has no zeros. Four functions differed near 1 s and 2 min."""
    assert (duration(nanoseconds), plain_duration(nanoseconds)) == (measured, was_set)
