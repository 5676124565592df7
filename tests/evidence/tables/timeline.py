"""The timeline of a Hudi table, read from the names and bodies of its files, without Hudi.

Layout 2 (tables of version 8 and later): `<requested>.<action>.requested`, `<requested>.<action>.inflight` and
`<requested>_<completed>.<action>` below `.hoodie/timeline/`. An instant is known by the time at which it was requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lockref.errors import ConfigError

LAYOUT: Final = 2
FOLDER: Final = "timeline/"
PROPERTIES: Final = "hoodie.properties"
BATCH: Final = b"hoodie.lockref.batch"
"""The key in a commit's metadata under which a writer names its batch."""

_NAME: Final = re.compile(r"(?P<requested>\d{17})(?:_(?P<completed>\d{17}))?(?P<rest>(?:\.[a-z]+)*)")
_STATES: Final = ("requested", "inflight")
_GROUP: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]+")
"""The name of a file group."""


@dataclass(slots=True, kw_only=True)
class Instant:
    """One instant. action: as its completed file names it, else as its first file does. completions: normally one.

    batches, groups: the batches and the file groups that its completed metadata names.
    """

    requested: str
    action: str = ""
    states: set[str] = field(default_factory=set)
    completions: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    @property
    def is_completed(self) -> bool:
        return bool(self.completions)


@dataclass(slots=True, kw_only=True)
class Timeline:
    """properties: of the table. instants: by the time at which they were requested. strange: names of no instant."""

    properties: dict[str, str]
    instants: dict[str, Instant]
    strange: list[str]

    def told(self) -> list[dict[str, object]]:
        """The instants as JSON has them, in the order in which they were requested."""
        return [
            {
                "requested": each.requested,
                "completed": each.completions,
                "action": each.action,
                "planned_as": sorted(each.kinds),
                "states": sorted(each.states),
                "batches": each.batches,
                "groups": sorted(each.groups),
            }
            for _, each in sorted(self.instants.items())
        ]


def read_timeline(objects: Iterable[tuple[str, bytes]]) -> Timeline:
    """objects: key below `.hoodie/` and body. Errors: ConfigError for another layout, or where there is no table."""
    properties: dict[str, str] = {}
    instants: dict[str, Instant] = {}
    strange: list[str] = []
    for key, body in objects:
        if key == PROPERTIES:
            properties = _properties(body.decode("utf-8", "replace"))
        name = key.removeprefix(FOLDER)
        if not key.startswith(FOLDER) or not name or "/" in name:
            continue
        found = _NAME.fullmatch(name)
        if found is None:
            strange.append(name)
            continue
        instant = instants.setdefault(found["requested"], Instant(requested=found["requested"]))
        words = [word for word in found["rest"].split(".") if word]
        if found["completed"]:
            instant.completions.append(found["completed"])
            instant.action = words[-1] if words else "commit"
            instant.batches += batches_in(body)
            instant.groups |= {group.decode() for group in _GROUP.findall(body)}
            continue
        state = words[-1] if words and words[-1] in _STATES else "inflight"
        instant.states.add(state)
        kind = words[0] if words and words[0] not in _STATES else "commit"
        instant.kinds.add(kind)
        instant.action = instant.action or kind
    if not properties:
        raise ConfigError(f"there is no Hudi table: {PROPERTIES} is missing")
    _require_layout(properties)
    return Timeline(properties=properties, instants=instants, strange=strange)


def require_key(timeline: Timeline, key: str) -> None:
    """Errors: ConfigError for a table with another record key than what the writers write."""
    found = timeline.properties.get("hoodie.table.recordkey.fields", "")
    if found != key:
        raise ConfigError(
            f"the table's record key is {found or 'not set'!r}, and the writers need {key!r}; name another table"
        )


def _require_layout(properties: dict[str, str]) -> None:
    layout = properties.get("hoodie.timeline.layout.version", "")
    version = properties.get("hoodie.table.version", "")
    if layout != str(LAYOUT):
        raise ConfigError(
            f"the timeline has layout {layout or 'unknown'} (table version {version or 'unknown'}), and layout "
            f"{LAYOUT} is read here; upgrade the table with Hudi 1.0 or later, or name another one"
        )


def _properties(text: str) -> dict[str, str]:
    """A Java properties file, as Hudi writes it."""
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name.strip(): value.strip().replace("\\:", ":") for name, _, value in pairs}


def batches_in(body: bytes) -> list[str]:
    """The batches that a commit's metadata names: in Avro, a string follows its length (a zigzag number)."""
    found = []
    at = body.find(BATCH)
    while at >= 0:
        length, begin = _zigzag(body, at + len(BATCH))
        text = body[begin : begin + length]
        if 0 < length == len(text):
            found.append(text.decode("utf-8", "replace"))
        at = body.find(BATCH, at + 1)
    return found


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    """The number at that place, and where it ends. Source: Avro 1.12, "Binary Encoding"."""
    number = shift = 0
    for byte in body[at : at + 5]:
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            break
        shift += 7
    return (number >> 1) ^ -(number & 1), at
