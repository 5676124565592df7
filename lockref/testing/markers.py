"""The markers of lock tests: a scenario that is known to break the lock, and an ability that a test needs.

`pytest.mark.lock_known_unsafe("e08", reason="…")` is a strict expected failure. While the lock breaks the scenario, the
item counts as an expected failure. Once the lock holds it, the item fails, so that somebody removes the marker.
`pytest.mark.lock_requires("tokens")` skips the items of a lock that has no such ability.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

import pytest

from lockref.errors import ConfigError, did_you_mean
from scenarios.gate.demands import Ability

KNOWN_UNSAFE: Final = "lock_known_unsafe"
REQUIRES: Final = "lock_requires"


class LockBroken(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # an attribute that has no type
    """The lock broke the scenario of an item. Its text is what the item prints, without a traceback."""

    # As pytest's own one: the summary prints the name alone.
    __module__ = "builtins"

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


def is_like(name: str, pattern: str) -> bool:
    """Does the pattern fit the name of a scenario, or the id that begins it?"""
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("-")[0], pattern)


def expected_failures(item: pytest.Item, names: Iterable[str]) -> Mapping[str, pytest.MarkDecorator]:
    """By scenario, the mark of an item whose scenario is known to break the lock.

    names: of all scenarios of the test. A marker without a name means all of them.
    Errors: ConfigError for a marker without a reason, and for one that fits no scenario.
    """
    known, found = list(names), {}
    for marker in item.iter_markers(KNOWN_UNSAFE):
        reason = marker.kwargs.get("reason")
        if not isinstance(reason, str) or not reason or set(marker.kwargs) != {"reason"}:
            raise ConfigError(f'`{KNOWN_UNSAFE}` takes names of scenarios and a reason: reason="…"')
        for pattern in marker.args or ("*",):
            meant = [name for name in known if is_like(name, str(pattern))]
            if not meant:
                raise ConfigError(f"`{KNOWN_UNSAFE}`: {pattern!r} is none of the scenarios {', '.join(known)}")
            found.update({name: pytest.mark.xfail(raises=LockBroken, strict=True, reason=reason) for name in meant})
    return found


def required_abilities(item: pytest.Item) -> Iterator[Ability]:
    """The abilities that the markers of an item ask of its lock. Raises ConfigError for a word that names none."""
    words = {ability.value: ability for ability in Ability}
    for marker in item.iter_markers(REQUIRES):
        for word in marker.args:
            if word not in words:
                raise ConfigError(
                    f"`{REQUIRES}`: {word!r} is no ability; expected some of {', '.join(words)}."
                    f"{did_you_mean(str(word), words)}"
                )
            yield words[word]
