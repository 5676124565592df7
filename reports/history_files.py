"""Histories on disk: how they are found, read and written.

A history is a run folder (`events.parquet` and `runs.parquet`, or the same
names with `.jsonl`) or one file of events, its runs beside it or inferred. The
folder of a run that was killed, or that still records, holds a spool instead.

A record that is no event is set aside and counted by reason. A last line that
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.errors import HistoryUnreadable, NothingRecorded, shown
from lockref.history import ENUM_COLUMNS, FORMAT_VERSION, RUNS_SCHEMA, SCHEMA, runs_table
from lockref.lab.spool import SPOOL, is_spool, read_spool, remove_spool
from lockref.strict_json import NotJson, read_json, read_object
from lockref.words import counted
from reports.checks.facts.surroundings.integrity import renumbered
from reports.checks.thresholds.limits import parse_threshold

EVENTS, RUNS = "events", "runs"
CHUNKS: Final = "chunks"
"""The folder of a campaign's finished chunks (`scenarios.checkpoint`), in that of its results."""
SUFFIXES: Final = ("parquet", "jsonl")
EVENT_NAMES: Final = (EVENTS, "history")
"""What a file of events in a run folder may be called, the usual name first."""
HISTORIES: Final = tuple(f"{EVENTS}.{suffix}" for suffix in SUFFIXES)
"""Names under which a folder holds a history."""
REQUIRED: Final = ("run", "at_ns", "node", "kind")
LINE_BYTES_MAX: Final = 1 << 20
"""Longer lines are set aside: an event takes some hundred bytes, and a binary file has no line ends."""

RUN_MAX: Final = (1 << 40) - 1
"""The largest run number. Where histories are joined, the bits above it say which history a run is from."""

CLOCKS: Final = ("at_ns", "wall_ns", "mono_ns")
CLOCK_MIN_NS: Final = -(2**61)
CLOCK_MAX_NS: Final = 2**62 - 1
"""What a clock may show, the years 1896 to 2116 on a wall: differences and deadlines then fit into 64 bits."""

_INT64 = range(-(2**63), 2**63)
_RANGES = {"run": range(RUN_MAX + 1), **dict.fromkeys(CLOCKS, range(CLOCK_MIN_NS, CLOCK_MAX_NS + 1))}
_NAMES = {name: {member.name.lower() for member in members} for name, members in ENUM_COLUMNS.items()}
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
    events = _numbered(events, notes)
    runs = _inferred(events, notes) if files.runs is None else _read_runs(files.runs)
    runs = _marked(runs, notes)
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
    """What a real run has recorded so far, as the history of one run that was cut off there."""
    events = read_spool(folder / SPOOL)
    if len(events) == 0:
        raise NothingRecorded(f"{folder}: the run ended, or was looked at, before anything was recorded; run it again")
    runs_path = runs_beside(folder / f"{EVENTS}.parquet")
    notes.cut_off.append(0)
    runs = _marked(_inferred(events, notes) if runs_path is None else _read_runs(runs_path), notes)
    last_ns = pc.max(events["at_ns"])
    place = runs.column_names.index("end_ns")
    return events, runs.set_column(place, RUNS_SCHEMA.field("end_ns"), pc.fill_null(runs["end_ns"], last_ns)), notes


def _without_runs(table: pa.Table, damaged: set[int]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["run"], value_set=pa.array(sorted(damaged), pa.int64()))))


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """Where one history lies: its events (a file, or a folder of part files), and what describes its runs, if anything.

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
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise HistoryUnreadable(f"{path} is Parquet but no history: it has no column {missing[0]!r}")
    columns = []
    for wanted in SCHEMA:
        if wanted.name not in table.column_names:
            columns.append(_absent_column(wanted, len(table), path))
            continue
        column = table.column(wanted.name)
        try:
            if wanted.name in ("op", "outcome") and column.null_count:
                column = pc.fill_null(column.cast(pa.string()), "none")
            if pa.types.is_dictionary(wanted.type) and not pa.types.is_dictionary(column.type):
                column = pc.dictionary_encode(column.cast(pa.string()))
            columns.append(column.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise HistoryUnreadable(f"{path} is no history: column {wanted.name!r} is {column.type}") from error
    events = pa.table(columns, names=SCHEMA.names)
    bad = np.zeros(len(events), dtype=np.bool_)
    for problem, wrong in _wrong_rows(events):
        lost = events["run"].filter(pa.array(wrong & ~bad))
        if len(lost):
            notes.quarantined[problem] += len(lost)
            known = [run for run in lost.to_pylist() if run is not None and run in _RANGES["run"]]
            notes.damaged.update(known)
            notes.nameless += len(lost) - len(known)
        bad |= wrong
    if bad.all() and len(events):
        raise HistoryUnreadable(f"{path} holds no event of a history ({_most_common(notes)})")
    return events.filter(pa.array(~bad)) if bad.any() else events


def _wrong_rows(events: pa.Table) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """What may be wrong with rows, and in which rows it is. A row with several defects counts under the first."""
    for name in REQUIRED:
        yield f"no {name}", _flags(pc.is_null(events[name]))
    for name, allowed in _RANGES.items():
        inside = pc.and_(pc.greater_equal(events[name], allowed.start), pc.less(events[name], allowed.stop))
        yield f"{name} is out of range", ~_flags(pc.fill_null(inside, fill_value=True))
    for name, known in _NAMES.items():
        words = pc.unique(events[name].cast(pa.string())).to_pylist()
        unknown = pa.array([word for word in words if word is not None and word not in known], pa.string())
        wrong = np.zeros(len(events), dtype=np.bool_)
        if len(unknown):
            wrong = _flags(pc.is_in(events[name].cast(pa.string()), unknown))
        yield f"unknown {name}", wrong


def _flags(mask: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.asarray(mask.to_numpy(), dtype=np.bool_)
    return flags


def _most_common(notes: Notes) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in notes.quarantined.most_common(3)) or "it is empty"


def _absent_column(wanted: pa.Field, count: int, path: Path) -> pa.Array:
    if wanted.name == "seq":
        return pa.nulls(count, pa.int64())
    if wanted.name in ENUM_COLUMNS:
        return pa.array(["none"] * count).dictionary_encode()
    if not wanted.nullable:
        raise HistoryUnreadable(f"{path} is no history: it has no column {wanted.name!r}")
    return pa.nulls(count, wanted.type)


def _lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Lines and whether each is complete. Bounded, so that a binary file cannot fill the memory."""
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES_MAX):
            yield line, line.endswith(b"\n")


@dataclass(frozen=True, slots=True)
class TornTail:
    """A final line that was being written when its writer died; `run` is that of the line before."""

    text: str
    run: int | None


def torn_tail(path: Path) -> TornTail | None:
    """The unfinished last line of a JSON-lines file, or None. For Spark, which does not read lines in order.

    Damage elsewhere is not looked at here, and a folder of part files has no last line.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - LINE_BYTES_MAX))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    if not lines[-1].strip() or _as_object(lines[-1]) is not None:
        return None
    before = _as_object(lines[-2]) if len(lines) > 1 else None
    run = before.get("run") if before else None
    return TornTail(text=lines[-1], run=run if isinstance(run, int) else None)


def _as_object(line: str | bytes) -> dict[str, Any] | None:
    try:
        return read_object(line)
    except NotJson:
        return None


def _read_lines(path: Path, notes: Notes) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    last_run: int | None = None
    for line, is_complete in _lines(path):
        if not line.strip():
            continue
        event, problem = _parsed(line)
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


def _parsed(line: bytes) -> tuple[dict[str, Any], str]:
    """An event with every column and ""; or the columns that could be read, the run first, and why it is no event."""
    try:
        said = read_json(line)
    except NotJson:
        return {}, "not JSON"
    if not isinstance(said, dict):
        return {}, "not a JSON object"
    event: dict[str, Any] = {}
    for wanted in SCHEMA:
        name, value = wanted.name, said.get(wanted.name)
        if value is None:
            if name in REQUIRED:
                return event, f"no {name}"
            value = "none" if name in _NAMES else None
        elif name in _NAMES:
            if not isinstance(value, str) or value not in _NAMES[name]:
                return event, f"unknown {name}"
        elif pa.types.is_dictionary(wanted.type):
            if not isinstance(value, str):
                return event, f"{name} is not text"
        elif not isinstance(value, int) or isinstance(value, bool) or value not in _INT64:
            return event, f"{name} is not a 64-bit integer"
        elif value not in _RANGES.get(name, _INT64):
            return event, f"{name} is out of range"
        event[name] = value
    return event, ""


def _read_runs(path: Path) -> pa.Table:
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
    limits |= dict.fromkeys(("faults_end_ns", "end_ns"), _RANGES["at_ns"])
    limits |= {"rate_error_ppm": range(1_000_000), "run": _RANGES["run"]}
    for name in ("must_happen", "claims", "thresholds", "tasks_left"):
        words = row.get(name)
        if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise HistoryUnreadable(f"{path}: run {row.get('run')}: {name} is {shown(words)}; expected a list of words")
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


def _numbered(events: pa.Table, notes: Notes) -> pa.Table:
    """Events with a `seq` each: counted where a run carries none at all, set aside where only some rows lack it."""
    unnumbered = _flags(pc.is_null(events["seq"]))
    if not unnumbered.any():
        return events.cast(SCHEMA)
    run = events["run"].to_numpy()
    partly = np.intersect1d(run[unnumbered], run[~unnumbered])
    lost = unnumbered & np.isin(run, partly)
    if lost.any():
        notes.quarantined["no seq, where other events of the run have one"] += int(lost.sum())
        notes.damaged.update(partly.tolist())
    counted_anew = renumbered(events)["seq"].to_numpy()
    known = pc.fill_null(events["seq"], 0).to_numpy()
    place = events.column_names.index("seq")
    seq = pa.array(np.where(unnumbered, counted_anew, known))
    return events.set_column(place, SCHEMA.field("seq"), seq).filter(pa.array(~lost)).cast(SCHEMA)


def _inferred(events: pa.Table, notes: Notes) -> pa.Table:
    """Rows for the runs of a history that has no runs table."""
    applied = events.filter(pc.equal(events["kind"].cast(pa.string()), "applied"))
    simulated = set(pc.unique(applied["run"]).to_pylist())
    numbers = sorted(pc.unique(events["run"]).to_pylist())
    notes.inferred = len(numbers)
    return runs_table(_inferred_row(run, run in simulated) for run in numbers)


def _marked(runs: pa.Table, notes: Notes) -> pa.Table:
    """The runs. A run whose last line is torn is marked as cut off, and ends with its last whole event."""
    if not notes.cut_off:
        return runs
    is_torn = pc.is_in(runs["run"], value_set=pa.array(notes.cut_off, pa.int64()))
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
