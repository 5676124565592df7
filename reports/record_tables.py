"""Records as tables: which rows of a Parquet table, and which JSON lines, are events, and why the others are none.

Every reader of a history stands on these two functions: the one of a whole history in this process
(`reports.history_files`), and the one of a share of it in a worker (`reports.pipeline.share_reading`). What is asked
of a column is in `reports.record_rules`. No event is repaired, and none is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import SCHEMA
from reports.record_rules import (
    COLUMNS,
    INT64,
    LINE_BYTES_MAX,
    NO_ROW_IN_RUNS,
    RUN,
    WHOLE_NUMBER,
    Column,
    place_in_line,
    read_record,
)

Flags: TypeAlias = npt.NDArray[np.bool_]

LOST: Final = pa.schema(
    [
        ("run", pa.int64()),
        ("reason", pa.string()),
        ("row", pa.int64()),
        ("column", pa.string()),
        ("record", pa.string()),
    ]
)
"""A record that is no event. run: null where it names none. row: its line or row, from 1. column: where in the line,
from 1, or the name of the column. record: the line, or the row as JSON, where the caller asked for it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The records of one table or text. events: of `SCHEMA`, but `seq` may be null. lost: of `LOST`."""

    events: pa.Table
    lost: pa.Table


def check_table(
    table: pa.Table,
    described: pa.Array | None,
    *,
    rows: npt.NDArray[np.int64] | None = None,
    with_records: bool = False,
) -> Checked:
    """The rows of a table of whatever columns; a column that is missing is null in every row.

    described: the numbers of the runs that have a row in runs; None where there is no such table.
    rows: the number of each row in its file, from 1, if it is not that in the table. with_records: keep lost records.
    """
    read = [_read_column(column, table) for column in COLUMNS]
    runs, no_run = read[0]
    is_bad = np.zeros(len(table), dtype=np.bool_)
    found: list[tuple[str, str, Flags]] = []
    for column, (values, wrong_type) in zip(COLUMNS, read, strict=True):
        for reason, wrong in _wrong_rows(column, values, wrong_type):
            lost = wrong & ~is_bad
            if lost.any():
                found.append((reason, column.name, lost))
            is_bad |= wrong
    if described is not None:
        unknown = ~flags(pc.is_in(runs, value_set=described)) & ~is_bad
        if unknown.any():
            found.append((NO_ROW_IN_RUNS, RUN.name, unknown))
            is_bad |= unknown
    events = pa.table([values for values, _ in read], names=SCHEMA.names)
    if not found:
        return Checked(events, LOST.empty_table())
    is_nameless = no_run | flags(pc.is_null(runs)) | _out_of_range(RUN, runs)
    parts = []
    for reason, name, lost in found:
        places = np.flatnonzero(lost)
        records = [json.dumps(row, default=str) for row in _told(table, places)] if with_records else None
        parts.append(
            pa.table(
                [
                    pc.if_else(pa.array(is_nameless[lost]), pa.scalar(None, pa.int64()), runs.filter(pa.array(lost))),
                    pa.repeat(pa.scalar(reason), len(places)),
                    pa.array(places + 1 if rows is None else rows[places]),
                    pa.repeat(pa.scalar(name), len(places)),
                    pa.array(records, pa.string()) if records is not None else pa.nulls(len(places), pa.string()),
                ],
                schema=LOST,
            )
        )
    return Checked(events.filter(pa.array(~is_bad)), pa.concat_tables(parts))


def _told(table: pa.Table, places: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    known = table.select([name for name in SCHEMA.names if name in table.column_names])
    rows: list[dict[str, Any]] = known.take(pa.array(places)).to_pylist()
    return rows


@dataclass(frozen=True, slots=True)
class CheckedLines(Checked):
    """The records of JSON lines. rows: the line of each event.

    last_run: that of the last event, described or not; None where there is no event.
    torn: the last line where it has no end and is no event, since its writer died over it. It is neither event nor
    lost: it is lost only if there is no event before it, which the reader of the whole file knows.
    """

    rows: list[int]
    last_run: int | None
    torn: TornLine | None


def check_lines(
    lines: Iterable[bytes], described: frozenset[int] | None, *, first_line: int = 1, with_records: bool = False
) -> CheckedLines:
    """The records of JSON lines, of which none is longer than `LINE_BYTES_MAX`; blank lines are no records.

    described, with_records: as in `check_table`. first_line: the number of the first of these lines in its file.
    """
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    lost: list[tuple[int | None, str, int, str, str | None]] = []
    rows: list[int] = []
    torn: TornLine | None = None
    last_run: int | None = None
    number = first_line
    for line in lines:
        here, number = number, number + line.endswith(b"\n")
        if not line.strip():
            continue
        event, problem = read_record(line)
        if not problem:
            last_run = event["run"]
            if described is not None and last_run not in described:
                problem = NO_ROW_IN_RUNS
        if problem:
            column = str(place_in_line(line, problem))
            if not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX and problem != NO_ROW_IN_RUNS:
                torn = TornLine(event.get("run"), problem, here, column, line.decode(errors="replace"))
            else:
                text = line.rstrip(b"\n").decode(errors="replace") if with_records else None
                lost.append((event.get("run"), problem, here, column, text))
            continue
        rows.append(here)
        for name, values in columns.items():
            values.append(event[name])
    arrays = []
    for wanted in SCHEMA:
        is_text = pa.types.is_dictionary(wanted.type)
        array = pa.array(columns[wanted.name], pa.string() if is_text else wanted.type)
        arrays.append(array.dictionary_encode() if is_text else array)
    events = pa.table(arrays, names=SCHEMA.names)
    return CheckedLines(events, lost_table(lost), rows, last_run, torn)


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, the last one perhaps without its end. A longer one than `LINE_BYTES_MAX` comes in pieces."""
    while line := file.readline(LINE_BYTES_MAX):
        yield line


def lost_table(rows: Iterable[tuple[int | None, str, int, str, str | None]]) -> pa.Table:
    """A table of `LOST` from its rows."""
    return pa.Table.from_pylist([dict(zip(LOST.names, row, strict=True)) for row in rows], LOST)


@dataclass(frozen=True, slots=True)
class TornLine:
    """A last line without an end that is no event. The fields are those of `LOST`."""

    run: int | None
    reason: str
    row: int
    column: str
    record: str

    @property
    def lost(self) -> pa.Table:
        """The line as a lost record, where nothing stands before it that it could have cut off."""
        return lost_table([(self.run, self.reason, self.row, self.column, self.record)])


def integers_of(column: Column, table: pa.Table) -> pa.ChunkedArray:
    """A column of whole numbers; null in rows that say nothing there, or nothing that the history can hold."""
    values, _ = _read_column(column, table)
    in_range = pa.array(~_out_of_range(column, values))
    return pc.if_else(in_range, values, pa.scalar(None, pa.int64()))


def _read_column(column: Column, table: pa.Table) -> tuple[pa.ChunkedArray, Flags]:
    """A column in the schema's type, null where the record says nothing it can hold; and the rows of another type."""
    wanted = SCHEMA.field(column.name)
    if column.name not in table.column_names or pa.types.is_null(table[column.name].type):
        plain = pa.int64() if column.is_integer else pa.string()
        values, wrong = pa.chunked_array([pa.nulls(len(table), plain)]), np.zeros(len(table), dtype=np.bool_)
    else:
        values, wrong = (_integers if column.is_integer else _texts)(table[column.name])
    if column.default is not None and values.null_count:
        values = pc.fill_null(values.cast(pa.string()), column.default)
    if not column.is_integer and not pa.types.is_dictionary(values.type):
        values = pc.dictionary_encode(values)
    return values.cast(wanted.type), wrong


def _integers(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Flags]:
    """The whole numbers of a column, null where there is none, and where there is something else.

    Other writers keep numbers as text, or, where some are missing, as floats. A whole one is taken; none is rounded.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_signed_integer(kind) or (pa.types.is_integer(kind) and kind.bit_width < 64):
        return column.cast(pa.int64()), np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_floating(kind):
        known = column.to_pylist()
        values = [int(value) if value is not None and value.is_integer() else None for value in known]
    elif _is_text(kind) or pa.types.is_uint64(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        known = column.to_pylist()
        texts = [None if value is None else str(value) for value in known]
        values = [int(text) if text is not None and re.fullmatch(WHOLE_NUMBER, text) else None for text in texts]
    else:
        # Booleans, instants and durations are no numbers of ours, although Arrow and Spark convert them.
        return pa.chunked_array([pa.nulls(len(column), pa.int64())]), flags(pc.is_valid(column))
    # `None in range(…)` compares with each number of the range: asked here, it would never end.
    values = [value if value is not None and value in INT64 else None for value in values]
    wrong = [value is None and given is not None for value, given in zip(values, known, strict=True)]
    return pa.chunked_array([pa.array(values, pa.int64())]), np.array(wrong, dtype=np.bool_)


def _texts(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Flags]:
    """The texts of a column, null where there is none, and where there is something else."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if _is_text(kind):
        # A dictionary stays one: to spell out every text of a long history costs more than all else here.
        return column, np.zeros(len(column), dtype=np.bool_)
    return pa.chunked_array([pa.nulls(len(column), pa.string())]), flags(pc.is_valid(column))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _wrong_rows(column: Column, values: pa.ChunkedArray, wrong_type: Flags) -> Iterator[tuple[str, Flags]]:
    """The reasons for which values of one column are bad, each with the rows that it holds for."""
    if column.is_required:
        yield column.absent, flags(pc.is_null(values)) & ~wrong_type
    yield column.wrong_type, wrong_type
    if column.words is not None:
        words = values.cast(pa.string())
        unknown = [word for word in pc.unique(words).to_pylist() if word is not None and word not in column.words]
        if unknown:
            yield column.wrong_value, flags(pc.is_in(words, pa.array(unknown, pa.string())))
    elif column.is_integer and column.allowed != INT64:
        yield column.wrong_value, _out_of_range(column, values)


def _out_of_range(column: Column, values: pa.ChunkedArray) -> Flags:
    inside = pc.and_(pc.greater_equal(values, column.allowed.start), pc.less(values, column.allowed.stop))
    return ~flags(pc.fill_null(inside, fill_value=True))


def flags(mask: pa.ChunkedArray) -> Flags:
    flags: Flags = np.asarray(mask.to_numpy(), dtype=np.bool_)
    return flags
