"""Is one seed one run? Run twice, compare, name the first difference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from lockref.errors import DeterminismError
from lockref.history import Recorder, to_table
from lockref.words import ABSENT


def first_difference(one: Recorder, other: Recorder) -> str | None:
    """The first event in which two runs differ, shown from both; None if they agree."""
    if one.digest() == other.digest():
        return None
    rows = (to_table([recorder]).drop_columns(["run"]).to_pylist() for recorder in (one, other))
    for number, (left, right) in enumerate(zip_longest(*rows)):
        if left != right:
            return f"event {number}: first run {_show(left)}; second run {_show(right)}"
    return "the events agree, but texts were first used in another order"


def _show(row: dict[str, Any] | None) -> str:
    if row is None:
        return "(no such event)"
    return " ".join(f"{key}={value}" for key, value in row.items() if value not in (None, ABSENT, ""))


def require_determinism(run: Callable[[], Recorder]) -> Recorder:
    """Run twice and return the record. Raises DeterminismError that names the first differing event."""
    one, other = run(), run()
    difference = first_difference(one, other)
    if difference is not None:
        raise DeterminismError(
            f"two runs of one seed differ at {difference}. Common causes: iteration over a set, id() in a key, "
            "a lock that reads time or randomness outside its Runtime, state kept between runs"
        )
    return one
