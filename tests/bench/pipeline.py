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
from tests.bench.figures import Figure, Spread, in_turn, seconds, warm
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


def _rows_per_s(rows: int, took: Spread) -> Spread:
    return Spread(tuple(rows / one for one in took.values))


def measure(sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """Figures for each size; one Spark session for all, warmed up by the smallest query."""
    import duckdb

    from reports.checks import judge
    from reports.pipeline.analysis import analyse
    from reports.spark.session import spark_session, stop

    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        spark = spark_session(Path(scratch) / "spark", is_long=True)
        spark.range(1000).selectExpr("id % 7 as k").groupBy("k").count().collect()
        took = time.perf_counter() - began
        figures.append(Figure(name="session and first query", value=took, unit="s", note="cold, there is but one"))
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
                    lambda ours=ours: seconds(lambda: spark.sql(ours).collect()),  # type: ignore[misc]
                    lambda theirs=theirs, pattern=pattern: seconds(
                        lambda: duckdb.sql(theirs.format(path=pattern)).fetchall()
                    ),  # type: ignore[misc]
                    rounds=3,
                )
                note = f"{of_spark} s against {of_duck} s"
                figures.append(Figure.of(f"{label}: {name}, Spark / DuckDB", of_spark.over(of_duck), "x", note=note))
                figures.append(Figure.of(f"{label}: {name}", _rows_per_s(events, of_spark), "rows/s"))
            spent = warm(
                lambda folder=folder: seconds(lambda: analyse([folder], Path(scratch) / "out", spark)),  # type: ignore[misc]
                rounds=2,
            )
            note = f"{spent} s: verdicts, latencies, fairness, tables"
            figures.append(Figure.of(f"{label}: the whole pipeline", _rows_per_s(events, spent), "rows/s", note=note))
        block = history(["" for _ in range(_BLOCK_RUNS)])
        alone = warm(lambda: seconds(lambda: judge(*block)))
        figures.append(Figure.of("the judge alone, in-process", _rows_per_s(len(block[0]), alone), "rows/s"))
        stop()
    return figures
