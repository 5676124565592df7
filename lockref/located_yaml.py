"""YAML whose values know where they stand, so that every complaint has a line and a column.

A file is read as a stream of events rather than as values, because events know where they stand; values and their
places are then built side by side. Scalars follow YAML 1.2, so `on`, `off` and `no` are words and `1:30` is no number
of seconds. Anchors and aliases are refused: nothing here needs them, and a few lines of them can unfold into gigabytes.

libyaml scans the text: a parser in Python takes a hundred times as long, and every command reads scenarios.

Every function raises ConfigError with the place, at the first thing that is no YAML of this kind. `document` is what
the file should be, as messages say it: "scenario".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from lockref.errors import ConfigError, Location

BYTES_MAX = 1_000_000
DEPTH_MAX = 24

KeyPath = tuple[str | int, ...]
"""The keys and numbers that lead to a value: ("faults", 1, "kind")."""

# A wheel without the extension parses in Python: slower, with the same result.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


@dataclass(slots=True)
class Places:
    """The places of all values and of all keys."""

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
    events = _events(text, file)
    next(events)  # The beginning of the stream.
    if isinstance(next(events), StreamEndEvent):
        raise ConfigError(f"document is empty; a {document} begins with {beginning!r}", location=Location(file, 1, 1))
    value = _value(next(events), events, places)
    for event in events:
        if not isinstance(event, (DocumentEndEvent, StreamEndEvent)):
            raise ConfigError("a second document begins; a file holds one", location=_place(event, file))
    if not isinstance(value, dict):
        raise ConfigError(
            f"a {document} is a mapping that begins with {beginning!r}", location=places.of((), key=False)
        )
    return value, places


def at(path: KeyPath, message: str) -> str:
    """A complaint about one place. It is one line, whatever a quoted key contains."""
    words = [str(part) if str(part).isprintable() else repr(part) for part in path]
    return f"{'.'.join(words)}: {' '.join(message.splitlines())}"


def _events(text: str, file: str) -> Iterator[Event]:
    """The parse events of the text, in their order."""
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)
        raise ConfigError(f"is not YAML: {error.problem or error.context}", location=where) from error
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        # libyaml tells the place of a bad character as a byte, Python as a character, which a lone surrogate is.
        if isinstance(error, UnicodeEncodeError):
            line = text.count("\n", 0, error.start) + 1
        else:
            line = text.encode().count(b"\n", 0, error.position) + 1
        raise ConfigError(f"is not YAML: {error.reason}", location=Location(file, line)) from error


def _place(event: Event, file: str) -> Location:
    return Location(file, event.start_mark.line + 1, event.start_mark.column + 1)


def _refuse_anchor_and_tag(event: Event, here: Location, path: KeyPath) -> None:
    if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
        raise ConfigError("anchors and aliases are not read; write the value out", location=here)
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise ConfigError(at(path, f"has the tag {tag}; tags are not read"), location=here)


def _value(event: Event, events: Iterator[Event], places: Places, path: KeyPath = ()) -> Any:
    """The value that begins with `event`; the rest of it is taken from `events`."""
    here = _place(event, places.file)
    _refuse_anchor_and_tag(event, here, path)
    places.values[path] = (here.line or 1, here.column or 1)
    if isinstance(event, ScalarEvent):
        return _scalar(event)
    if len(path) >= DEPTH_MAX:
        raise ConfigError(f"is nested deeper than {DEPTH_MAX} levels", location=here)
    if isinstance(event, SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(item := next(events), SequenceEndEvent):
            items.append(_value(item, events, places, (*path, len(items))))
        return items
    return _mapping(events, places, path)


def _mapping(events: Iterator[Event], places: Places, path: KeyPath) -> dict[str, Any]:
    """The rest of a mapping, up to its end."""
    result: dict[str, Any] = {}
    while not isinstance(key_event := next(events), MappingEndEvent):
        here = _place(key_event, places.file)
        _refuse_anchor_and_tag(key_event, here, path)
        if not isinstance(key_event, ScalarEvent):
            raise ConfigError("a key is a word", location=here)
        key = str(key_event.value)
        if key in result:
            raise ConfigError(at((*path, key), "appears a second time"), location=here)
        places.keys[(*path, key)] = (here.line or 1, here.column or 1)
        value_event = next(events)
        result[key] = _value(value_event, events, places, (*path, key))
        if result[key] is None and not value_event.value:
            # Nothing is written behind the key, so the place of the value is where the next thing begins.
            places.values[(*path, key)] = places.keys[(*path, key)]
    return result


def _scalar(event: ScalarEvent) -> str | int | float | bool | None:
    text: str = event.value
    if event.style:  # Quoted or block text is text.
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if text in ("null", "Null", "NULL", "~", ""):
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
