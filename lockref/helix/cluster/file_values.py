"""The values of a cluster file: asked for what each must be, and collected with their places where they are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from lockref.errors import Location, did_you_mean, quote
from lockref.located_yaml import KeyPath, Places, at

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("clusterName", "resources", "participants", "autoJoinAllowed"),
    "resources": ("name", "rebalancer", "partitions", "stateModel", "constraints"),
    "rebalancer": ("mode", "class"),
    "partitions": ("count", "replicas"),
    "stateModel": ("name", "states", "transitions", "initialState"),
    "transitions": ("name", "from", "to"),
    "constraints": ("state", "transition"),
    "state": ("counts", "priorityList"),
    "counts": ("name", "count"),
    "transition": ("priorityList",),
    "participants": ("name", "host", "port"),
}
"""The keys of each mapping, by the key that leads to it."""

UNSUPPORTED: Final = {"batchMessageMode": "is not supported: every message carries one transition. Leave the key out"}
"""Keys that some version of Helix has, and why they are refused."""

_NO_ZNODE = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
"""What ZooKeeper does not allow in a path, and the separator itself. Characters beyond 16 bits, such as emoji, are two
surrogates to it."""


class Problem(NamedTuple):
    """One thing that is wrong in the file, with its place."""

    location: Location
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class FileValues:
    """Answers None for what is not as it must be, and tells the problem; whatever depends on it is then not checked."""

    def __init__(self, places: Places) -> None:
        self.problems: list[Problem] = []
        self._places = places

    def is_there(self, path: KeyPath) -> bool:
        """Is there a value at the path?"""
        return path in self._places.values

    def wrong(self, path: KeyPath, message: str, *, key: bool = False) -> None:
        """Tell a problem of a value, or of its key."""
        self.problems.append(Problem(self._places.of(path, key=key), at(path, message)))

    def mapping(self, path: KeyPath, value: Any) -> Mapping[str, Any] | None:
        """A mapping whose keys are known."""
        if not isinstance(value, dict):
            keys = ", ".join(self._known(path))
            self.wrong(path, f"{said_of(value)}; expected a mapping of {keys}")
            return None
        return self.keys(path, value)

    def keys(self, path: KeyPath, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """The mapping itself; keys that are not known are told."""
        known = self._known(path)
        for key in value:
            if key not in known:
                words = UNSUPPORTED.get(key, f"is no key here.{did_you_mean(key, known)}")
                self.wrong((*path, key), words, key=True)
        return value

    def _known(self, path: KeyPath) -> tuple[str, ...]:
        """The keys of the mapping at a path."""
        return KEYS[next((str(part) for part in reversed(path) if isinstance(part, str)), "")]

    def items(self, path: KeyPath, value: Any, least: str = "") -> Iterable[Any]:
        """The items of a list. least: what must be there, if the list may not be empty."""
        if not isinstance(value, list):
            self.wrong(path, f"{said_of(value)}; expected a list")
            return ()
        if least and not value:
            self.wrong(path, f"is empty; {least} is required")
        return value

    def texts(self, path: KeyPath, found: Mapping[str, Any], expected: str) -> list[str] | None:
        """A list of names under the last key of the path."""
        if path[-1] not in found:
            self.wrong(path, f"is missing; expected {expected}")
            return None
        value = found[str(path[-1])]
        if not isinstance(value, list):
            self.wrong(path, f"{said_of(value)}; expected {expected}")
            return None
        made = [self.text_at((*path, number), item) for number, item in enumerate(value)]
        return None if None in made else [each for each in made if each is not None]

    def text(self, path: KeyPath, found: Mapping[str, Any], key: str, expected: str = "") -> str | None:
        """Text under a key that must be there."""
        if key not in found:
            self.wrong((*path, key), f"is missing{expected}")
            return None
        return self.text_at((*path, key), found[key])

    def text_at(self, path: KeyPath, value: Any) -> str | None:
        """Text that is not empty."""
        if isinstance(value, str) and value:
            return value
        quotes = " in quotes" if isinstance(value, (bool, int, float)) else ""
        self.wrong(path, f"{said_of(value)}; expected text{quotes}")
        return None

    def name(self, path: KeyPath, found: Mapping[str, Any], key: str, names: set[str] | None = None) -> str | None:
        """A name that becomes a znode. names: those of the others of its kind, to which it is added."""
        name = self.text(path, found, key)
        if name is None:
            return None
        forbidden = _NO_ZNODE.search(name)
        if name in (".", "..") or forbidden is not None:
            words = "a name is part of a path, so it has no '/' and is not '.' or '..'"
            if forbidden is not None and forbidden[0] != "/":
                words = f"ZooKeeper takes no character U+{ord(forbidden[0]):04X} in a path"
            self.wrong((*path, key), f"is {quote(name)}; {words}")
            return None
        if names is not None:
            if name in names:
                self.wrong((*path, key), f"is {quote(name)}; another one above has that name")
            names.add(name)
        return name

    def whole(self, path: KeyPath, value: Any, least: int, most: int | None = None) -> int | None:
        """A whole number from `least` to `most`."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and value >= least and (most is None or value <= most):
            return int(value)
        expected = f"from {least}" if most is None else f"from {least} to {most}"
        quotes = " without quotes" if isinstance(value, str) and value.strip("-").isdigit() else ""
        self.wrong(path, f"{said_of(value)}; expected a whole number {expected}{quotes}")
        return None


def said_of(value: Any) -> str:
    """The beginning of an error about a value."""
    if value is None:
        return "has no value"
    if isinstance(value, bool):
        return f"is {str(value).lower()}"
    if isinstance(value, (dict, list)):
        return f"is a {'mapping' if isinstance(value, dict) else 'list'}"
    return f"is {quote(value)}"
