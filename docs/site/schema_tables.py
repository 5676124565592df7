"""A JSON Schema as tables: of each key its form in a few words, its default, and what its model says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sphinx.errors import ExtensionError

from docs.site.described import described
from docs.site.markdown import code, one_line, prose, table

Schema = Mapping[str, Any]

KEYS = {"^n[1-9][0-9]{0,3}$": "client", "^[a-z][a-z0-9_-]{0,39}$": "name"}
"""The pattern of the keys of a mapping to what these keys are."""


class Forms:
    """The forms of one schema.

    known: the text of a schema to the name that a reader knows it by. names: definition to the heading of its section,
    where that is another than its own name.
    """

    def __init__(self, *, known: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._known = known
        self._names = names

    def of(self, schema: Schema) -> str:
        """Which values a schema admits, in a few words."""
        bare = {key: value for key, value in schema.items() if key not in ("default", "title", "description")}
        for several in ("anyOf", "oneOf"):
            bare[several] = [each for each in bare.get(several, ()) if each.get("type") != "null"]
            if not bare[several]:
                del bare[several]
            elif known := self._known.get(json.dumps(bare, sort_keys=True)):
                return known
            else:
                return " or ".join(dict.fromkeys(self._alternatives(bare, several)))
        if "$ref" in bare:
            name = bare["$ref"].rpartition("/")[2]
            return f"[{self._names.get(name, name)}](#{self._names.get(name, name).lower()})"
        if "enum" in bare or "const" in bare:
            return ", ".join(code(json.dumps(each).strip('"')) for each in bare.get("enum", [bare.get("const")]))
        if "discriminator" in schema.get("items", {}):
            return "list of [faults](#faults)"
        if bare.get("type") == "array":
            if "prefixItems" in bare:
                return f"list: {', '.join(self.of(each) for each in bare['prefixItems'])}"
            return f"list of {self.of(bare['items'])}"
        if bare.get("type") == "object":
            return self._mapping(bare)
        return _plain(bare)

    def _alternatives(self, schema: Schema, several: str) -> Iterator[str]:
        rest = {key: value for key, value in schema.items() if key not in (several, "discriminator")}
        for each in schema[several]:
            whole = json.dumps({**each, **rest}, sort_keys=True)
            yield self._known.get(whole) or self.of(each)

    def _mapping(self, schema: Schema) -> str:
        for pattern, inner in schema.get("patternProperties", {}).items():
            return f"mapping of {KEYS.get(pattern, 'clause')} to {self.of(inner)}"
        inner = schema.get("additionalProperties")
        return f"mapping of text to {self.of(inner)}" if isinstance(inner, dict) else "mapping"


WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}


def _plain(schema: Schema) -> str:
    kind = WORDS.get(schema.get("type", ""), "any value")
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if least is not None and most is not None and most < 2**31:
        return f"{kind}, {least} to {most}"
    return f"{kind}, at least {least}" if least is not None else kind


def default_of(key: str, definition: Schema) -> str:
    """What counts where a key is left out, as it would be written; a dash for nothing."""
    if key in definition.get("required", ()):
        return "required"
    default = definition["properties"][key].get("default")
    if isinstance(default, dict):
        # A drawn quantity, as it is written; or a whole mapping, whose own section has the defaults.
        default = default.get("text")
    if default in (None, "", [], {}):
        return "–"
    return code(default if isinstance(default, str) else json.dumps(default))


def section(heading: str, definition: Schema, forms: Forms, *, every_key: bool = True) -> str:
    """A section about one mapping: what its model says, and a row for each key.

    every_key: raise ExtensionError where the model says nothing of a key; else its sentence is left out.
    """
    properties = definition["properties"]
    about = described(definition.get("description", ""), properties)
    missing = [key for key in properties if key not in about.fields]
    if missing and every_key:
        raise ExtensionError(f"the docstring of {heading} says nothing of {', '.join(missing)}")
    rows: list[Sequence[str]] = [
        (code(key), one_line(about.fields.get(key, "")), forms.of(value), default_of(key, definition))
        for key, value in properties.items()
    ]
    header = ["key", "meaning", "value", "default"]
    if len(missing) == len(properties):
        header, rows = ["key", "value", "default"], [(row[0], *row[2:]) for row in rows]
    return f"{heading}\n\n{prose(about.about)}\n\n{table(header, rows)}"
