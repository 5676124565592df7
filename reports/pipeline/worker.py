"""Work of a worker of Spark: read its shares of a history, judge and measure them, write their tables.

A row is read once and goes into no other process: the worker reads the row groups that hold its runs, sets aside what
is no event, judges, and writes every table of its runs. What it tells the driver is small: facts that add up.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import HistoryUnreadable
from reports.history_files import Notes, described_history, described_runs, note_lost
from reports.pipeline.inputs import RUN_BITS
from reports.pipeline.measuring import measure_runs, moved_runs
from reports.pipeline.places import Place
from reports.pipeline.planning import RowGroup
from reports.pipeline.quarantine import write_lost
from reports.pipeline.staging import FILE, ROW, read_rows
from reports.pipeline.summary import Facts
from reports.record_rules import NO_ROW_IN_RUNS, RUN
from reports.record_tables import LOST, check_table, integers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The runs from `first` to `last` of one source. number: among all shares; it names the files that are written.

    with_nameless: the rows that name no run, and no others. described: their rows of the runs table; None where the
    source has no such table. lost_runs: runs that lost a record already. is_suspect: any run of the source may have.
    part: of the results, to which the facts belong.
    """

    number: int
    index: int
    name: str
    part: int
    is_one_of_several: bool
    first: int
    last: int
    with_nameless: bool = False
    groups: tuple[RowGroup, ...] = ()
    described: pa.Table | None = None
    lost_runs: frozenset[int] = frozenset()
    cut_off: tuple[int, ...] = ()
    is_suspect: bool = False


@dataclass(slots=True)
class Told:
    """The answer of a task to the driver. facts: by part. read: by source, the records that were events.

    refused: why a history cannot be read at all. peak_bytes: the most memory that the worker has had so far.
    """

    facts: dict[int, Facts] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    refused: str = ""
    peak_bytes: int = 0

    def join(self, other: Told) -> None:
        """Add what another task told."""
        for part, facts in other.facts.items():
            if part in self.facts:
                self.facts[part].join(facts)
            else:
                self.facts[part] = facts
        for index, count in other.read.items():
            self.read[index] = self.read.get(index, 0) + count
        self.refused = self.refused or other.refused
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)


def work_on(shares: Iterable[Share], out: Place) -> Told:
    """Judge and measure these shares, and write their tables and their quarantine below `out`."""
    told = Told()
    try:
        for share in shares:
            told.join(_work_on_one(share, out))
    except HistoryUnreadable as error:
        # As a value: Spark would wrap an error of a worker into one of its own, and run the task again.
        told.refused = str(error)
    told.peak_bytes = peak_bytes()
    return told


def _work_on_one(share: Share, out: Place) -> Told:
    notes = Notes(damaged=set(share.lost_runs), cut_off=list(share.cut_off))
    events, lost = read_share(share, with_records=True)
    note_lost(lost.select(LOST.names), notes)
    read = len(events) + _undescribed(lost)
    base = share.index << RUN_BITS
    write_lost(
        out.below("quarantine", f"part-{share.number:07}.json"),
        lost.select(LOST.names),
        lost[FILE].to_pylist(),
        share.index,
        base,
    )
    events, runs = described_history(events, share.described, notes, is_suspect=share.is_suspect)
    facts, tables = measure_runs(
        events, runs, notes, index=share.index, name=share.name, is_one_of_several=share.is_one_of_several
    )
    for name, table in moved_runs(tables, share.index).items():
        # One file at least for each table, so that every table is there to be read.
        if len(table) or share.number == 0:
            out.below("tables", name, f"part-{share.number:07}.parquet").write_table(table)
    return Told(facts={share.part: facts}, read={share.index: read})


def _undescribed(lost: pa.Table) -> int:
    return int(pc.sum(pc.equal(lost["reason"], NO_ROW_IN_RUNS)).as_py() or 0)


def read_share(share: Share, *, with_records: bool = False) -> tuple[pa.Table, pa.Table]:
    """The events of a share, and its lost records (`LOST` with the file of each), in the order of the files."""
    described = described_runs(share.described)
    events, lost = [], [LOST.append(pa.field(FILE, pa.string())).empty_table()]
    for group in share.groups:
        table = _own_rows(read_rows(group), share)
        rows = table[ROW].to_numpy()
        read = check_table(table, described, rows=rows, with_records=with_records)
        events.append(read.events)
        if len(read.lost):
            # A staged file holds rows of several files, but each of them in order: the row tells which.
            files = dict(zip(rows.tolist(), table[FILE].cast(pa.string()).to_pylist(), strict=True))
            named = [files[row] for row in read.lost["row"].to_pylist()]
            lost.append(read.lost.append_column(FILE, pa.array(named, pa.string())))
    nothing = check_table(pa.table({RUN.name: pa.nulls(0, pa.int64())}), None).events
    return pa.concat_tables([nothing, *events]).unify_dictionaries(), pa.concat_tables(lost)


def _own_rows(table: pa.Table, share: Share) -> pa.Table:
    """The rows of a share's runs: where they stand together, as they usually do, none of them is copied."""
    named = integers_of(RUN, table)
    if share.with_nameless:
        return table.filter(pc.is_null(named))
    run = pc.fill_null(named, -1).to_numpy()
    is_own = (run >= share.first) & (run <= share.last)
    if is_own.all():
        return table
    places = np.flatnonzero(is_own)
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return table.slice(int(places[0]), len(places))
    return table.filter(pa.array(is_own))


def peak_bytes() -> int:
    """The most memory that this process has had at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def dealt(shares: Sequence[Share], tasks: int) -> list[list[Share]]:
    """The shares in so many lists, none empty, each a stretch of them."""
    ends = np.linspace(0, len(shares), max(1, min(tasks, len(shares))) + 1).astype(int).tolist()
    return [list(shares[begin:end]) for begin, end in pairwise(ends)]
