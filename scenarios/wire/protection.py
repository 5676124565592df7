"""Which objects locks protect, and which lock guards which of them.

A pattern names protected keys, without their bucket: `state/*`. Where a program has several locks, `state/a/* by
locks/a.json` names the lock, too. Else it is the one that is called after the object, or the one whose folder is
nearest. Locks that are equally near cannot be told apart, and to guess would accuse the wrong client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, final

from lockref.errors import ConfigError

LOCK_SUFFIXES: Final = (".tflock", ".lock")
"""What tools append to the name of an object to name its lock."""

_BY: Final = " by "


@dataclass(frozen=True, slots=True)
class _Pattern:
    """keys: of protected objects. lock: of the locks that guard them; "" where nobody says."""

    keys: str
    lock: str


@final
class Protection:
    """The protected objects. entries: `GLOB` or `GLOB by LOCK`. Errors: ConfigError for one that lacks a side."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._patterns = [_parsed(entry) for entry in entries]

    def covers(self, key: str) -> bool:
        """True for an object that a lock protects. What is named as a lock is none, wherever it lies."""
        name = _name(key)
        return not name.endswith(LOCK_SUFFIXES) and any(fnmatchcase(name, each.keys) for each in self._patterns)

    def guards(self, key: str, locks: Iterable[str]) -> list[str]:
        """The lock that guards the object; several locks if they cannot be told apart, none if none guards it."""
        known = list(locks)
        told = [each.lock for each in self._patterns if each.lock and fnmatchcase(_name(key), each.keys)]
        if told:
            return [lock for lock in known if any(fnmatchcase(_name(lock), pattern) for pattern in told)]
        for suffix in LOCK_SUFFIXES:
            if f"{key}{suffix}" in known:
                return [f"{key}{suffix}"]
        near = {lock: _shared_folders(lock, key) for lock in known}
        return [lock for lock in known if near[lock] == max(near.values())]


def _parsed(entry: str) -> _Pattern:
    keys, by, lock = entry.partition(_BY)
    if not keys.strip() or (by and not lock.strip()):
        raise ConfigError(f"--protects {entry!r} is not of the form GLOB or 'GLOB by LOCK', such as 'state/*'")
    return _Pattern(keys.strip(), lock.strip())


def _name(key: str) -> str:
    return key.partition("/")[2]


def _shared_folders(first: str, second: str) -> int:
    """The number of folders that two keys have in common, from the bucket on."""
    count = 0
    for one, other in zip(first.split("/")[:-1], second.split("/")[:-1], strict=False):
        if one != other:
            break
        count += 1
    return count
