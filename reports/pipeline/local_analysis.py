"""Histories in, results out, in this process: what `reports.pipeline.analysis` does on Spark, for what fits in memory.

The judge is the same function, the tables have the same rows (`reports.pipeline.local_tables`), and the same
`summarise` words what was counted. So the figures are the same, and a page of a small run starts no JVM. What is
counted over the tables is written twice, here and in SQL; tests/spark/test_pipeline.py holds each to the other.
"""

from __future__ import annotations

import platform
import shutil
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.strict_json import read_object
from lockref.words import ABSENT
from reports.checks import judge_with_handoffs
from reports.checks.facts.columns import Ints
from reports.checks.measures.endings import ENDINGS
from reports.checks.summary import Summary
from reports.formats.results import Results
from reports.history_files import Notes, find_history, is_unfinished, load_history
from reports.pipeline.counts import ordered
from reports.pipeline.inputs import RUN_BITS
from reports.pipeline.judged_tables import judged_tables
from reports.pipeline.latency import GRID
from reports.pipeline.local_tables import history_tables, in_groups, integers, percentiles, texts
from reports.pipeline.summary import (
    CLIENTS_MAX,
    POINTS_MAX,
    TIMELINE_EVENTS_MAX,
    TIMELINES_MAX,
    Facts,
    FailureRow,
    summarise,
)  # fmt: skip
from reports.pipeline.timeline import KINDS_SHOWN

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
        except (pa.ArrowException, OSError):
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
        facts, tables = _counted(events, runs, notes, index=index, name=str(folder))
        _write_tables(tables, out / "tables", index)
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
    """One file for each table and part; run numbers are moved as `reports.pipeline.inputs` says."""
    for name, table in tables.items():
        place = table.column_names.index("run")
        moved = pc.add(table["run"].cast(pa.int64()), index << RUN_BITS)
        (folder / name).mkdir(parents=True, exist_ok=True)
        path = folder / name / f"part-{index:05}.parquet"
        pq.write_table(table.set_column(place, "run", moved), path, compression="zstd")


def _counted(
    events: pa.Table, runs: pa.Table, notes: Notes, *, index: int, name: str
) -> tuple[Facts, dict[str, pa.Table]]:
    """Everything that is counted of one history, and its tables."""
    judgement, handoffs = judge_with_handoffs(events, runs)
    counts = Summary.of(judgement, events, runs, damaged=len(notes.damaged), nameless=notes.nameless)
    assert set(counts.endings) <= set(ENDINGS), "a grant ends in one of the ways that are told"
    facts = Facts(
        sources={index: name},
        events={index: len(events)},
        rejects={(index, reason): number for reason, number in notes.quarantined.items()},
        counts=counts,
        classes=[{"class": name, "runs": number} for name, number in counts.classes.items()],
    )
    tables = judged_tables(judgement, handoffs)
    unfit = judgement.records.filter(pc.equal(judgement.records["state"].cast(pa.string()), "damaged"))["run"]
    if len(unfit):
        events, runs, handoffs = (
            table.filter(pc.invert(pc.is_in(table["run"], value_set=unfit.combine_chunks())))
            for table in (events, runs, handoffs)
        )
    measured = history_tables(events, handoffs)
    cells = _Cells(runs, events)
    facts.failures = _failures(tables, events, cells, index)
    facts.quantiles = _quantiles(measured["samples"], cells)
    facts.outcomes = _outcomes(measured, cells)
    facts.scatter = _scatter(measured["samples"], cells)
    facts.fairness = _fairness(measured["fairness"], cells)
    facts.clients, facts.clients_total = _clients(measured["clients"], cells)
    return facts, {**tables, **measured}


class _Cells:
    """The runs of one history by cell: scenario, lock and store. Tables name runs; figures are told by cell."""

    def __init__(self, runs: pa.Table, events: pa.Table) -> None:
        described = runs.select(["run", "seed", "scenario", "provider", "backend", "world"]).to_pylist()
        self.about = {row["run"]: row for row in sorted(described, key=lambda row: int(row["run"]))}
        self.numbers = np.array(list(self.about), dtype=np.int64)
        named = [_cell(row) for row in self.about.values()]
        self.words = sorted(set(named))
        self._codes = np.array([self.words.index(cell) for cell in named], dtype=np.int64)
        firsts = events.group_by("run", use_threads=False).aggregate([("at_ns", "min")])
        first_ns = dict(zip(firsts["run"].to_pylist(), firsts["at_ns_min"].to_pylist(), strict=True))
        is_simulated = [row["world"] == "simulated" for row in self.about.values()]
        self._zero_ns = np.array(
            [0 if simulated else first_ns.get(run, 0) for run, simulated in zip(self.about, is_simulated, strict=True)],
            dtype=np.int64,
        )

    def of(self, run: Ints) -> Ints:
        """The cell of each run, as a place in `words`."""
        return self._codes[np.searchsorted(self.numbers, run)]

    def zero_ns(self, run: Ints) -> Ints:
        """The instant from which the picture of each run counts."""
        return self._zero_ns[np.searchsorted(self.numbers, run)]

    def named(self, run: int) -> str:
        """The cell of one run."""
        return _cell(self.about[run])


def _cell(row: Mapping[str, Any]) -> str:
    return " · ".join(row[name] for name in ("scenario", "provider", "backend") if row[name])


def _failures(tables: Mapping[str, pa.Table], events: pa.Table, cells: _Cells, index: int) -> list[FailureRow]:
    """Distinct failures: the same clause broken in the same way in the same cell; the first of them with timelines."""
    verdicts = tables["verdicts"]
    broken = verdicts.filter(pc.equal(verdicts["verdict"], "violated")).sort_by([("run", "ascending")])
    found: dict[tuple[str, str, str], FailureRow] = {}
    for row in broken.to_pylist():
        witness = read_object(row["witness"]) if row["witness"] else {}
        key = (row["clause"], cells.named(row["run"]), str(witness.get("kind") or ""))
        if key in found:
            found[key].runs += 1
            continue
        about = cells.about[row["run"]]
        found[key] = FailureRow(
            clause=row["clause"],
            cell=key[1],
            runs=1,
            run=row["run"] + (index << RUN_BITS),
            seed=about["seed"],
            scenario=about["scenario"],
            provider=about["provider"],
            backend=about["backend"] or "",
            world=about["world"],
            at_ns=row["at_ns"],
            witness=witness,
        )
    failures = [row for _, row in sorted(found.items(), key=lambda each: (each[0][0], -each[1].runs, each[0][1:]))]
    shown = events.filter(pc.is_in(events["kind"].cast(pa.string()), pa.array(KINDS_SHOWN)))
    for failure in failures[:TIMELINES_MAX]:
        run = failure.run - (index << RUN_BITS)
        rows = shown.filter(pc.equal(shown["run"], run)).sort_by("seq").slice(0, TIMELINE_EVENTS_MAX)
        failure.events = rows.select(_TIMELINE_COLUMNS).to_pylist()
        failure.grants = tables["grants"].filter(pc.equal(tables["grants"]["run"], run)).to_pylist()
    return failures


_TIMELINE_COLUMNS: Final = [
    "seq", "at_ns", "node", "task", "lock", "kind", "outcome", "request", "token", "owner", "detail", "run",
]  # fmt: skip


def _quantiles(samples: pa.Table, cells: _Cells) -> list[dict[str, Any]]:
    named = [texts(samples, name) for name in ("measure", "op", "outcome")]
    cell, value = cells.of(integers(samples, "run")), integers(samples, "value_ns")
    order, starts = in_groups(cell, *(each.codes for each in named), then=(value,))
    grid = np.array(GRID)
    found = []
    for rows in np.split(order, starts[1:]) if len(order) else ():
        known = value[rows]
        known = known[known != ABSENT]
        if not len(known):
            continue
        measure, op, outcome = (each.words[each.codes[rows[0]]] for each in named)
        at = percentiles(known, grid).tolist()
        cell_name = cells.words[cell[rows[0]]]
        found.append(
            {"cell": cell_name, "measure": measure, "op": op, "outcome": outcome, "samples": len(rows), "at": at}
        )
    return ordered(found, "measure", "op", "outcome", "cell")


def _outcomes(measured: Mapping[str, pa.Table], cells: _Cells) -> list[dict[str, Any]]:
    found = []
    for kind, name in (("call", "calls"), ("request", "requests")):
        table = measured[name]
        op, outcome = texts(table, "op"), texts(table, "outcome")
        cell = cells.of(integers(table, "run"))
        order, starts = in_groups(cell, op.codes, outcome.codes)
        for rows in np.split(order, starts[1:]) if len(order) else ():
            code = outcome.codes[rows[0]]
            found.append(
                {
                    "cell": cells.words[cell[rows[0]]],
                    "kind": kind,
                    "op": op.words[op.codes[rows[0]]],
                    "outcome": outcome.words[code] if code >= 0 else "open",
                    "count": len(rows),
                }
            )
    return ordered(found, "cell", "kind", "op", "-count", "outcome")


def _scatter(samples: pa.Table, cells: _Cells) -> list[dict[str, Any]]:
    """Single waits and leases, at most `POINTS_MAX` of each, chosen by a hash, so that one history has one picture."""
    found = []
    for measure in ("wait", "lease"):
        own = samples.filter(pc.equal(samples["measure"], measure))
        run, at, value = (integers(own, name) for name in ("run", "at_ns", "value_ns"))
        outcome, cell = texts(own, "outcome"), cells.of(run)
        since = at - cells.zero_ns(run)
        is_shown = _is_chosen(run, at, value)
        order, starts = in_groups(cell, outcome.codes, then=(since, value))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            shown = rows[is_shown[rows]]
            if not len(shown):
                continue
            points = zip(since[shown].tolist(), value[shown].tolist(), strict=True)
            found.append(
                {
                    "cell": cells.words[cell[rows[0]]],
                    "measure": measure,
                    "outcome": outcome.words[outcome.codes[rows[0]]],
                    "total": len(rows),
                    "points": [{"at_ns": point_at, "value_ns": point} for point_at, point in points],
                }
            )
    return ordered(found, "measure", "cell", "outcome")


def _is_chosen(run: Ints, at: Ints, value: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    chosen = np.ones(len(run), dtype=np.bool_)
    if len(run) > POINTS_MAX:
        told = zip(run.tolist(), at.tolist(), value.tolist(), strict=True)
        hashes = np.array([zlib.crc32(f"{number} {when} {length}".encode()) for number, when, length in told])
        chosen[np.lexsort((value, at, run, hashes))[POINTS_MAX:]] = False
    return chosen


def _fairness(table: pa.Table, cells: _Cells) -> list[dict[str, Any]]:
    run, grants, streak = (integers(table, name) for name in ("run", "grants", "longest_streak"))
    jain = table["jain"].to_numpy()
    cell = cells.of(run)
    order, starts = in_groups(cell)
    found = []
    for rows in np.split(order, starts[1:]) if len(order) else ():
        known = np.sort(jain[rows][~np.isnan(jain[rows])])
        found.append(
            {
                "cell": cells.words[cell[rows[0]]],
                "runs": len(rows),
                "grants": int(grants[rows].sum()),
                "jain_min": float(known[0]) if len(known) else None,
                "jain_p50": float(percentiles(known, np.array([0.5]))[0]) if len(known) else None,
                "longest_streak": int(streak[rows].max()),
            }
        )
    return ordered(found, "cell")


def _clients(table: pa.Table, cells: _Cells) -> tuple[list[dict[str, Any]], int]:
    """The clients with the most grants of each cell, and how many clients there are in all."""
    asked, granted, wait = (integers(table, name) for name in ("asked", "granted", "wait_max_ns"))
    node, task, cell = texts(table, "node"), texts(table, "task"), cells.of(integers(table, "run"))
    order, starts = in_groups(cell, node.codes, task.codes)
    found = []
    for rows in np.split(order, starts[1:]) if len(order) else ():
        first = rows[0]
        name, part = node.words[node.codes[first]], task.words[task.codes[first]] if task.codes[first] >= 0 else "main"
        longest = int(wait[rows].max())
        found.append(
            {
                "cell": cells.words[cell[first]],
                "client": name if part == "main" else f"{name}/{part}",
                "asked": int(asked[rows].sum()),
                "granted": int(granted[rows].sum()),
                "wait_max_ns": None if longest == ABSENT else longest,
            }
        )
    return ordered(found, "cell", "-granted", "client")[:CLIENTS_MAX], len(found)
