"""Histories that cannot be read by run, written once more so that they can: JSON lines, and runs strewn over a file.

Each worker reads a stretch of the history and writes a Parquet file of it. Such a file says of each row where it came
from (`FILE`, `ROW`), so that a record that is no event is told by its own file and line.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reports.pipeline.places import Place
from reports.pipeline.planning import RowGroup
from reports.pipeline.quarantine import write_lost
from reports.record_rules import COLUMNS, LINE_BYTES_MAX, RUN
from reports.record_tables import TornLine, bounded_lines, check_lines, integers_of

FILE: Final = "_file"
ROW: Final = "_row"
"""Columns of a staged file: the file that a row came from, and its row or line there, from 1."""
STRETCH_BYTES: Final = 16 << 20
STRETCH_ROWS: Final = 1_000_000
_PIECES_MAX: Final = 64
"""So many pieces of a line, of `LINE_BYTES_MAX` each, are added to a stretch until the line ends."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a file of JSON lines, from a line's begin to a line's end.

    index: of its source. number: among the stretches of the source. begin, end: in bytes. first_line: from 1.
    """

    index: int
    number: int
    file: Place
    begin: int
    end: int
    first_line: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The findings of a worker in a stretch. file: what it wrote; None where there was no event.

    lost: reasons and how many records each set aside. lost_runs: runs that lost one. nameless: lost without a run.
    """

    index: int
    number: int
    file: Place | None
    lost: Counter[str]
    lost_runs: frozenset[int]
    nameless: int
    last_run: int | None
    torn: TornLine | None


def stretches(index: int, file: Place) -> Iterator[Stretch]:
    """A file of JSON lines, cut between lines."""
    begin, first_line, number = 0, 1, 0
    with io.BufferedReader(file.open()) as opened:
        while block := opened.read(STRETCH_BYTES):
            end, lines = begin + len(block), block.count(b"\n")
            # Bounded: a file without line ends must not come as one stretch.
            for _ in range(_PIECES_MAX):
                if block.endswith(b"\n"):
                    break
                block = opened.readline(LINE_BYTES_MAX)
                if not block:
                    break
                end, lines = end + len(block), lines + block.endswith(b"\n")
            yield Stretch(index, number, file, begin, end, first_line)
            begin, first_line, number = end, first_line + lines, number + 1


def stage_lines(stretch: Stretch, base: int, staging: Place, quarantine: Place) -> Staged:
    """Write the events of a stretch as Parquet, and what is none to the quarantine. base: added to its run numbers."""
    with stretch.file.open() as opened:
        opened.seek(stretch.begin)
        data = opened.read(stretch.end - stretch.begin)
    read = check_lines(bounded_lines(io.BytesIO(data)), None, first_line=stretch.first_line, with_records=True)
    name = f"{stretch.index:05}-{stretch.number:07}"
    write_lost(quarantine.below(f"lines-{name}.json"), read.lost, str(stretch.file), stretch.index, base)
    file = None
    if len(read.events):
        file = staging.below(f"{name}.parquet")
        origin = pa.repeat(pa.scalar(str(stretch.file)), len(read.events)).dictionary_encode()
        file.write_table(read.events.append_column(FILE, origin).append_column(ROW, pa.array(read.rows)))
    return Staged(
        stretch.index,
        stretch.number,
        file,
        Counter(read.lost["reason"].to_pylist()),
        frozenset(pc.unique(read.lost["run"].drop_null()).to_pylist()),
        read.lost["run"].null_count,
        read.last_run,
        read.torn,
    )


@dataclass(frozen=True, slots=True)
class Sorting:
    """Row groups of one file to be written once more, with a row group for each of these ranges of runs.

    index: of the source. number: among those of the source. begins: the first run of each range but the first.
    """

    index: int
    number: int
    groups: tuple[RowGroup, ...]
    begins: tuple[int, ...]


def sortings(index: int, groups: list[RowGroup], begins: tuple[int, ...]) -> Iterator[Sorting]:
    """The row groups of a source in stretches of about a million rows, each of one file, in their order."""
    own: list[RowGroup] = []
    number = 0
    for group in groups:
        if own and (own[0].file != group.file or sum(each.rows for each in own) + group.rows > STRETCH_ROWS):
            yield Sorting(index, number, tuple(own), begins)
            own, number = [], number + 1
        own.append(group)
    if own:
        yield Sorting(index, number, tuple(own), begins)


def sort_rows(sorting: Sorting, staging: Place) -> Place:
    """Write the rows of some row groups, range of runs by range of runs, each in the order of the file."""
    table = pa.concat_tables([read_rows(group) for group in sorting.groups]).unify_dictionaries()
    named = pc.fill_null(integers_of(RUN, table), -1).to_numpy()
    place = np.searchsorted(np.array(sorting.begins, dtype=np.int64), named, side="right")
    table = table.take(pa.array(np.argsort(place, kind="stable")))
    file = staging.below(f"sorted-{sorting.index:05}-{sorting.number:07}.parquet")
    begin = 0
    with file.created() as opened, pq.ParquetWriter(opened, table.schema, compression="zstd") as writer:
        for length in np.bincount(place, minlength=1).tolist():
            if length:
                writer.write_table(table.slice(begin, length), row_group_size=length)
                begin += length
    return file


def read_rows(group: RowGroup) -> pa.Table:
    """The columns of a history in one row group, with the origin of each row."""
    with group.file.open() as opened, pq.ParquetFile(opened) as parquet:
        known = [name for name in parquet.schema_arrow.names if name in _KNOWN]
        table = parquet.read_row_group(group.number, columns=known, use_threads=False)
    # Parquet's reader trusts the file: texts that are no UTF-8, and places outside of a dictionary.
    table.validate(full=True)
    if ROW not in known:
        rows = np.arange(group.first_row + 1, group.first_row + 1 + len(table))
        origin = pa.repeat(pa.scalar(str(group.file)), len(table)).dictionary_encode()
        table = table.append_column(FILE, origin).append_column(ROW, pa.array(rows))
    return table


_KNOWN: Final = frozenset([*(column.name for column in COLUMNS), FILE, ROW])
