"""Two builds of one lease that share an object: each tells its own name in what it makes of a record."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockref.provider import RecordView
from lockref.runtime import WallNs

_EXAMPLE = Path(__file__).parents[2] / "docs/examples/lease_lock.py"
_spec = importlib.util.spec_from_file_location("lease_lock_of_the_guide", _EXAMPLE)
assert _spec is not None
assert _spec.loader is not None
_example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_example)
LeaseLock: Any = _example.LeaseLock


def _named(name: str, body: bytes) -> RecordView | None:
    view: RecordView | None = LeaseLock.decode_record(body)
    if view is None or view.valid_until_ns is None:
        return view
    return replace(view, valid_until_ns=WallNs(view.valid_until_ns // MARK * MARK + MARKS[name]))


MARK = 1_000
MARKS = {"first": 1, "second": 2}
"""The last digits, in nanoseconds, that each build's decoder gives to the end of a record: rows show who read it."""


class First(LeaseLock):  # type: ignore[misc]
    """The lock under test."""

    record_format = "guide-lease"
    protocol = "chain"

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        return _named("first", body)


class Second(LeaseLock):  # type: ignore[misc]
    """Another build beside it."""

    record_format = "guide-lease"

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        return _named("second", body)
