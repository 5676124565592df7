"""YAML 1.2 whose values know where they stand, so that every complaint has a line and a column.

A file is parsed to nodes rather than to values, because nodes know where they stand; values and their places are then
built side by side. YAML 1.2, so `on`, `off` and `no` are words and `1:30` is no number of seconds. Anchors and aliases
are refused: nothing here needs them, and a few lines of them can unfold into gigabytes.

Every function raises ConfigError with the place, at the first thing that is no YAML of this kind. `document` is what
the file should be, as messages say it: "scenario".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lockref.errors import ConfigError, Location

BYTES_MAX = 1_000_000
DEPTH_MAX = 24

KeyPath = tuple[str | int, ...]
"""The keys and numbers that lead to a value: ("faults", 1, "kind")."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


@dataclass(slots=True)
class Places:
    """Where each value stands, and where each key does."""

    file: str
    values: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    keys: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def of(self, path: KeyPath, *, key: bool) -> Location:
        """The place of `path`, or of the nearest part of it that is in the file."""
        for length in range(len(path), -1, -1):
            part = path[:length]
            found = (self.keys.get(part) if key else None) or self.values.get(part) or self.keys.get(part)
            if found is not None:
                return Location(self.file, *found)
        return Location(self.file, 1, 1)


def read_text(path: Path, *, document: str) -> str:
    """The text of a file."""
    try:
        with path.open("rb") as file:
            body = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", location=Location(str(path))) from error
    if len(body) > BYTES_MAX:
        raise ConfigError(f"is larger than {BYTES_MAX} bytes; that is no {document}", location=Location(str(path)))
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"is not UTF-8 text (byte {error.start}); that is no {document}", location=Location(str(path), line)
        ) from error


def parse(text: str, *, file: str, document: str, beginning: str) -> tuple[dict[str, Any], Places]:
    """The mapping that `text` holds, and where everything in it stands.

    file: what complaints call it. beginning: the first line of a good document, for who wrote another kind.
    """
    places = Places(file)
    node = _compose(text, file)
    if node is None:
        raise ConfigError(f"document is empty; a {document} begins with {beginning!r}", location=Location(file, 1, 1))
    value = _values(node, places)
    if not isinstance(value, dict):
        raise ConfigError(
            f"a {document} is a mapping that begins with {beginning!r}", location=places.of((), key=False)
        )
    return value, places


def at(path: KeyPath, message: str) -> str:
    """A complaint about one place. It is one line, whatever a quoted key contains."""
    words = [str(part) if str(part).isprintable() else repr(part) for part in path]
    return f"{'.'.join(words)}: {' '.join(message.splitlines())}"


def _compose(text: str, file: str) -> Node | None:
    """The one document of the file as nodes; bounded in depth, without aliases. None if there is none."""
    yaml = YAML(typ="safe", pure=True)
    try:
        depth = 0
        for event in yaml.parse(text):
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
                mark = event.start_mark
                raise ConfigError(
                    "anchors and aliases are not read; write the value out",
                    location=Location(file, mark.line + 1, mark.column + 1),
                )
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    mark = event.start_mark
                    raise ConfigError(
                        f"is nested deeper than {DEPTH_MAX} levels",
                        location=Location(file, mark.line + 1, mark.column + 1),
                    )
            elif isinstance(event, CollectionEndEvent):
                depth -= 1
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
        raise ConfigError(f"is not YAML: {error.problem or error.context}", location=where) from error
    except YAMLError as error:
        line = text[: getattr(error, "position", 0)].count("\n") + 1
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise ConfigError(f"is not YAML: {reason}", location=Location(file, line)) from error
    return node


def _values(node: Node, places: Places, path: KeyPath = ()) -> Any:
    mark = node.start_mark
    places.values[path] = (mark.line + 1, mark.column + 1)
    if not str(node.tag).startswith("tag:yaml.org,2002:") or "python" in str(node.tag):
        raise ConfigError(
            at(path, f"has the tag {node.tag}; tags are not read"),
            location=Location(places.file, *places.values[path]),
        )
    if isinstance(node, ScalarNode):
        return _scalar(node)
    if isinstance(node, SequenceNode):
        return [_values(item, places, (*path, number)) for number, item in enumerate(node.value)]
    assert isinstance(node, MappingNode), "YAML has three kinds of nodes"
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        here = Location(places.file, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, ScalarNode):
            raise ConfigError("a key is a word", location=here)
        key = str(key_node.value)
        if key in result:
            raise ConfigError(at((*path, key), "appears a second time"), location=here)
        places.keys[(*path, key)] = (here.line or 1, here.column or 1)
        result[key] = _values(value_node, places, (*path, key))
        if result[key] is None and not value_node.value:
            # Nothing is written behind the key, so the place of the value is where the next thing begins.
            places.values[(*path, key)] = places.keys[(*path, key)]
    return result


def _scalar(node: ScalarNode) -> str | int | float | bool | None:
    text: str = node.value
    if node.style is not None:  # Quoted or block text is text.
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if text in ("null", "Null", "NULL", "~", ""):
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
