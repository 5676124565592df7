"""Apache Helix's record: what it stores in a znode, as JSON.

Every scalar is a string. Source: `org.apache.helix.zookeeper.datamodel.ZNRecord`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lockref.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ZNRecord:
    """One record. id: usually the znode's name. simple, maps, lists: its three kinds of fields."""

    id: str
    simple: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The bytes of the znode. Equal records have equal bytes, whatever the order of their keys."""
        plain = {
            "id": self.id,
            "simpleFields": dict(self.simple),
            "mapFields": {name: dict(entries) for name, entries in self.maps.items()},
            "listFields": {name: list(entries) for name, entries in self.lists.items()},
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, body: bytes, path: str) -> ZNRecord:
        """Read the bytes of a znode. Unknown fields are left out.

        path: of the znode, for the message. Errors: ConfigError for what is no record.
        """
        try:
            plain = json.loads(body)
        except ValueError:
            raise ConfigError(f"{path} holds no Helix record: {_shown(body)}") from None
        if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
            raise ConfigError(f"{path} holds no Helix record: 'id' is missing in {_shown(body)}")
        simple = _texts(plain.get("simpleFields"), path, "simpleFields")
        maps = plain.get("mapFields") or {}
        lists = plain.get("listFields") or {}
        if not isinstance(maps, dict) or not isinstance(lists, dict):
            raise ConfigError(f"{path} holds no Helix record: mapFields and listFields must be objects")
        return cls(
            plain["id"],
            simple,
            {name: _texts(entries, path, f"mapFields.{name}") for name, entries in maps.items()},
            {name: _list(entries, path, f"listFields.{name}") for name, entries in lists.items()},
        )


def _shown(body: bytes) -> str:
    """The beginning of a body, for a message."""
    return repr(body[:40]) + ("…" if len(body) > 40 else "")


def _texts(found: Any, path: str, where: str) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values() if value is not None):
        raise ConfigError(f"{path} holds no Helix record: {where} must map names to strings")
    return {name: value for name, value in found.items() if value is not None}


def _list(found: Any, path: str, where: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ConfigError(f"{path} holds no Helix record: {where} must be a list of strings")
    return found
