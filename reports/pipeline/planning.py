"""The runs of a history dealt into shares: which worker reads which row groups of which Parquet files.

Only the column of run numbers is read here, row group by row group. A share is a range of run numbers with some hundred
thousand events. It names the row groups that hold any of them, so a worker reads little that it does not need: a
history is written run after run. Where runs are strewn over a file, the rows are first brought together
(`reports.pipeline.staging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.errors import HistoryUnreadable
from reports.checks.facts.columns import Ints
from reports.history_files import expect_history
from reports.pipeline.places import Place
from reports.record_rules import RUN
from reports.record_tables import integers_of

EVENTS_PER_SHARE: Final = 400_000
"""So many that the cost of a call does not matter; so few that every core is busy and a worker stays under 1 GB."""
READ_AGAIN_MAX: Final = 4.0
"""How often a row may be read on average, by shares that need another row of its group, before rows are moved."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group of a file. first_row: the place of its first row in the file, from 0. rows: how many it has.

    runs, counts: the runs in it, in ascending order, and how many rows each has. nameless: rows that name no run.
    """

    file: Place
    number: int
    first_row: int
    rows: int
    runs: Ints
    counts: Ints
    nameless: int

    def rows_between(self, first: int, last: int) -> int:
        """The number of rows of runs from `first` to `last`."""
        begin, end = np.searchsorted(self.runs, first), np.searchsorted(self.runs, last, side="right")
        return int(self.counts[begin:end].sum())


@dataclass(frozen=True, slots=True)
class RunRange:
    """The runs of one share: from `first` to `last`, and the row groups that hold their rows. events: how many."""

    first: int
    last: int
    events: int
    groups: tuple[RowGroup, ...]


def take_stock(files: Iterable[Place]) -> list[RowGroup]:
    """Row groups of these files, and what is in each. Raises HistoryUnreadable for a file of another kind."""
    found = []
    for file in files:
        try:
            with file.open() as opened, pq.ParquetFile(opened) as parquet:
                expect_history(parquet.schema_arrow, file)
                first_row = 0
                for number in range(parquet.num_row_groups):
                    column = parquet.read_row_group(number, columns=[RUN.name], use_threads=False)
                    found.append(_row_group(file, number, first_row, column))
                    first_row += len(column)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise HistoryUnreadable(f"{file} is no readable Parquet file ({reason}); was it cut off?") from error
    return found


def _row_group(file: Place, number: int, first_row: int, column: pa.Table) -> RowGroup:
    named = integers_of(RUN, column)
    known = named.drop_null().to_numpy()
    # Rows of one run stand together: so few changes are sorted, not all rows.
    begins = np.flatnonzero(np.diff(known, prepend=-1))
    lengths = np.diff(np.append(begins, len(known)))
    runs, inverse = np.unique(known[begins], return_inverse=True)
    counts = np.bincount(inverse, weights=lengths, minlength=len(runs)).astype(np.int64)
    return RowGroup(file, number, first_row, len(column), runs, counts, named.null_count)


def runs_in(groups: Sequence[RowGroup]) -> tuple[Ints, Ints]:
    """The runs in these row groups, in ascending order, and how many rows each has."""
    named = np.concatenate([np.empty(0, np.int64), *(group.runs for group in groups)])
    counted = np.concatenate([np.empty(0, np.int64), *(group.counts for group in groups)])
    runs, inverse = np.unique(named, return_inverse=True)
    return runs, np.bincount(inverse, weights=counted, minlength=len(runs)).astype(np.int64)


def deal_runs(groups: Sequence[RowGroup], described: pa.Table | None, *, share_events: int) -> list[RunRange]:
    """Ranges of runs with about so many events each, and of all runs, those without an event included."""
    runs, counts = runs_in(groups)
    if described is not None:
        numbers = pc.unique(described["run"]).to_numpy()
        every = np.union1d(runs, numbers)
        filled = np.zeros(len(every), dtype=np.int64)
        filled[np.searchsorted(every, runs)] = counts
        runs, counts = every, filled
    if not len(runs):
        return []
    share = (np.cumsum(counts) - counts) // max(1, share_events)
    begins = np.flatnonzero(np.diff(share, prepend=-1))
    ends = np.append(begins[1:], len(runs))
    ranges = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        first, last = int(runs[begin]), int(runs[end - 1])
        own = tuple(group for group in groups if group.rows_between(first, last))
        ranges.append(RunRange(first, last, int(counts[begin:end].sum()), own))
    return ranges


def read_again(ranges: Sequence[RunRange], groups: Sequence[RowGroup]) -> float:
    """Readings of each row, on average, where these ranges are read."""
    rows = sum(group.rows for group in groups)
    return sum(group.rows for each in ranges for group in each.groups) / max(1, rows)


def expect_fitting(name: str, groups: Sequence[RowGroup], events_max: int) -> None:
    """Raise HistoryUnreadable for a run that is larger than what a worker can judge."""
    runs, counts = runs_in(groups)
    if len(runs) and counts.max() > events_max:
        largest = int(counts.argmax())
        raise HistoryUnreadable(
            f"{name}: run {runs[largest]} has {counts[largest]:,} events, and a worker has memory for {events_max:,} "
            "of one run: give it more (fewer cores to each executor, or a larger one), or judge shorter recordings"
        )
