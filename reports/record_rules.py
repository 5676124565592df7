"""The rules that make a record an event of a history, each with the reason that a broken rule gives.

`reports.record_tables` applies them to lines and to Parquet, in this process and in the workers of Spark. So a record
that is set aside in one of them is set aside in the other one, for the same reason.

A record with several defects is counted under the first one: the text as a whole, then the columns in the order of the
schema, and of one column its absence, its type and its value. The run comes first, so that a record that is no event
names its run where it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lockref.history import ENUM_COLUMNS, SCHEMA
from lockref.strict_json import NotJson, is_whole, read_json

REQUIRED: Final = ("run", "at_ns", "node", "kind")
LINE_BYTES_MAX: Final = 1 << 20
"""Longer lines are set aside: an event takes some hundred bytes, and a binary file has no line ends."""

RUN_MAX: Final = (1 << 40) - 1
"""The largest run number. Where histories are joined, the bits above it say which history a run is from."""

CLOCKS: Final = ("at_ns", "wall_ns", "mono_ns")
CLOCK_MIN_NS: Final = -(2**61)
CLOCK_MAX_NS: Final = 2**62 - 1
"""What a clock may show, the years 1896 to 2116 on a wall: differences and deadlines then fit into 64 bits."""

INT64: Final = range(-(2**63), 2**63)

WHOLE_NUMBER: Final = "^-?[0-9]{1,19}$"
"""A whole number as text, for Parquet that keeps numbers as text: a pattern that Python, Arrow and Spark read alike."""

NOT_JSON: Final = "not JSON"
NOT_AN_OBJECT: Final = "not a JSON object"
NO_ROW_IN_RUNS: Final = "its run has no row in runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the history, and what its values may be.

    is_integer: whole numbers, from `allowed`; else text. words: the only texts that may stand there; None for any.
    """

    name: str
    is_integer: bool
    is_required: bool
    allowed: range
    words: frozenset[str] | None

    @property
    def default(self) -> str | None:
        """The value of a record that says nothing here. An event without an operation or an outcome has none."""
        return "none" if self.words is not None and not self.is_required else None

    @property
    def absent(self) -> str:
        """The reason where a record must say something and does not."""
        return f"no {self.name}"

    @property
    def wrong_type(self) -> str:
        if self.words is not None:
            return self.wrong_value
        return f"{self.name} is not {'a 64-bit integer' if self.is_integer else 'text'}"

    @property
    def wrong_value(self) -> str:
        return f"unknown {self.name}" if self.words is not None else f"{self.name} is out of range"


def _column(field: pa.Field) -> Column:
    name = field.name
    allowed = INT64
    if name == "run":
        allowed = range(RUN_MAX + 1)
    elif name in CLOCKS:
        allowed = range(CLOCK_MIN_NS, CLOCK_MAX_NS + 1)
    members = ENUM_COLUMNS.get(name)
    return Column(
        name=name,
        is_integer=pa.types.is_integer(field.type),
        is_required=name in REQUIRED,
        allowed=allowed,
        words=None if members is None else frozenset(member.name.lower() for member in members),
    )


COLUMNS: Final = tuple(_column(field) for field in SCHEMA)
"""Every column in the order of the schema."""
RUN, *_ = COLUMNS
assert RUN.name == "run", "a record must name its run before anything else can be wrong with it"

NAMELESS: Final = frozenset((NOT_JSON, NOT_AN_OBJECT, RUN.absent, RUN.wrong_type, RUN.wrong_value))
"""Reasons of records whose run is unknown: they may belong to any run of their history."""


def read_record(line: bytes) -> tuple[dict[str, Any], str]:
    """An event with every column and ""; or the columns that could be read, the run first, and why it is no event."""
    try:
        said = read_json(line)
    except NotJson:
        return {}, NOT_JSON
    if not isinstance(said, dict):
        return {}, NOT_AN_OBJECT
    event: dict[str, Any] = {}
    for column in COLUMNS:
        name, value = column.name, said.get(column.name)
        if value is None:
            if column.is_required:
                return event, column.absent
            value = column.default
        elif not (is_whole(value) if column.is_integer else isinstance(value, str)):
            return event, column.wrong_type
        elif value not in (column.allowed if column.is_integer else column.words or (value,)):
            return event, column.wrong_value
        event[name] = value
    return event, ""


_COLUMN_OF_REASON: Final = {
    reason: column.name for column in COLUMNS for reason in (column.absent, column.wrong_type, column.wrong_value)
}


def place_in_line(line: bytes, reason: str) -> int:
    """The place in a line of the defect that `read_record` found, in characters from 1; 1 where it has none."""
    if reason == NOT_JSON:
        try:
            read_json(line)
        except NotJson as error:
            return error.column or 1
    name = _COLUMN_OF_REASON.get(reason)
    return 1 if name is None else max(0, line.decode(errors="replace").find(f'"{name}"')) + 1
