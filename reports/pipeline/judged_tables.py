"""The tables of a judgement by name, in types that Parquet and Spark have: what both ways of analysis write."""

from __future__ import annotations

import pyarrow as pa

from reports.checks.judgement import TABLES, Judgement


def judged_tables(judgement: Judgement, handoffs: pa.Table) -> dict[str, pa.Table]:
    """Every table of a judgement by name, and the hand-offs, in plain types."""
    found = {name: judgement.table(name) for name in TABLES} | {"handoffs": handoffs}
    return {name: plain(table) for name, table in found.items()}


def plain(table: pa.Table) -> pa.Table:
    """The table in types that Spark has: no dictionaries, no unsigned or small integers."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            columns.append(column.cast(column.type.value_type))
        elif pa.types.is_integer(column.type):
            columns.append(column.cast(pa.int64()))
        else:
            columns.append(column)
    return pa.table(columns, names=table.column_names)
