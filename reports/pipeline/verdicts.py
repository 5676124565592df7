"""The judge on Spark: one definition, applied to groups of runs.

Runs are dealt into groups of some hundred thousand events, each group's
events and run rows are brought together, and `reports.checks.judgement`, the
function that judges a single run in-process, judges the group. No clause is
written a second time in SQL. A Spark function returns one schema and a
judgement has several tables, so a group's rows come back in one wide frame with
a struct for each table, of which each row fills one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark code uses)

from lockref.history import RUNS_SCHEMA, SCHEMA, runs_table, to_table
from reports.checks.facts.surroundings.integrity import numbered
from reports.pipeline.judged_tables import judged_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS_PER_GROUP = 300_000
"""So many that the cost of a call does not matter; so few that every core is busy and a worker stays under 1 GB."""


def group_count(*, events: int, runs: int, cores: int) -> int:
    """The number of groups to deal runs into: by the number of events, at least one per core, at most one per run."""
    return max(1, min(runs, max(cores, -(-events // EVENTS_PER_GROUP))))


def judge_groups(events: DataFrame, runs: DataFrame, *, groups: int) -> DataFrame:
    """Judge every group; the rows of all tables side by side. Persist it before `unpacked`.

    The two frames must hold the same runs; a run without events is judged, too.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    group = F.pmod(F.xxhash64("run"), F.lit(groups)).alias("group")
    dealt_events = events.select(group, *SCHEMA.names).groupBy("group")
    dealt_runs = runs.select(group, *RUNS_SCHEMA.names).groupBy("group")
    return dealt_events.cogroup(dealt_runs).applyInArrow(_judge_group, from_arrow_schema(_wide_schema()))


def unpacked(judged: DataFrame, name: str) -> DataFrame:
    """One table of the judgement, of all groups."""
    return judged.where(F.col(name).isNotNull()).select(f"{name}.*")


@cache
def judgement_schemas() -> dict[str, pa.Schema]:
    """The schema of each table, learned from the judgement of nothing."""
    from reports.checks import judge_with_handoffs

    nothing = judge_with_handoffs(to_table([]), runs_table([]))
    return {name: table.schema for name, table in judged_tables(*nothing).items()}


def _wide_schema() -> pa.Schema:
    return pa.schema([pa.field(name, pa.struct(list(schema))) for name, schema in judgement_schemas().items()])


def as_history(table: pa.Table) -> pa.Table:
    """A group's rows, as Spark hands them over, in the history's own schema, by (run, seq).

    Runs of which no event carries a `seq` are numbered in the order of their file.
    """
    if table.num_columns == 0:
        return to_table([])
    ordered = table.sort_by([("run", "ascending"), ("seq", "ascending")])
    columns = []
    for field in SCHEMA:
        column = ordered.column(field.name)
        columns.append(pc.dictionary_encode(column) if pa.types.is_dictionary(field.type) else column)
    return numbered(pa.table(columns, names=SCHEMA.names).cast(SCHEMA))


def _judge_group(events: pa.Table, runs: pa.Table) -> pa.Table:
    from reports.checks import judge_with_handoffs

    described = runs.select(RUNS_SCHEMA.names).sort_by("run") if runs.num_columns else runs_table([])
    tables = judged_tables(*judge_with_handoffs(as_history(events), described.cast(RUNS_SCHEMA)))
    return pa.concat_tables([_widened(name, table) for name, table in tables.items()])


def _widened(name: str, table: pa.Table) -> pa.Table:
    """A table's rows as structs in the column of its name; the other columns are null."""
    columns = {
        field.name: table.to_struct_array() if field.name == name else pa.nulls(len(table), field.type)
        for field in _wide_schema()
    }
    return pa.table(columns, schema=_wide_schema())
