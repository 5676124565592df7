"""The reference of scenario files: each key of each mapping, with form, default and sentence, from the JSON Schema.

The schema comes from the models: it says which forms a value has, and its descriptions are their docstrings, which say
what each key means. A key without a sentence is an error: the site is not built.
"""

from __future__ import annotations

import json
from functools import cache

from pydantic import TypeAdapter

from docs.site.described import described
from docs.site.markdown import code, one_line, table
from docs.site.schema_tables import Forms, Schema, default_of, section
from scenarios.definition.fault_forms import FORMS
from scenarios.definition.schema import scenario_schema
from scenarios.definition.units import Count, Duration, Probability, Rate, Shift

QUANTITIES = {
    "duration": Duration,
    "duration, also negative": Shift,
    "rate": Rate,
    "count": Count,
    "probability": Probability,
}
"""What docs/scenarios.md calls a quantity, with its units, to the type of the model."""

FAULTS = {form.__name__: kind for kind, form in FORMS.items()}


def keys() -> str:
    """A section for the file as a whole, then one for each mapping in it."""
    schema = scenario_schema()
    mappings = {name: part for name, part in schema["$defs"].items() if name not in FAULTS}
    parts = [section("## The file", schema, _forms())]
    return "\n".join([*parts, *(section(f"## {name}", part, _forms()) for name, part in mappings.items())])


def keys_of_a_file() -> str:
    """The keys at the top of a file alone, for docs/scenarios.md, which shows them between its own words."""
    schema = scenario_schema()
    told = described(schema["description"], schema["properties"]).fields
    rows = [(code(key), _default(key, schema), one_line(told[key])) for key in schema["properties"]]
    return table(("key", "default", "meaning"), rows)


def _default(key: str, schema: Schema) -> str:
    name = schema["properties"][key].get("$ref", "").rpartition("/")[2]
    return f"[{name}](reference/scenario-keys.md#{name.lower()})" if name else default_of(key, schema)


def fault_keys() -> str:
    """A section for each kind of fault: what happens, and its keys, which that text explains."""
    definitions = scenario_schema()["$defs"]
    return "\n".join(
        section(f"### `{kind}`", definitions[name], _forms(), every_key=False) for name, kind in FAULTS.items()
    )


@cache
def _forms() -> Forms:
    """The forms of scenario files; each quantity has its name, which is explained in docs/scenarios.md."""
    known = {
        json.dumps(TypeAdapter(kind).json_schema(), sort_keys=True): f"[{name}](../scenarios.md#quantities)"
        for name, kind in QUANTITIES.items()
    }
    return Forms(known=known, names=FAULTS)
