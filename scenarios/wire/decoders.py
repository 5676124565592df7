"""Decoders of the lock objects in use: who has the lock, until when, under which number.

One decoder for each kind of record that is in use, and one by JSON paths for the rest. A decoder belongs to the object:
it never knows who wrote. Of a record that names no owner, the recorder knows who wrote it, because each client has an
endpoint of its own.

`auto` tries them by the shape of the record, the strictest shape first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from lockref.errors import ConfigError, did_you_mean
from lockref.grammar import decimal
from lockref.lab.loading import load_decoder as load_named_decoder
from lockref.provider import LockView, StateDecoder
from lockref.quantities import duration_ns
from lockref.runtime import NS_PER_MS, NS_PER_S, WallNs
from lockref.storage.lockfile import decode as decode_lock_file
from lockref.strict_json import NotJson, read_object

Read = Callable[[Mapping[str, Any]], LockView | None]

_LONG_MAX: Final = 2**63 - 1
_TTL: Final = ",ttl="
_FRACTION: Final = re.compile(r"\.([0-9]+)")
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,19})?")


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        return read_object(body)
    except NotJson:
        return None


def _wall(ns: int) -> WallNs | None:
    """A stamp as a history holds it. The epoch itself stands for "no time" in every record that is in use."""
    return None if ns == 0 else WallNs(max(-_LONG_MAX, min(_LONG_MAX, ns)))


def instant_ns(text: str) -> WallNs | None:
    """An RFC 3339 time, to the nanosecond, as wall time; UTC where no zone is named. None where it is no time."""
    fraction = _FRACTION.search(text)
    digits = fraction[1] if fraction else ""
    try:
        instant = datetime.fromisoformat(text.replace(f".{digits}", "", 1) if fraction else text)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    seconds = round((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return _wall(seconds * NS_PER_S + int(digits.ljust(9, "0")[:9] or 0))


def _opentofu(record: Mapping[str, Any]) -> LockView | None:
    """Terraform's and OpenTofu's `.tflock`: an ID for each operation, no end, deleted on unlock."""
    if not {"ID", "Operation", "Who", "Created"} <= record.keys():
        return None
    return LockView(owner=str(record["ID"]))


def _litestream(record: Mapping[str, Any]) -> LockView | None:
    """Litestream's `lock.json`: a generation, an end on the writer's clock, deleted on release."""
    if not {"generation", "expires_at"} <= record.keys() <= {"generation", "expires_at", "owner"}:
        return None
    generation, until = record["generation"], record["expires_at"]
    if _number(generation, 1) is None or isinstance(generation, str | float) or not isinstance(until, str):
        return None
    return LockView(owner=str(record.get("owner", "")), token=generation, valid_until_ns=instant_ns(until))


def _s3_locks(record: Mapping[str, Any]) -> LockView | None:
    """s3-locks: an end in epoch seconds on the writer's clock and nothing else; 0 is released."""
    if record.keys() != {"expires_at"} or not isinstance(record["expires_at"], int | float):
        return None
    until_ns = _number(record["expires_at"], NS_PER_S)
    if until_ns is None:
        return None
    return LockView(owner="", valid_until_ns=_wall(until_ns), is_released=until_ns == 0)


def _gcslock(record: Mapping[str, Any]) -> LockView | None:
    """gcslock: custom metadata `lock_owner` and `expires_sec`, counted from the time at which the server stored it."""
    metadata = record.get("metadata")
    if not isinstance(metadata, dict) or not {"lock_owner", "expires_sec"} <= metadata.keys():
        return None
    updated, lasts = record.get("updated"), str(metadata["expires_sec"])
    stored, lasts_s = instant_ns(updated) if isinstance(updated, str) else None, decimal(lasts)
    until = None if stored is None or lasts_s is None else _wall(stored + lasts_s * NS_PER_S)
    return LockView(owner=str(metadata["lock_owner"]), valid_until_ns=until)


def _hudi(body: bytes) -> LockView | None:
    """RFC-91's lock file, as Hudi and as our own lock write it."""
    found = decode_lock_file(body)
    if found is None:
        return None
    return LockView(
        owner=found.owner,
        token=found.token,
        valid_until_ns=found.valid_until_ns,
        is_released=found.is_released,
        nonce=found.nonce,
    )


_BY_JSON: Final[dict[str, Read]] = {
    "opentofu": _opentofu,
    "terraform": _opentofu,
    "litestream": _litestream,
    "gcslock": _gcslock,
    "s3-locks": _s3_locks,
}
NAMES: Final = ("auto", "hudi", "lockref", *_BY_JSON)
"""Decoders by name; `json:…`, `exists:GLOB` and `file.py:NAME` are the other forms."""


def _of_json(read: Read) -> StateDecoder:
    def decode(_key: str, body: bytes) -> Sequence[LockView]:
        record = _object(body)
        view = None if record is None else read(record)
        return () if view is None else (view,)

    return decode


def _of_lock_file(_key: str, body: bytes) -> Sequence[LockView]:
    view = _hudi(body)
    return () if view is None else (view,)


def _auto(key: str, body: bytes) -> Sequence[LockView]:
    record = _object(body)
    if record is None:
        return ()
    for read in dict.fromkeys(_BY_JSON.values()):
        if (view := read(record)) is not None:
            return (view,)
    return _of_lock_file(key, body)


def _existing(pattern: str) -> StateDecoder:
    """Locks that are held by whoever made the object, whatever it holds, and free while there is none."""
    if not pattern:
        raise ConfigError("the decoder exists: names no keys; expected such as exists:locks/*")

    def decode(key: str, _body: bytes) -> Sequence[LockView]:
        return (LockView(owner=""),) if fnmatchcase(key.partition("/")[2], pattern) else ()

    return decode


@dataclass(frozen=True, slots=True)
class LastingDecoder:
    """A decoder of records that keep others out for a time from their last write, whatever they say.

    ttl_ns: that time, in nanoseconds. Programs tell it by the store's own date of the object (`Last-Modified`).
    """

    decode: StateDecoder
    ttl_ns: int

    def __call__(self, key: str, body: bytes) -> Sequence[LockView]:
        return self.decode(key, body)


def _ttl_ns(text: str) -> int:
    """The time for which a record keeps others out from its last write.

    Errors: ConfigError for what is no duration above 0.
    """
    try:
        lasts_ns = duration_ns(text)
    except ValueError as error:
        raise ConfigError(f"the decoder's ttl {error}") from error
    if lasts_ns <= 0:
        raise ConfigError(f"the decoder's ttl is {text}; expected more than 0s")
    return lasts_ns


def load_decoder(reference: str) -> StateDecoder:
    """A decoder by name, by JSON paths (`json:owner=$.ID,until=$.expires_at`), by existence (`exists:GLOB`), or from a
    file (`file.py:NAME`). JSON paths and existence may end in `,ttl=60s`.

    Errors: ConfigError for what is none of these, with the nearest name.
    """
    if reference == "auto":
        return _auto
    if reference in ("hudi", "lockref"):
        return _of_lock_file
    if reference in _BY_JSON:
        return _of_json(_BY_JSON[reference])
    if reference.startswith(("exists:", "json:")) and _TTL in reference:
        kind, _, lasts = reference.partition(_TTL)
        return LastingDecoder(load_decoder(kind), _ttl_ns(lasts))
    if reference.startswith("exists:"):
        return _existing(reference.removeprefix("exists:"))
    if reference.startswith("json:"):
        return _of_json(_by_paths(reference.removeprefix("json:")))
    if ":" in reference:
        return load_named_decoder(reference, whose=f"decoder {reference!r}")
    raise ConfigError(
        f"the decoder {reference!r} is not known; expected {', '.join(NAMES)}, exists:GLOB, json:owner=$.PATH,… or "
        f"FILE.py:NAME.{did_you_mean(reference, NAMES)}"
    )


# By JSON paths.

_ENDS: Final = ("until", "until_s", "until_ms")
_FIELDS: Final = ("owner", "token", *_ENDS, "duration_s", "released")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\['([^']+)'\]")

Steps = tuple[str | int, ...]


def _steps(path: str, field: str) -> Steps:
    """`$.a.b[0]['c d']`, taken apart."""
    steps: list[str | int] = []
    place = 1
    while path.startswith("$") and place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            break
        name, number, quoted = step.groups()
        steps.append(int(number) if number is not None else name or quoted)
        place = step.end()
    if not steps or place != len(path):
        raise ConfigError(f"the decoder's path for {field} is {path!r}; expected such as $.lock.owner or $.locks[0].id")
    return tuple(steps)


_MISSING: Final = object()


def _at(record: Any, steps: Steps) -> Any:
    for step in steps:
        try:
            record = record[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return record


def _number(value: object, unit_ns: int) -> int | None:
    """A number of a record in units of nanoseconds; None for what is none, and for what no history can hold."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LONG_MAX <= value * unit_ns <= _LONG_MAX:
        # No comparison holds for "not a number".
        return None
    return round(value * unit_ns)


def _by_paths(text: str) -> Read:
    """A reader for `owner=$.ID,until=$.expires_at`. The record is one of a lock where all but `released` are found.

    until: RFC 3339. until_s, until_ms: since the epoch. duration_s: from when a reader first saw the record.
    A record whose owner is there and empty (`""` or null), and that tells no end either, is released.
    """
    paths: dict[str, Steps] = {}
    for part in text.split(","):
        field, _, path = part.partition("=")
        if field not in _FIELDS:
            raise ConfigError(
                f"the decoder has a field {field!r}; expected {', '.join(_FIELDS)}.{did_you_mean(field, _FIELDS)}"
            )
        paths[field] = _steps(path, field)
    wanted = [field for field in paths if field != "released"]
    if not wanted:
        raise ConfigError("the decoder names no field that tells a lock record; add owner=$.PATH or until=$.PATH")

    def read(record: Mapping[str, Any]) -> LockView | None:
        found = {field: _at(record, steps) for field, steps in paths.items()}
        if found.get("owner", _MISSING) in ("", None) and not any(found.get(field) for field in _ENDS):
            return LockView(owner="", token=_number(found.get("token"), 1), is_released=True)
        if any(found[field] in (_MISSING, None) for field in wanted):
            return None
        token = _number(found.get("token"), 1)
        until = instant_ns(found["until"]) if isinstance(found.get("until"), str) else None
        for field, unit_ns in (("until_s", NS_PER_S), ("until_ms", NS_PER_MS)):
            stamp = _number(found.get(field), unit_ns)
            until = _wall(stamp) if stamp is not None else until
        return LockView(
            owner=str(found.get("owner") or ""),
            token=token,
            valid_until_ns=until,
            duration_ns=_number(found.get("duration_s"), NS_PER_S),
            is_released=found.get("released", _MISSING) is not _MISSING and bool(found["released"]),
        )

    return read
