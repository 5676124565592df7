"""Histories in, results out, in one process: what `reports.pipeline.analysis` gives, where they fit in memory.

No JVM: a JVM takes ten seconds before it reads a row, and a process holds a history in memory only up to some millions
of rows. What is counted is counted by the same functions (`reports.pipeline.measuring`).
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from reports.formats.results import Results
from reports.history_files import find_history, is_unfinished, load_history
from reports.pipeline.measuring import measure_runs, moved_runs, show_timelines
from reports.pipeline.summary import summarise

LOCAL_EVENTS_MAX: Final = 2_000_000
"""So many events of one page are analysed in this process, in about a gigabyte; more go through Spark."""
_LINE_BYTES: Final = 200
"""About the length of an event as a line of JSON."""


def event_count(folder: Path) -> int:
    """The number of events in a folder's history, without reading them; of lines and of an unfinished run, about.

    0 where the file cannot be read: its reader says what is wrong. Raises HistoryUnreadable where there is no history.
    """
    if is_unfinished(folder):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // _LINE_BYTES
    files = find_history(folder)
    paths = [files.events] if files.events.is_file() else sorted(files.events.rglob("*.parquet"))
    if files.is_parquet:
        try:
            return sum(pq.read_metadata(path).num_rows for path in paths)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            return 0
    return sum(path.stat().st_size for path in paths) // _LINE_BYTES


def analyse_locally(
    inputs: Sequence[Path],
    out: Path,
    *,
    titles: Sequence[str] = (),
    provenance: Sequence[Mapping[str, Any]] = (),
) -> list[Results]:
    """As `analysis.analyse_each`: results for each input; the tables of all, and each one's results, below `out`.

    Raises HistoryUnreadable where an input is no history.
    """
    shutil.rmtree(out / "tables", ignore_errors=True)
    answers = []
    for index, folder in enumerate(inputs):
        events, runs, notes = load_history(folder)
        facts, tables = measure_runs(events, runs, notes, index=index, name=str(folder))
        show_timelines(facts.with_timelines, events, tables["grants"])
        _write_tables(moved_runs(tables, index), out / "tables", index)
        results = summarise(facts, title=titles[index] if titles else "")
        about = provenance[index] if provenance else {}
        results.provenance = {
            **about,
            "measured": "in one process",
            "python": platform.python_version(),
            "inputs": [str(folder)],
        }
        results.files = {"results": "results.json", "tables": "../tables"}
        own = out / f"{index + 1}"
        own.mkdir(parents=True, exist_ok=True)
        results.write(own / "results.json")
        answers.append(results)
    return answers


def _write_tables(tables: Mapping[str, pa.Table], folder: Path, index: int) -> None:
    """One file for each table and input."""
    for name, table in tables.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name / f"part-{index:05}.parquet", compression="zstd")
