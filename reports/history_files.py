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
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.errors import HistoryUnreadable, NothingRecorded, quote
from lockref.history import FORMAT_VERSION, RUNS_SCHEMA, SCHEMA, runs_table
from lockref.lab.spool import DAMAGED, SPOOL, is_spool, read_spool, remove_spool
from lockref.strict_json import NotJson, read_json
from lockref.words import counted
from reports.checks.facts.surroundings.integrity import UNNUMBERED, numbered
from reports.checks.thresholds.limits import parse_threshold
from reports.record_rules import (
    CLOCK_MAX_NS,
    CLOCK_MIN_NS,
    COLUMNS,
    NO_ROW_IN_RUNS,
    RUN_MAX,
)
from reports.record_tables import bounded_lines, check_lines, check_table, flags

EVENTS, RUNS = "events", "runs"
CHUNKS: Final = "chunks"
"""The folder of a campaign's finished chunks (`scenarios.campaigns`), in that of its results."""
SUFFIXES: Final = ("parquet", "jsonl")
EVENT_NAMES: Final = (EVENTS, "history")
"""What a file of events in a run folder may be called, the usual name first."""
HISTORIES: Final = tuple(f"{EVENTS}.{suffix}" for suffix in SUFFIXES)
"""Names under which a folder holds a history."""

ROW_GROUP_EVENTS: Final = 1 << 17
"""Events in one row group of Parquet: a worker of Spark reads those groups that hold its runs."""

_DURATIONS = ("validity_ns", "poll_interval_ns", "request_timeout_ns", "wait_timeout_ns", "drift_bound_ns")
_DURATION_MAX_NS: Final = 2**58
"""The longest duration that the runs table may give: nine years."""


@dataclass(slots=True)
class Notes:
    """Notes for the reader on how a history was read.

    quarantined: reasons and how many records each set aside. damaged: runs that
    lost a record and are left out. nameless: records set aside that name no run.
    cut_off: run numbers whose record ends in the middle of a line. inferred:
    how many runs have no row in the runs table. lacking: what is beside the history because a part of the record could
    not be read; None where nothing is.
    """

    quarantined: Counter[str] = field(default_factory=Counter)
    damaged: set[int] = field(default_factory=set)
    nameless: int = 0
    cut_off: list[int] = field(default_factory=list)
    inferred: int = 0
    lacking: Path | None = None

    @property
    def lines(self) -> list[str]:
        """One sentence per note, for people."""
        notes = [
            f"{counted(count, 'record')} set aside: {reason}" for reason, count in sorted(self.quarantined.items())
        ]
        if self.lacking is not None:
            notes.append(f"{self.lacking} is damaged: events of this history are missing")
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
    described = None if files.runs is None else read_runs(files.runs)
    if files.is_parquet:
        events = _checked(_read_parquet(files.events), described, files.events, notes)
    else:
        events = _read_lines(files.events, described, notes)
    notes.lacking = files.lacking
    events, runs = described_history(events, described, notes)
    return events, runs, notes


def described_history(
    events: pa.Table, described: pa.Table | None, notes: Notes, *, is_suspect: bool = False
) -> tuple[pa.Table, pa.Table]:
    """The events, numbered, with a row for each of their runs; what the notes call damaged is left out.

    events: as `reports.record_tables` reads them, of described runs alone. described: None where there is no table of
    runs. is_suspect: some record of the history names no run, whether or not it is counted in these notes.
    """
    events = _numbered(events)
    runs = marked_cut_off(_inferred(events, notes) if described is None else described, notes.cut_off)
    if notes.nameless or notes.lacking is not None or is_suspect:
        notes.damaged.update(runs["run"].to_pylist())
    if notes.damaged:
        events, runs = _without_runs(events, notes.damaged), _without_runs(runs, notes.damaged)
    return events, runs


@dataclass(frozen=True, slots=True)
class HistoryPieces:
    """A history that is read piece by piece. runs: of every run. notes: on what was read so far.

    files: of its events, in their order. count: of its events. size: rows of a piece, at most.
    """

    runs: pa.Table
    notes: Notes
    files: tuple[Path, ...]
    count: int
    size: int

    def __iter__(self) -> Iterator[pa.Table]:
        """The events, in the order of their files; small files make one piece. Raises HistoryUnreadable as
        `load_history`.
        """
        waiting: list[pa.Table] = []
        for piece in self._parts():
            if waiting and sum(map(len, waiting)) + len(piece) > self.size:
                yield pa.concat_tables(waiting).unify_dictionaries()
                waiting = []
            waiting.append(piece)
        if waiting:
            yield pa.concat_tables(waiting).unify_dictionaries()

    def _parts(self) -> Iterator[pa.Table]:
        for path in self.files:
            try:
                for batch in pq.ParquetFile(path).iter_batches(batch_size=self.size):
                    piece = pa.Table.from_batches([batch])
                    piece.validate(full=True)
                    yield _numbered(_checked(piece, self.runs, path, self.notes))
            except (pa.ArrowException, OSError) as error:
                reason = str(error).splitlines()[0][:200]
                raise HistoryUnreadable(f"{path} is no readable Parquet file ({reason}); was it cut off?") from error


def history_pieces(path: Path, *, size: int) -> HistoryPieces | None:
    """The history at `path` in pieces of at most `size` events; None for one that must be read whole.

    That is one in JSON lines, one whose runs nobody describes, and one that is recorded still.
    Raises HistoryUnreadable as `load_history`.
    """
    if is_unfinished(path):
        return None
    files = find_history(path)
    if not files.is_parquet or files.runs is None:
        return None
    parts = (files.events,) if files.events.is_file() else tuple(sorted(files.events.rglob("*.parquet")))
    try:
        count = sum(pq.read_metadata(part).num_rows for part in parts)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None  # The reader of the whole says what is wrong.
    runs, notes = read_runs(files.runs), Notes(lacking=files.lacking)
    if notes.lacking is not None:
        # What is missing may be a release.
        notes.damaged.update(runs["run"].to_pylist())
    return HistoryPieces(runs=runs, notes=notes, files=parts, count=count, size=size)


def is_unfinished(folder: Path) -> bool:
    """True for the folder of a run that still records, or that was killed before it could write its history."""
    has_begun = is_spool(folder / SPOOL) or kept_history(folder) is not None
    return has_begun and not any((folder / name).exists() for name in HISTORIES)


def has_history(folder: Path) -> bool:
    """True for a folder with something to judge: a history, or what an unfinished run has recorded."""
    return is_unfinished(folder) or any((folder / name).exists() for name in HISTORIES)


def history_folders(folder: Path) -> list[Path]:
    """The folders with a history in a run folder: itself, or its parts; of an evaluation, the parts of each store."""
    found = [path for path in (folder, *sorted(folder.glob("*/"))) if path.name != CHUNKS and has_history(path)]
    return found or [path for path in sorted(folder.glob("*/*/")) if path.name != CHUNKS and has_history(path)]


def kept_history(folder: Path) -> Path | None:
    """The folder of the history that an unfinished `lockref sim` keeps in that of its results; None without one."""
    kept = folder / CHUNKS
    return kept if (kept / f"{EVENTS}.parquet").exists() else None


def _unfinished(folder: Path, notes: Notes) -> tuple[pa.Table, pa.Table, Notes]:
    """The rows that a run has recorded so far."""
    kept = kept_history(folder)
    if kept is not None:
        return load_history(kept)
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

    is_parquet: the events are Parquet; else they are JSON lines. lacking: the damaged recording beside them, of which
    a part is in no event; None without one.
    """

    events: Path
    runs: Path | None
    is_parquet: bool
    lacking: Path | None = None


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
    lacking = events.with_name(DAMAGED)
    return HistoryFiles(
        events=events,
        runs=runs_beside(events),
        is_parquet=is_parquet,
        lacking=lacking if lacking.exists() else None,
    )


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
        return not any(line.strip() for line in _lines(path))
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


def _checked(table: pa.Table, described: pa.Table | None, path: Path, notes: Notes) -> pa.Table:
    """The rows that are events of described runs. Columns that may be null may be absent."""
    expect_history(table.schema, path)
    read = check_table(table, described_runs(described))
    note_lost(read.lost, notes)
    if len(table) and not len(read.events) and NO_ROW_IN_RUNS not in notes.quarantined:
        raise HistoryUnreadable(f"{path} holds no event of a history ({_most_common(notes)})")
    return read.events


def described_runs(described: pa.Table | None) -> pa.Array | None:
    """The numbers of the runs that are described; None where there is no table of runs."""
    return None if described is None else pc.unique(described["run"])


def expect_history(schema: pa.Schema, path: object) -> None:
    """Raise HistoryUnreadable where the columns of a Parquet file are not those of a history that we read."""
    version = (schema.metadata or {}).get(b"lockref.history")
    if version is not None and version != str(FORMAT_VERSION).encode():
        raise HistoryUnreadable(
            f"{path} has history format {version.decode(errors='replace')!r}; this version reads {FORMAT_VERSION}"
        )
    missing = [column.name for column in COLUMNS if column.is_required and column.name not in schema.names]
    if missing:
        raise HistoryUnreadable(f"{path} is Parquet but no history: it has no column {missing[0]!r}")


def note_lost(lost: pa.Table, notes: Notes) -> None:
    """Take note of lost records (`reports.record_tables.LOST`)."""
    for counted_reason in pc.value_counts(lost["reason"]).to_pylist():
        notes.quarantined[counted_reason["values"]] += counted_reason["counts"]
    notes.damaged.update(pc.unique(lost["run"].drop_null()).to_pylist())
    notes.nameless += lost["run"].null_count


def _most_common(notes: Notes) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in notes.quarantined.most_common(3)) or "it is empty"


def _lines(path: Path) -> Iterator[bytes]:
    """Lines, the last one perhaps without its end. Bounded, so that a binary file cannot fill the memory."""
    with path.open("rb") as file:
        yield from bounded_lines(file)


def _read_lines(path: Path, described: pa.Table | None, notes: Notes) -> pa.Table:
    known = None if described is None else frozenset(described["run"].to_pylist())
    read = check_lines(_lines(path), known)
    lost = read.lost
    if read.torn is not None:
        if read.last_run is not None:
            notes.cut_off.append(read.last_run)
        else:
            lost = pa.concat_tables([lost, read.torn.lost])
    note_lost(lost, notes)
    if read.last_run is None:
        found = _most_common(notes)
        raise HistoryUnreadable(f"{path} holds no event of a history ({found}): one JSON object per line is expected")
    return read.events


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
        rows = [_run_row(path, number, line) for number, line in enumerate(_lines(path), 1) if line.strip()]
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
    unnumbered = flags(pc.is_null(events["seq"]))
    if not unnumbered.any():
        return events.cast(SCHEMA)
    known = pc.fill_null(events["seq"], 0).to_numpy()
    place = events.column_names.index("seq")
    seq = pa.array(np.where(unnumbered, UNNUMBERED + np.arange(len(events)), known))
    return numbered(events.set_column(place, SCHEMA.field("seq"), seq).cast(SCHEMA))


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
    pq.write_table(table, beside, compression="zstd", row_group_size=ROW_GROUP_EVENTS)
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
