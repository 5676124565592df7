"""The reference of what a run leaves: the columns of a history with their types, and the keys of its JSON documents."""

from __future__ import annotations

import pyarrow as pa
from pydantic import BaseModel

from docs.site.markdown import code, table
from docs.site.schema_tables import Forms, section
from lockref.history import RUNS_SCHEMA, SCHEMA
from reports.formats.gate_result import GateResult
from reports.formats.results import Results

TYPES = {"int64": "whole number (int64)", "bool": "true or false (bool)", "string": "text (string)"}


def event_types() -> str:
    """The columns of `events.parquet`."""
    return _columns(SCHEMA)


def run_types() -> str:
    """The columns of `runs.parquet`."""
    return _columns(RUNS_SCHEMA)


def results_keys() -> str:
    """The keys of `results.json`."""
    return _document(Results)


def gate_keys() -> str:
    """The keys of `gate.json`."""
    return _document(GateResult)


def _columns(schema: pa.Schema) -> str:
    return table(
        ("column", "type", "may be null"),
        [(code(field.name), _type(field.type), "yes" if field.nullable else "no") for field in schema],
    )


def _type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"{_type(kind.value_type)}, dictionary-encoded"
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"map of {_type(kind.key_type)} to {_type(kind.item_type)}"
    return TYPES[str(kind)]


def _document(model: type[BaseModel]) -> str:
    schema = model.model_json_schema(mode="serialization")
    forms = Forms(known={}, names={})
    parts = [section("### The document", schema, forms)]
    for name, definition in schema["$defs"].items():
        parts.append(section(f"### {name}", definition, forms, every_key=False))
    return "\n".join(parts)
