"""Failures that a team has accepted for a while: the file of `--known`, and what a gate makes of it.

A failure is named by what stays the same from seed to seed and from scenario to scenario: the lock, and the cause as
the gate writes it, `CLAUSE:SHAPE:FAULTS`, or its first parts. An id (LK-…) would not do, since another seed gives
another id. Every entry has a reason and a last day. An accepted failure is told and does not stop the gate; after its
last day it does. An entry that matches nothing any more is told as well, because the next failure of that kind would
pass unseen.

    version: 1
    known:
      - provider: hudi
        cause: S4:stale-token:stopped
        reason: Hudi asks no clock before it writes; the table has one writer until the migration.
        expires: 2027-03-31
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, Protocol

from lockref.errors import ConfigError, Location, did_you_mean, quote
from lockref.located_yaml import Places, at, parse, read_text
from reports.checks.spec import CLAUSES

VERSION: Final = 1
NO_FAULT: Final = "no-fault"
"""The last part of the word of a cause that needs no fault."""
_NEEDED: Final = ("cause", "reason", "expires")
_KEYS: Final = ("provider", "cause", "reason", "expires")


class NamedCause(Protocol):
    """A failure as a gate groups it over scenarios: clause, shape and kinds of faults, in one word."""

    @property
    def cause(self) -> str: ...
    @property
    def is_shrunk(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """One accepted failure. provider: empty for any. expires: the last day on which it is accepted.

    cause: the word of a cause, or the first of its parts: `S4`, `S4:stale-token`, `S4:stale-token:stopped`.
    """

    place: Location
    provider: str
    cause: str
    reason: str
    expires: date

    def is_about(self, found: NamedCause, lock: Collection[str]) -> bool:
        """True if this failure of a lock with these names is meant."""
        return self.is_of(lock) and (_begins(found.cause, self.cause) or self._is_larger(found))

    def _is_larger(self, found: NamedCause) -> bool:
        """True for this failure with more faults than it needs, because there was no time to shrink it.

        Else a slow machine would be stopped by a failure that a fast one accepts.
        """
        own, other = self.cause.split(":"), found.cause.split(":")
        if found.is_shrunk or len(own) != len(other) or own[:-1] != other[:-1]:
            return False
        return set(own[-1].split("+")) - {NO_FAULT} <= set(other[-1].split("+"))

    def is_part_of(self, cause: str) -> bool:
        """True if a cause breaks the same in the same shape, and needs fewer faults than this failure."""
        own, other = self.cause.split(":"), cause.split(":")
        if len(own) != len(other) or own[:-1] != other[:-1] or own == other:
            return False
        return set(other[-1].split("+")) - {NO_FAULT} <= set(own[-1].split("+"))

    def may_be(self, begin: str) -> bool:
        """True if this failure may be meant by a word of which only the first parts are known."""
        return _begins(begin, self.cause) or _begins(self.cause, begin)

    def is_of(self, lock: Collection[str]) -> bool:
        """True if the lock with these names is meant."""
        return not self.provider or self.provider in lock

    def __str__(self) -> str:
        return f"{self.place}: {self.cause}"


def _begins(word: str, begin: str) -> bool:
    """True if `begin` is the first parts of `word`, or all of them."""
    return f"{word}:".startswith(f"{begin}:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Found failures beside the known ones. accepted: by the place of a found failure, why it does not stop the gate.

    notes: entries that are past their last day and count again, and entries that nothing matches any more.
    """

    accepted: Mapping[int, str]
    notes: tuple[str, ...]


def accept(
    known: Iterable[KnownFailure], found: Sequence[NamedCause], *, lock: Collection[str], today: date, is_whole: bool
) -> Acceptance:
    """The found failures that are accepted today, and what is wrong with the list.

    lock: the names of the lock: as the user gave it, and as histories call it. is_whole: everything was run, so that a
    known failure that was not found is gone. Otherwise it was not looked for everywhere, which is told, too.
    """
    accepted: dict[int, str] = {}
    notes: list[str] = []
    for entry in known:
        if not entry.is_of(lock):
            continue
        places = [place for place, each in enumerate(found) if entry.is_about(each, lock)]
        if not places:
            notes.append(_missing(entry, found, is_whole=is_whole))
        elif today > entry.expires:
            notes.append(f"{entry} was accepted until {entry.expires} and counts again: {entry.reason}")
        else:
            accepted.update(dict.fromkeys(places, f"accepted until {entry.expires}: {entry.reason}"))
    return Acceptance(accepted=accepted, notes=tuple(notes))


def _missing(entry: KnownFailure, found: Iterable[NamedCause], *, is_whole: bool) -> str:
    """The note about an entry that no failure matches."""
    broader = next((each.cause for each in found if entry.is_part_of(each.cause)), "")
    if broader:
        return f"{entry} was not found, but {broader}, which needs less: accept that, if you mean it"
    if is_whole:
        return f"{entry} was not found any more: remove the entry"
    return f"{entry} was not found, and not looked for in all scenarios: keep the entry"


def load_known(path: Path) -> tuple[KnownFailure, ...]:
    """The accepted failures of a file. Raises ConfigError with the place of the first thing that is wrong."""
    value, places = parse(
        read_text(path, document="list of known failures"),
        file=str(path),
        document="list of known failures",
        beginning=f"version: {VERSION}",
    )
    form = _Form(places)
    form.refuse_strange_keys((), value, ("version", "known"))
    if type(value.get("version")) is not int or value["version"] != VERSION:
        raise form.refused(("version",), f"expected {VERSION}")
    entries = value.get("known")
    if not isinstance(entries, list):
        raise form.refused(("known",), "expected a list of failures")
    found: list[KnownFailure] = []
    for number, entry in enumerate(entries):
        failure = form.failure(("known", number), entry)
        for earlier in found:
            if (earlier.provider, earlier.cause) == (failure.provider, failure.cause):
                raise form.refused(("known", number), f"is the failure of line {earlier.place.line} once more")
        found.append(failure)
    return tuple(found)


class _Form:
    """The form of the file, with the places of everything in it."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def failure(self, path: tuple[str | int, ...], entry: object) -> KnownFailure:
        """One entry. Raises ConfigError for anything that is none."""
        if not isinstance(entry, dict):
            raise self.refused(path, "expected a mapping such as {cause: S4, reason: …, expires: 2027-03-31}")
        self.refuse_strange_keys(path, entry, _KEYS)
        for key in _NEEDED:
            if key not in entry:
                raise ConfigError(at((*path, key), "is missing"), location=self._places.of(path, key=False))
        texts = {key: self._text((*path, key), entry[key]) for key in entry}
        clause = texts["cause"].partition(":")[0]
        if clause not in CLAUSES:
            near = did_you_mean(clause, CLAUSES)
            expected = f"expected a cause as the gate tells it, such as S4:stale-token:stopped.{near}"
            raise self.refused((*path, "cause"), f"is {quote(texts['cause'])}; {expected}")
        try:
            expires = date.fromisoformat(texts["expires"])
        except ValueError:
            raise self.refused(
                (*path, "expires"), f"is {quote(texts['expires'])}; expected a day such as 2027-03-31"
            ) from None
        return KnownFailure(
            place=self._places.of(path, key=False),
            provider=texts.get("provider", ""),
            cause=texts["cause"],
            reason=texts["reason"],
            expires=expires,
        )

    def refuse_strange_keys(
        self, path: tuple[str | int, ...], entry: Mapping[str, object], keys: Sequence[str]
    ) -> None:
        """Raise ConfigError for a key that is none of these."""
        for key in entry:
            if key not in keys:
                where = self._places.of((*path, key), key=True)
                raise ConfigError(at((*path, key), f"is no key here.{did_you_mean(key, keys)}"), location=where)

    def refused(self, path: tuple[str | int, ...], what: str) -> ConfigError:
        """The complaint about one place."""
        return ConfigError(at(path, what), location=self._places.of(path, key=False))

    def _text(self, path: tuple[str | int, ...], value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.refused(path, f"is {quote(value)}; expected text")
        return " ".join(value.split())
