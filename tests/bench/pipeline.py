"""Spark's pipeline at one and ten million events, beside DuckDB on the same files.

DuckDB is the yardstick for set-based work on one machine, not a part of
lockref. What is compared is what both can say: how calls and requests ended,
and exact quantiles of waits. The judgement has no counterpart in SQL; its rate
stands alone, beside the same judge without Spark.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lockref.history import RUNS_SCHEMA
from tests.bench.figures import Figure, in_turn
from tests.spark.histories import PLANTS, history

SIZES = (1_000_000, 10_000_000)
_BLOCK_RUNS = 500
_EVENTS_PER_FILE = 2_000_000

_DUCK_OUTCOMES = """
    select kind, op, outcome, count(*) from read_parquet('{path}')
    where kind in ('return', 'replied') group by all order by all
"""
_DUCK_WAITS = """
    select outcome, count(*), quantile_cont(wait, [0.5, 0.9, 0.99, 0.999]) from (
        select run, request, max(case when kind = 'return' then outcome end) as outcome,
               max(case when kind = 'return' then at_ns end) - min(case when kind = 'call' then at_ns end) as wait
        from read_parquet('{path}') where kind in ('call', 'return') and op = 'acquire' group by run, request
    ) where wait is not null group by outcome order by outcome
"""
_SPARK_OUTCOMES = """
    select kind, op, outcome, count(*) as n from bench
    where kind in ('return', 'replied') group by kind, op, outcome order by kind, op, outcome
"""
_SPARK_WAITS = """
    select outcome, count(*), percentile(wait, array(0.5, 0.9, 0.99, 0.999)) from (
        select run, request, max(case when kind = 'return' then outcome end) as outcome,
               max(case when kind = 'return' then at_ns end) - min(case when kind = 'call' then at_ns end) as wait
        from bench where kind in ('call', 'return') and op = 'acquire' group by run, request
    ) where wait is not null group by outcome order by outcome
"""


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


def _seconds(work: object) -> float:
    assert callable(work)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """Figures for each size; one Spark session for all, warmed up by the smallest query."""
    import duckdb

    from reports.checks import judge
    from reports.pipeline import analyse
    from reports.spark.session import spark_session, stop

    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        spark = spark_session(Path(scratch) / "spark", is_long=True)
        spark.range(1000).selectExpr("id % 7 as k").groupBy("k").count().collect()
        figures.append(Figure(name="session and first query", value=time.perf_counter() - began, unit="s"))
        for size in sizes:
            folder = Path(scratch) / f"h{size}"
            events = write_history(folder, size)
            label = f"{events / 1e6:.1f}M events"
            pattern = folder / "events.parquet" / "*.parquet"
            spark.read.parquet(str(folder / "events.parquet")).createOrReplaceTempView("bench")
            for name, ours, theirs in (
                ("outcome counts", _SPARK_OUTCOMES, _DUCK_OUTCOMES),
                ("exact wait quantiles", _SPARK_WAITS, _DUCK_WAITS),
            ):
                of_spark, of_duck = in_turn(
                    lambda ours=ours: _seconds(lambda: spark.sql(ours).collect()),  # type: ignore[misc]
                    lambda theirs=theirs, pattern=pattern: _seconds(
                        lambda: duckdb.sql(theirs.format(path=pattern)).fetchall()
                    ),  # type: ignore[misc]
                    rounds=3,
                )
                note = f"{of_spark:.2f} s against {of_duck:.2f} s"
                figures.append(
                    Figure(name=f"{label}: {name}, Spark / DuckDB", value=of_spark / of_duck, unit="x", note=note)
                )
                figures.append(Figure(name=f"{label}: {name}", value=events / of_spark, unit="rows/s"))
            spent = _seconds(lambda folder=folder: analyse([folder], Path(scratch) / "out", spark))  # type: ignore[misc]
            note = f"{spent:.1f} s: verdicts, latencies, fairness, tables"
            figures.append(Figure(name=f"{label}: the whole pipeline", value=events / spent, unit="rows/s", note=note))
        block = history(["" for _ in range(_BLOCK_RUNS)])
        alone = _seconds(lambda: judge(*block))
        figures.append(Figure(name="the judge alone, in-process", value=len(block[0]) / alone, unit="rows/s"))
        stop()
    return figures
