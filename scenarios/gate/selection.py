"""The scenarios that a gate takes: `-k EXPR` and `--exclude EXPR`, in the grammar of pytest's `-k`.

An expression has words, `and`, `or`, `not` and parentheses. Case does not matter. A word is looked for within a
scenario's name and within the kinds of its faults, where `_` and `-` are one. A word in the form of an id (`e8`, `S3`)
is compared whole, or `e1` would take every scenario from e10 to e17: with the ids of the scenario, with the parts of
its name, and with the clauses that it is known to break under some lock (`expect`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.errors import did_you_mean, quote
from scenarios.definition.schema import Scenario

LENGTH_MAX: Final = 1000
DEPTH_MAX: Final = 50
"""Parentheses and `not` within each other."""

_TOKEN: Final = re.compile(r"\s*(?:(?P<sign>[()])|(?P<word>[\w:+.\[\]\\/-]+)|(?P<strange>\S))")
_ID: Final = re.compile(r"[a-z]{1,2}[0-9]{1,2}")
_OPERATORS: Final = ("and", "or", "not")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one scenario, in lower case. parts: searched within. wholes: ids and the like, compared whole."""

    parts: tuple[str, ...]
    wholes: frozenset[str]

    @classmethod
    def of(cls, scenario: Scenario) -> Words:
        """The words of a scenario: its name, its ids, the kinds of its faults, and the clauses that it can break."""
        kinds = {fault.kind for fault in scenario.faults}
        if scenario.swarm is not None:
            kinds.update(scenario.swarm.kinds)
        said = [each for each in scenario.expect.values() if isinstance(each, dict)]
        clauses = {clause for verdicts in said for clause, verdict in verdicts.items() if verdict == "violated"}
        name = _plain(scenario.name)
        return cls(
            parts=(name, *sorted(map(_plain, kinds))),
            wholes=frozenset(map(str.lower, (*name.split("-"), *scenario.ids, *clauses))),
        )

    def have(self, word: str) -> bool:
        """True if the word is one of these, or within one that is searched."""
        plain = _plain(word)
        return plain in self.wholes or (_ID.fullmatch(plain) is None and any(plain in part for part in self.parts))


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


_Decision = Callable[[Words], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """An expression that was read. text: as the user wrote it. words: those in it. takes: its answer for a scenario."""

    text: str
    words: tuple[str, ...]
    takes: _Decision

    def hint(self, scenarios: Iterable[Words]) -> str:
        """The end of a message about an expression that takes nothing: the nearest word that there is, or nothing."""
        known = list(scenarios)
        near = {part for each in known for name in each.parts for part in name.split("-")}
        near |= {whole for each in known for whole in each.wholes}
        return next(
            (hint for word in self.words if (hint := did_you_mean(_plain(word), sorted(near - {_plain(word)})))), ""
        )


def parse_selection(text: str) -> Selection:
    """An expression from its text. Raises ValueError that names the column of what is wrong."""
    if len(text) > LENGTH_MAX:
        raise ValueError(f"is {quote(text)}; expected at most {LENGTH_MAX:,} characters")
    reader = _Reader(text)
    takes = reader.either(0)
    reader.expect_end()
    return Selection(text, tuple(reader.words), takes)


class _Reader:
    """A reader of one expression, from left to right; `not` binds closest, then `and`, then `or`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self.words: list[str] = []

    def either(self, depth: int) -> _Decision:
        """`A or B`."""
        found = [self._both(depth)]
        while self._took("or"):
            found.append(self._both(depth))
        return found[0] if len(found) == 1 else lambda words: any(takes(words) for takes in found)

    def expect_end(self) -> None:
        """Raise ValueError if anything is left."""
        token, column = self._tokens[self._next]
        if token:
            raise self._refused(column, f"expected 'and', 'or' or the end, not {quote(token)}")

    def _both(self, depth: int) -> _Decision:
        found = [self._one(depth)]
        while self._took("and"):
            found.append(self._one(depth))
        return found[0] if len(found) == 1 else lambda words: all(takes(words) for takes in found)

    def _one(self, depth: int) -> _Decision:
        token, column = self._tokens[self._next]
        if depth > DEPTH_MAX:
            raise self._refused(column, f"more than {DEPTH_MAX} parentheses and 'not' within each other")
        if self._took("not"):
            inner = self._one(depth + 1)
            return lambda words: not inner(words)
        if self._took("("):
            group = self.either(depth + 1)
            if not self._took(")"):
                raise self._refused(
                    self._tokens[self._next][1], f"the parenthesis of column {column + 1} is not closed"
                )
            return group
        if token in ("", ")", *_OPERATORS):
            found = quote(token) if token else "the end"
            raise self._refused(column, f"expected a word, 'not' or '(', found {found}")
        self._next += 1
        self.words.append(token)
        return lambda words: words.have(token)

    def _took(self, token: str) -> bool:
        is_next = self._tokens[self._next][0] == token
        self._next += is_next
        return is_next

    def _refused(self, column: int, what: str) -> ValueError:
        return _refused(self._text, column, what)


def _tokens(text: str) -> Sequence[tuple[str, int]]:
    """Tokens with where they begin, counted from 0; the last one is empty."""
    found: list[tuple[str, int]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        assert match is not None, "something that is no blank is left"
        kind = str(match.lastgroup)
        if kind == "strange":
            raise _refused(text, match.start(kind), f"{quote(match[kind])} has no meaning here")
        found.append((match[kind], match.start(kind)))
        place = match.end()
    return [*found, ("", end)]


def _refused(text: str, column: int, what: str) -> ValueError:
    return ValueError(f"{quote(text)}, column {column + 1}: {what}")
