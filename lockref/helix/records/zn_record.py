"""Apache Helix's record: what it stores in a znode, as JSON.

Every scalar is a string. A record that would not fit is compressed (gzip), and read in either form, as Helix does by
default. Its entries repeat each other, so that a znode takes many times as many locks.
Rejected: Helix' bucketed records. Their parts change in several znodes, and a holder's state must change in one.

Source: `org.apache.helix.zookeeper.datamodel.ZNRecord` and its `ZNRecordSerializer`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lockref.errors import ConfigError
from lockref.strict_json import read_json

RECORD_BYTES_MAX: Final = 1_024_000
"""Helix writes no larger record; ZooKeeper takes a little more with a request (jute.maxbuffer)."""

_INFLATED_BYTES_MAX: Final = 64 * RECORD_BYTES_MAX
_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 6


class RecordTooLarge(ConfigError):
    """A record does not fit into a znode, not even compressed: fewer locks for each instance, or more instances."""


@dataclass(frozen=True, slots=True)
class ZNRecord:
    """One record. id: usually the znode's name. simple, maps, lists: its three kinds of fields."""

    id: str
    simple: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self, bytes_max: int = RECORD_BYTES_MAX) -> bytes:
        """The bytes of the znode. Equal records have equal bytes, whatever the order of their keys.

        bytes_max: compressed, if it would be larger. Errors: RecordTooLarge if it is larger even so.
        """
        plain = {
            "id": self.id,
            "simpleFields": dict(self.simple),
            "mapFields": {name: dict(entries) for name, entries in self.maps.items()},
            "listFields": {name: list(entries) for name, entries in self.lists.items()},
        }
        body = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
        if len(body) <= bytes_max:
            return body
        compressed = gzip.compress(body, _LEVEL, mtime=0)
        if len(compressed) > bytes_max:
            raise RecordTooLarge(
                f"record {self.id!r} with {len(self.maps)} entries takes {len(compressed)} bytes, compressed; there "
                f"is room for {bytes_max}"
            )
        return compressed

    @classmethod
    def from_json(cls, body: bytes, path: str) -> ZNRecord:
        """Read the bytes of a znode. Unknown fields are left out.

        path: of the znode, for the message. Errors: ConfigError for what is no record.
        """
        try:
            plain = read_json(_inflated(body) if is_compressed(body) else body)
        except ValueError:
            raise ConfigError(f"{path} holds no Helix record: {_shown(body)}") from None
        if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
            raise ConfigError(f"{path} holds no Helix record: 'id' is missing in {_shown(body)}")
        simple = _texts(plain.get("simpleFields"), path, "simpleFields")
        maps = {} if plain.get("mapFields") is None else plain["mapFields"]
        lists = {} if plain.get("listFields") is None else plain["listFields"]
        if not isinstance(maps, dict) or not isinstance(lists, dict):
            raise ConfigError(f"{path} holds no Helix record: mapFields and listFields must be objects")
        return cls(
            plain["id"],
            simple,
            {name: _texts(entries, path, f"mapFields.{name}") for name, entries in maps.items()},
            {name: _list(entries, path, f"listFields.{name}") for name, entries in lists.items()},
        )


def is_compressed(body: bytes) -> bool:
    """Is this a record that did not fit as plain text?"""
    return body.startswith(_GZIP)


def _inflated(body: bytes) -> bytes:
    """The bytes behind a gzip body.

    Errors: ValueError for a body that is no gzip, is cut off, or unpacks to too many bytes.
    """
    machine = zlib.decompressobj(wbits=31)
    try:
        found = machine.decompress(body, _INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not machine.eof:
        raise ValueError("it is cut off, or too large")
    return found


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
