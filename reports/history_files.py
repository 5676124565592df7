"""Histories on disk: how they are found, read and written.

A history is a run folder (`events.parquet` and `runs.parquet`, or the same
names with `.jsonl`) or one file of events, its runs beside it or inferred. The
folder of a run that was killed, or that still records, holds a spool instead.

A record that is no event is set aside and counted by reason (`reports.record_rules`). A last line that
was being written when its writer died marks its run as cut off. A file without
a single event is not a history. No event is repaired, and none is guessed.

A lost record can look like a broken lock: without its release, a grant seems to
be replaced too early. So a run that lost a record is not judged at all. A record
that names no run may belong to any run, so then no run is judged. Whether `seq`
numbers the events of a run without a gap or a repetition is asked where runs are
judged (`reports.checks.facts.surroundings.integrity`). Runs of which no event carries a `seq`,
such as lines written by hand, are numbered here in their order in the file.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.errors import HistoryUnreadable, NothingRecorded, quote
from lockref.history import FORMAT_VERSION, RUNS_SCHEMA, SCHEMA, runs_table
from lockref.lab.spool import SPOOL, is_spool, read_spool, remove_spool
from lockref.strict_json import NotJson, read_json
from lockref.words import counted
from reports.checks.facts.surroundings.integrity import UNNUMBERED, numbered
from reports.checks.thresholds.limits import parse_threshold
from reports.record_rules import (
    CLOCK_MAX_NS,
    CLOCK_MIN_NS,
    COLUMNS,
    INT64,
    LINE_BYTES_MAX,
    NO_ROW_IN_RUNS,
    RUN,
    RUN_MAX,
    WHOLE_NUMBER,
    Column,
    read_record,
)

Flags: TypeAlias = npt.NDArray[np.bool_]

EVENTS, RUNS = "events", "runs"
CHUNKS: Final = "chunks"
"""The folder of a campaign's finished chunks (`scenarios.checkpoint`), in that of its results."""
SUFFIXES: Final = ("parquet", "jsonl")
EVENT_NAMES: Final = (EVENTS, "history")
"""What a file of events in a run folder may be called, the usual name first."""
HISTORIES: Final = tuple(f"{EVENTS}.{suffix}" for suffix in SUFFIXES)
"""Names under which a folder holds a history."""

_DURATIONS = ("validity_ns", "poll_interval_ns", "request_timeout_ns", "wait_timeout_ns", "drift_bound_ns")
_DURATION_MAX_NS: Final = 2**58
"""The longest duration that the runs table may give: nine years."""


@dataclass(slots=True)
class Notes:
    """Notes for the reader on how a history was read.

    quarantined: reasons and how many records each set aside. damaged: runs that
    lost a record and are left out. nameless: records set aside that name no run.
    cut_off: run numbers whose record ends in the middle of a line. inferred:
    how many runs have no row in the runs table.
    """

    quarantined: Counter[str] = field(default_factory=Counter)
    damaged: set[int] = field(default_factory=set)
    nameless: int = 0
    cut_off: list[int] = field(default_factory=list)
    inferred: int = 0

    @property
    def lines(self) -> list[str]:
        """One sentence per note, for people."""
        notes = [
            f"{counted(count, 'record')} set aside: {reason}" for reason, count in sorted(self.quarantined.items())
        ]
        if self.damaged:
            why = (
                "a record that names no run may belong to any run"
                if self.nameless
                else "a lost record can look like a broken lock"
            )
            notes.append(f"{counted(len(self.damaged), 'run')} not judged: {why}")
        notes += [
            f"run {run} was cut off while it was written; it is judged up to there"
            for run in self.cut_off
            if run not in self.damaged
        ]
        if self.inferred:
            notes.append(
                f"{counted(self.inferred, 'run')} without a row in runs: judged without timing, "
                "so clauses that need bounds do not apply, and what a clock bound may explain is no violation"
            )
        return notes


def load_history(path: Path | str) -> tuple[pa.Table, pa.Table, Notes]:
    """Events (`SCHEMA`), runs (`RUNS_SCHEMA`, a row for every run) and notes; neither holds damaged runs.

    Raises HistoryUnreadable if there is no history at `path`: no such file,
    another format, a newer format version, or not one readable event.
    """
    path = Path(path)
    notes = Notes()
    if is_unfinished(path):
        return _unfinished(path, notes)
    files = find_history(path)
    if files.is_parquet:
        events = _history_columns(_read_parquet(files.events), files.events, notes)
    else:
        events = _read_lines(files.events, notes)
    events = _numbered(events)
    runs = _inferred(events, notes) if files.runs is None else read_runs(files.runs)
    runs = marked_cut_off(runs, notes.cut_off)
    events = _described(events, runs, notes)
    if notes.nameless:
        notes.damaged.update(runs["run"].to_pylist())
    if notes.damaged:
        events, runs = _without_runs(events, notes.damaged), _without_runs(runs, notes.damaged)
    return events, runs, notes


def is_unfinished(folder: Path) -> bool:
    """True for the folder of a run that still records, or that was killed before it could write its history."""
    has_begun = is_spool(folder / SPOOL) or bool(kept_histories(folder))
    return has_begun and not any((folder / name).exists() for name in HISTORIES)


def has_history(folder: Path) -> bool:
    """True for a folder with something to judge: a history, or what an unfinished run has recorded."""
    return is_unfinished(folder) or any((folder / name).exists() for name in HISTORIES)


def history_folders(folder: Path) -> list[Path]:
    """The folders with a history in a run folder: itself, or its parts; of an evaluation, the parts of each store."""
    found = [path for path in (folder, *sorted(folder.glob("*/"))) if has_history(path)]
    return found or [path for path in sorted(folder.glob("*/*/")) if has_history(path)]


def kept_histories(folder: Path) -> list[Path]:
    """The histories that an unfinished campaign of seeds keeps in its folder of results, in the order of the seeds."""
    return sorted(events.parent for events in (folder / CHUNKS).glob(f"[!.]*/{EVENTS}.parquet"))


def _unfinished(folder: Path, notes: Notes) -> tuple[pa.Table, pa.Table, Notes]:
    """The rows that a run has recorded so far."""
    if chunks := kept_histories(folder):
        read = [load_history(chunk) for chunk in chunks]
        events = pa.concat_tables([events for events, _, _ in read]).unify_dictionaries()
        return events, pa.concat_tables([runs for _, runs, _ in read]), notes
    return _recording(folder, notes)


def _recording(folder: Path, notes: Notes) -> tuple[pa.Table, pa.Table, Notes]:
    """The record of a real run so far, as the history of one run that was cut off there."""
    events = read_spool(folder / SPOOL)
    if len(events) == 0:
        raise NothingRecorded(f"{folder}: the run ended, or was looked at, before anything was recorded; run it again")
    runs_path = runs_beside(folder / f"{EVENTS}.parquet")
    notes.cut_off.append(0)
    runs = _inferred(events, notes) if runs_path is None else read_runs(runs_path)
    runs = marked_cut_off(runs, notes.cut_off)
    last_ns = pc.max(events["at_ns"])
    place = runs.column_names.index("end_ns")
    return events, runs.set_column(place, RUNS_SCHEMA.field("end_ns"), pc.fill_null(runs["end_ns"], last_ns)), notes


def _without_runs(table: pa.Table, damaged: set[int]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["run"], value_set=pa.array(sorted(damaged), pa.int64()))))


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """The files of one history: its events (a file, or a folder of part files), and the table of its runs, if any.

    is_parquet: the events are Parquet; else they are JSON lines.
    """

    events: Path
    runs: Path | None
    is_parquet: bool


def find_history(path: Path) -> HistoryFiles:
    """The files of the history at `path`: a run folder, or a file or folder of events. Both readers ask here.

    Raises HistoryUnreadable where there is none, and for a file that is called Parquet and is something else.
    """
    if not path.exists():
        raise HistoryUnreadable(f"{path} does not exist: name a run folder, a .parquet or a .jsonl file")
    events = path
    if path.is_dir() and path.suffix != ".parquet":
        found = [path / f"{name}.{suffix}" for suffix in SUFFIXES for name in EVENT_NAMES]
        present = [each for each in found if each.exists()]
        if not present:
            holds = ", ".join(sorted(entry.name for entry in path.iterdir())[:10]) or "nothing"
            raise HistoryUnreadable(
                f"{path} holds no {EVENTS}.parquet and no {EVENTS}.jsonl (it holds {holds}): name a run folder"
            )
        events = present[0]
    is_parquet = _is_parquet(events)
    if events.suffix == ".parquet" and not is_parquet:
        raise HistoryUnreadable(f"{events} is not Parquet although its name says so, or it was cut off while written")
    return HistoryFiles(events=events, runs=runs_beside(events), is_parquet=is_parquet)


def runs_beside(events: Path) -> Path | None:
    """The file, or the folder of part files, that describes the runs of these events; None where nothing does.

    A file without a single row describes nothing, just like one that is missing.
    """
    for suffix in SUFFIXES:
        runs = events.with_name(f"{RUNS}.{suffix}")
        if runs.exists() and runs != events and not _is_empty(runs):
            return runs
    return None


def _is_empty(path: Path) -> bool:
    """True for a file of no bytes or no rows. What cannot be read is not empty: its reader says what is wrong."""
    if not _is_parquet(path):
        return not any(line.strip() for line, _ in _lines(path))
    try:
        return not any(part.count_rows() for part in pq.ParquetDataset(path).fragments)
    except (pa.ArrowException, OSError, ValueError):
        return False


def _is_parquet(path: Path) -> bool:
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise HistoryUnreadable(f"reading {path} failed: {error.strerror or error}") from error


def _read_parquet(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path)
        # Parquet's reader trusts the file: names and texts that are no UTF-8, and places outside of a dictionary.
        table.validate(full=True)
        for column in table.schema:
            column.name  # noqa: B018  # Decodes the name.
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise HistoryUnreadable(f"{path} is no readable Parquet file ({reason}); was it cut off?") from error


def _history_columns(table: pa.Table, path: Path, notes: Notes) -> pa.Table:
    """The rows that are events, in the history's schema. Columns that may be null may be absent."""
    version = (table.schema.metadata or {}).get(b"lockref.history")
    if version is not None and version != str(FORMAT_VERSION).encode():
        raise HistoryUnreadable(
            f"{path} has history format {version.decode(errors='replace')!r}; this version reads {FORMAT_VERSION}"
        )
    missing = [column.name for column in COLUMNS if column.is_required and column.name not in table.column_names]
    if missing:
        raise HistoryUnreadable(f"{path} is Parquet but no history: it has no column {missing[0]!r}")
    read = [_read_column(column, table) for column in COLUMNS]
    bad = np.zeros(len(table), dtype=np.bool_)
    runs, no_run = read[0]
    nameless = no_run | _flags(pc.is_null(runs)) | _out_of_range(RUN, runs)
    for column, (values, wrong_type) in zip(COLUMNS, read, strict=True):
        for reason, wrong in _wrong_rows(column, values, wrong_type):
            lost = wrong & ~bad
            if lost.any():
                notes.quarantined[reason] += int(lost.sum())
                notes.damaged.update(pc.unique(runs.filter(pa.array(lost & ~nameless))).to_pylist())
                notes.nameless += int((lost & nameless).sum())
            bad |= wrong
    if bad.all() and len(table):
        raise HistoryUnreadable(f"{path} holds no event of a history ({_most_common(notes)})")
    events = pa.table([values for values, _ in read], names=SCHEMA.names)
    return events.filter(pa.array(~bad)) if bad.any() else events


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
        return pa.chunked_array([pa.nulls(len(column), pa.int64())]), _flags(pc.is_valid(column))
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
    return pa.chunked_array([pa.nulls(len(column), pa.string())]), _flags(pc.is_valid(column))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _wrong_rows(column: Column, values: pa.ChunkedArray, wrong_type: Flags) -> Iterator[tuple[str, Flags]]:
    """The reasons for which values of one column are bad, each with the rows that it holds for."""
    if column.is_required:
        yield column.absent, _flags(pc.is_null(values)) & ~wrong_type
    yield column.wrong_type, wrong_type
    if column.words is not None:
        words = values.cast(pa.string())
        unknown = [word for word in pc.unique(words).to_pylist() if word is not None and word not in column.words]
        if unknown:
            yield column.wrong_value, _flags(pc.is_in(words, pa.array(unknown, pa.string())))
    elif column.is_integer and column.allowed != INT64:
        yield column.wrong_value, _out_of_range(column, values)


def _out_of_range(column: Column, values: pa.ChunkedArray) -> Flags:
    inside = pc.and_(pc.greater_equal(values, column.allowed.start), pc.less(values, column.allowed.stop))
    return ~_flags(pc.fill_null(inside, fill_value=True))


def _flags(mask: pa.ChunkedArray) -> Flags:
    flags: Flags = np.asarray(mask.to_numpy(), dtype=np.bool_)
    return flags


def _most_common(notes: Notes) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in notes.quarantined.most_common(3)) or "it is empty"


def _lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Lines and whether each is complete. Bounded, so that a binary file cannot fill the memory."""
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES_MAX):
            yield line, line.endswith(b"\n")


@dataclass(frozen=True, slots=True)
class TornTail:
    """A final line that was being written when its writer died; `run` is that of the last event before it."""

    line: bytes
    run: int


def torn_tail(path: Path) -> TornTail | None:
    """The unfinished last line of a JSON-lines file, or None. For Spark, which does not read lines in order.

    None for a folder of part files, which has no last line, and where the same bytes are an earlier line, too: Spark
    cannot tell the two apart, and a line that is damaged must not pass for the torn one.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LINE_BYTES_MAX))
        last = file.read().rpartition(b"\n")[2]
    if not last.strip() or len(last) >= LINE_BYTES_MAX or not read_record(last)[1]:
        return None
    run = None
    for line, is_complete in _lines(path):
        if is_complete and line[:-1] == last:
            return None
        event, problem = read_record(line) if is_complete else ({}, "")
        run = event["run"] if event and not problem else run
    return None if run is None else TornTail(line=last, run=run)


def _read_lines(path: Path, notes: Notes) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    last_run: int | None = None
    for line, is_complete in _lines(path):
        if not line.strip():
            continue
        event, problem = read_record(line)
        if problem:
            if not is_complete and len(line) < LINE_BYTES_MAX and last_run is not None:
                notes.cut_off.append(last_run)
            else:
                notes.quarantined[problem] += 1
                if "run" in event:
                    notes.damaged.add(event["run"])
                else:
                    notes.nameless += 1
            continue
        last_run = event["run"]
        for name, values in columns.items():
            values.append(event[name])
    if last_run is None:
        found = _most_common(notes)
        raise HistoryUnreadable(f"{path} holds no event of a history ({found}): one JSON object per line is expected")
    arrays = []
    for wanted in SCHEMA:
        is_text = pa.types.is_dictionary(wanted.type)
        array = pa.array(columns[wanted.name], pa.string() if is_text else wanted.type)
        arrays.append(array.dictionary_encode() if is_text else array)
    return pa.table(arrays, names=SCHEMA.names)


def read_runs(path: Path) -> pa.Table:
    """The runs that a file describes (`RUNS_SCHEMA`). Both readers ask here: a row takes few bytes, however many runs.

    Raises HistoryUnreadable for a row that describes no run: bounds that nobody can read would turn clauses off.
    """
    if _is_parquet(path):
        table = _read_parquet(path)
        if "run" not in table.column_names:
            raise HistoryUnreadable(f"{path} describes no runs: it has no column 'run'")
        rows = table.select([name for name in RUNS_SCHEMA.names if name in table.column_names]).to_pylist()
    else:
        rows = [_run_row(path, number, line) for number, (line, _) in enumerate(_lines(path), 1) if line.strip()]
    for row in rows:
        _expect_sane(path, row)
    defaults = {"scenario": "", "provider": "", "world": "", "is_cut_off": False, "must_happen": [], "claims": []}
    known = set(RUNS_SCHEMA.names)
    try:
        return runs_table(
            {
                **defaults,
                **{name: value for name, value in row.items() if name in known and value is not None},
            }
            for row in rows
        )
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise HistoryUnreadable(f"{path} describes no runs: {str(error).splitlines()[0][:200]}") from error


def _expect_sane(path: Path, row: dict[str, Any]) -> None:
    """Raise HistoryUnreadable for a value out of range: bounds are sums of durations, and must fit into 64 bits."""
    limits = dict.fromkeys(_DURATIONS, range(_DURATION_MAX_NS + 1))
    limits |= dict.fromkeys(("faults_end_ns", "end_ns"), range(CLOCK_MIN_NS, CLOCK_MAX_NS + 1))
    limits |= {"rate_error_ppm": range(1_000_000), "run": range(RUN_MAX + 1)}
    for name in ("must_happen", "claims", "thresholds", "tasks_left"):
        words = row.get(name)
        if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise HistoryUnreadable(f"{path}: run {row.get('run')}: {name} is {quote(words)}; expected a list of words")
    for text in row.get("thresholds") or ():
        try:
            parse_threshold(text)
        except ValueError as error:
            raise HistoryUnreadable(f"{path}: run {row.get('run')}: a threshold {error}") from error
    for name, allowed in limits.items():
        value = row.get(name)
        if isinstance(value, int) and value not in allowed:
            raise HistoryUnreadable(
                f"{path}: run {row.get('run')}: {name} is {value}; expected {allowed.start} to {allowed.stop - 1}"
            )


def _run_row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = read_json(line)
    except NotJson as error:
        raise HistoryUnreadable(f"{path}:{number}: not JSON; expected one object per run and line") from error
    if not isinstance(row, dict) or not isinstance(row.get("run"), int):
        raise HistoryUnreadable(f"{path}:{number}: no run number; expected an object with 'run'")
    return row


def _numbered(events: pa.Table) -> pa.Table:
    """Events with a `seq` each; an event that carries none has one beyond `UNNUMBERED` until `numbered` sees it."""
    unnumbered = _flags(pc.is_null(events["seq"]))
    if not unnumbered.any():
        return events.cast(SCHEMA)
    known = pc.fill_null(events["seq"], 0).to_numpy()
    place = events.column_names.index("seq")
    seq = pa.array(np.where(unnumbered, UNNUMBERED + np.arange(len(events)), known))
    return numbered(events.set_column(place, SCHEMA.field("seq"), seq).cast(SCHEMA))


def _described(events: pa.Table, runs: pa.Table, notes: Notes) -> pa.Table:
    """The events of runs that the table describes; others are set aside: nothing says what they promised."""
    is_described = pc.is_in(events["run"], value_set=pc.unique(runs["run"]))
    if pc.all(is_described).as_py():
        return events
    lost = events.filter(pc.invert(is_described))
    notes.quarantined[NO_ROW_IN_RUNS] += len(lost)
    notes.damaged.update(pc.unique(lost["run"]).to_pylist())
    return events.filter(is_described)


def _inferred(events: pa.Table, notes: Notes) -> pa.Table:
    """Rows for the runs of a history that has no runs table."""
    applied = events.filter(pc.equal(events["kind"].cast(pa.string()), "applied"))
    simulated = set(pc.unique(applied["run"]).to_pylist())
    numbers = sorted(pc.unique(events["run"]).to_pylist())
    notes.inferred = len(numbers)
    return runs_table(_inferred_row(run, run in simulated) for run in numbers)


def marked_cut_off(runs: pa.Table, cut_off: Collection[int]) -> pa.Table:
    """The runs. A run whose last line is torn is marked as cut off, and ends with its last whole event."""
    if not cut_off:
        return runs
    is_torn = pc.is_in(runs["run"], value_set=pa.array(cut_off, pa.int64()))
    for name, values in (
        ("is_cut_off", pc.or_(runs["is_cut_off"], is_torn)),
        ("end_ns", pc.if_else(is_torn, pa.scalar(None, pa.int64()), runs["end_ns"])),
    ):
        runs = runs.set_column(runs.column_names.index(name), RUNS_SCHEMA.field(name), values)
    return runs


def _inferred_row(run: int, is_simulated: bool) -> dict[str, object]:
    world = "simulated" if is_simulated else "real"
    return {"run": run, "scenario": "", "provider": "", "world": world, "is_inferred": True}


def write_history(folder: Path | str, events: pa.Table, runs: pa.Table) -> None:
    """`events.parquet` and `runs.parquet` in `folder`, each whole or not at all, in the place of a spool.

    A process that dies in between leaves a folder that can be read: readers take the spool while there are no events.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_runs(folder, runs)
    _write_parquet(folder / f"{EVENTS}.parquet", events)
    remove_spool(folder / SPOOL)


def write_runs(folder: Path, runs: pa.Table) -> None:
    """`runs.parquet` alone: what is known of a run before it has a history."""
    _write_parquet(folder / f"{RUNS}.parquet", runs)


def _write_parquet(path: Path, table: pa.Table) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, beside, compression="zstd")
    beside.replace(path)


def write_json_lines(folder: Path | str, events: pa.Table, runs: pa.Table) -> None:
    """The same as JSON lines, values that are null left out: for other languages and for reading."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in ((EVENTS, events), (RUNS, runs)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for row in table.to_pylist(maps_as_pydicts="strict"):
                present = {key: value for key, value in row.items() if value is not None}
                file.write(json.dumps(present, separators=(",", ":")) + "\n")
