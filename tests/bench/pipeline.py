"""Spark's pipeline at one, ten and fifty million events: against the judge alone, and by how its time grows.

DuckDB is the yardstick for set-based work on one machine, not a part of lockref. What is compared is what both can say
of the same tables: how calls and requests ended, exact quantiles of every kind of duration, grants of clients. The
judgement has no counterpart in SQL; it is compared with the same judge without Spark.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lockref.history import RUNS_SCHEMA
from reports.pipeline.summary import GRID
from tests.bench.figures import Figure, Spread, cpu_seconds, in_turn, seconds, warm
from tests.spark.histories import PLANTS, history

SIZES = (1_000_000, 10_000_000, 50_000_000)
JUDGE_RATIO_MAX = 8
ROWS_PER_S_MIN = 500_000
SLOPE_MAX = 1.05
DUCK_RATIO_MAX = 3
_BLOCK_RUNS = 500
_EVENTS_PER_FILE = 2_000_000

_DUCK = (
    """
    select scenario, provider, 'call' as kind, op, outcome, count(*)
    from read_parquet('{calls}') join read_parquet('{runs}') using (run) group by all
    union all
    select scenario, provider, 'request', op, outcome, count(*)
    from read_parquet('{requests}') join read_parquet('{runs}') using (run) group by all
    """,
    f"""
    select scenario, provider, measure, op, outcome, count(*), quantile_cont(value_ns, {list(GRID)})
    from read_parquet('{{samples}}') join read_parquet('{{runs}}') using (run) group by all
    """,
    """
    select scenario, provider, node, task, sum(asked), sum(granted), max(wait_max_ns)
    from read_parquet('{clients}') join read_parquet('{runs}') using (run) group by all
    """,
)


def write_history(folder: Path, events_min: int) -> int:
    """A history of at least so many events: one block of invented runs, repeated under new run numbers."""
    plants = [PLANTS[place % 4] if place % 10 == 0 else "" for place in range(_BLOCK_RUNS)]
    events, runs = history(plants)
    (folder / "events.parquet").mkdir(parents=True)
    copies = -(-events_min // len(events))
    per_file = max(1, _EVENTS_PER_FILE // len(events))
    numbers, described = events["run"].to_numpy(), []
    for first in range(0, copies, per_file):
        part = [
            events.set_column(0, events.schema.field("run"), pa.array(numbers + copy * _BLOCK_RUNS))
            for copy in range(first, min(copies, first + per_file))
        ]
        pq.write_table(pa.concat_tables(part).unify_dictionaries(), folder / "events.parquet" / f"{first:05}.parquet")
    for copy in range(copies):
        shifted = pa.array(np.arange(_BLOCK_RUNS) + copy * _BLOCK_RUNS)
        described.append(runs.set_column(0, RUNS_SCHEMA.field("run"), shifted))
    pq.write_table(pa.concat_tables(described), folder / "runs.parquet")
    return copies * len(events)


def _against_duckdb(folder: Path, events: pa.Table, runs: pa.Table) -> Figure:
    """CPU time of the aggregates of a page over that of DuckDB, from the same Parquet tables."""
    from reports.checks import measure as checks_measure
    from reports.pipeline.measured_tables import history_tables
    from reports.pipeline.tallies import Cells, Tallies

    tables = {**history_tables(events, checks_measure(events, runs).handoffs), "runs": runs.drop(["claims"])}
    paths = {name: folder / f"{name}.parquet" for name in tables}
    folder.mkdir()
    for name, table in tables.items():
        pq.write_table(table, paths[name], compression="zstd")

    def ours() -> object:
        read = {name: pq.read_table(path, use_threads=False) for name, path in paths.items()}
        tallies = Tallies.of(read, Cells(runs, events))
        return [lengths.quantiles(GRID) for lengths in tallies.lengths.values()], tallies.busiest(2_000)

    def theirs() -> object:
        return [duckdb.execute(query.format(**paths)).fetchall() for query in _DUCK]

    of_ours, of_duckdb = in_turn(lambda: cpu_seconds(ours), lambda: cpu_seconds(theirs), rounds=3)
    ratio = of_ours.over(of_duckdb)
    return Figure.of(
        f"aggregates of {len(events) / 1e6:.1f}M events, ours / DuckDB",
        ratio,
        "x",
        aim=f"<= {DUCK_RATIO_MAX}",
        is_met=ratio.median <= DUCK_RATIO_MAX,
        note=f"{of_ours} CPU s against {of_duckdb}",
    )


def measure(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Figures for each size; one Spark session for all, warmed up by the smallest history."""
    from reports.checks import judge
    from reports.history_files import load_history
    from reports.pipeline.analysis import analyse
    from reports.spark.session import spark_session, stop

    took: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        spark = spark_session(Path(scratch) / "spark")
        for size in sizes:
            folder = Path(scratch) / f"h{size}"
            events = write_history(folder, size)
            label = f"{events / 1e6:.1f}M events"
            told: dict[str, Any] = {}

            def report(folder: Path = folder, told: dict[str, Any] = told) -> None:
                told.update(analyse([folder], Path(scratch) / "out", spark)["provenance"])

            if not took:
                read, runs, _ = load_history(folder)
                whole, alone = in_turn(partial(seconds, report), partial(seconds, partial(judge, read, runs)), rounds=3)
                ratio = whole.over(alone)
                yield Figure.of(
                    f"{label}: the pipeline / the judge alone",
                    ratio,
                    "x",
                    aim=f"<= {JUDGE_RATIO_MAX}",
                    is_met=ratio.median <= JUDGE_RATIO_MAX,
                    note=f"{whole} s against {alone} s",
                )
                yield _against_duckdb(Path(scratch) / "tables", read, runs)
            else:
                whole = warm(lambda: seconds(report), rounds=1)
            took[events] = whole.median
            rows = Spread(tuple(events / one for one in whole.values))
            is_large = size >= 10_000_000
            yield Figure.of(
                f"{label}: the pipeline",
                rows,
                "rows/s",
                aim=f">= {ROWS_PER_S_MIN:,}" if is_large else "",
                is_met=rows.median >= ROWS_PER_S_MIN if is_large else None,
                note=f"{whole} s: verdicts, latencies, fairness, tables",
            )
            peak = told["worker_peak_mb"]
            yield Figure(name=f"{label}: most memory of a worker", value=peak, unit="MB", note="there is but one")
        (least, fast), (most, slow) = min(took.items()), max(took.items())
        if least < most:
            slope = math.log(slow / fast) / math.log(most / least)
            yield Figure(
                name=f"slope from {least / 1e6:.0f}M to {most / 1e6:.0f}M events",
                value=slope,
                unit="",
                aim=f"<= {SLOPE_MAX}",
                is_met=slope <= SLOPE_MAX,
                note="1 is linear",
            )
        stop()
