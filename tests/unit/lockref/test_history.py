"""The runs table: a `RunRow` has its columns, and values that fit into them."""

from __future__ import annotations

import types
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from lockref.history import RUNS_SCHEMA, RunRow, runs_table

ARROW = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    list[str]: pa.list_(pa.string()),
    dict[str, str]: pa.map_(pa.string(), pa.string()),
    dict[str, int]: pa.map_(pa.string(), pa.int64()),
}


def arrow_type(hint: Any) -> pa.DataType:
    """The column for values of a type; None beside it is a null."""
    if get_origin(hint) is types.UnionType:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return ARROW[hint]


def test_a_row_has_the_columns_of_the_table() -> None:
    """A column that only one of the two knows would be dropped, or always null."""
    hints = get_type_hints(RunRow)
    assert {name: arrow_type(hint) for name, hint in hints.items()} == {
        column.name: column.type for column in RUNS_SCHEMA
    }


def test_a_value_that_may_be_none_has_a_column_that_may_be_null() -> None:
    """A null in any other column would end the command that writes the row."""
    optional = {name for name, hint in get_type_hints(RunRow).items() if get_origin(hint) is types.UnionType}
    assert optional <= {column.name for column in RUNS_SCHEMA if column.nullable}


def test_keys_left_out_are_null_or_empty() -> None:
    """Most rows tell only what their world knows."""
    row: RunRow = {"run": 3, "scenario": "x", "provider": "y", "world": "real", "tasks_left": None}
    (read,) = runs_table([row]).to_pylist()
    assert (read["run"], read["must_happen"], read["is_cut_off"], read["seed"], read["tasks_left"]) == (
        3, [], False, None, None,
    )  # fmt: skip
