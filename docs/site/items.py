"""The numbered items of lockref: each id with its sentence, the page that says more, and the scenarios that show it.

A sentence stands in one place. Clauses: `reports.checks.spec`. What a store is asked: `lockref.stores.probe.clauses`.
Hazards that a page explains in a table: that table. All others: `items.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lockref.stores.probe.clauses import CLAUSES as QUESTIONS
from reports.checks.spec import CLAUSES
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.schema import Scenario

DOCS = Path(__file__).parents[1]
DATA = Path(__file__).with_name("items.toml")

CELL = re.compile(r"(?<!\\)\|")
NUMBER = re.compile(r"([A-Z]{1,2})(\d{1,2})")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One meaning of an id.

    sentence: what the id stands for. subject: whose item it is, where the same id has a second meaning; "" else.
    page: the page that says more, without its ending. has_row: its table or paragraph about the item has an anchor.
    """

    id: str
    sentence: str
    subject: str = ""
    page: str = ""
    has_row: bool = False


@dataclass(frozen=True, kw_only=True)
class Family:
    """Items of one letter and one subject, in the order of their numbers."""

    letter: str
    title: str
    items: tuple[Item, ...] = field(default=())


@cache
def families() -> tuple[Family, ...]:
    """All families: the clauses first, then the questions to a store, then those of `items.toml`."""
    clauses = (("S", "Safety"), ("L", "Liveness"), ("F", "Fairness"), ("DL", "Commits to a Delta log"))
    first = [_of_code(letter, title, CLAUSES, page="spec") for letter, title in clauses]
    asked = {name: f"The store is asked for {one.words}. If it fails: {one.harm}." for name, one in QUESTIONS.items()}
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))["family"]
    return (*first, _of_code("C", "What a store is asked", asked, page="results"), *(_of_data(each) for each in data))


@cache
def items() -> Mapping[str, tuple[Item, ...]]:
    """Every id with its meanings: one, or two where two families share a letter."""
    found: dict[str, tuple[Item, ...]] = {}
    for family in families():
        for item in family.items:
            found[item.id] = (*found.get(item.id, ()), item)
    return found


@cache
def scenarios() -> tuple[Scenario, ...]:
    """The catalogue, by name."""
    return tuple(load_scenario(path, may_import=False) for path in catalogue())


def shown_by(name: str) -> tuple[str, ...]:
    """The scenarios that carry an id, or in which a build breaks the clause of that name."""
    return tuple(one.name for one in scenarios() if name in one.ids or name in _broken(one))


def _broken(scenario: Scenario) -> Iterator[str]:
    for said in scenario.expect.values():
        if isinstance(said, dict):
            yield from (clause for clause, verdict in said.items() if verdict == "violated")


def number_of(name: str) -> int:
    """The number of an id, by which its family is ordered."""
    found = NUMBER.fullmatch(name)
    assert found, f"{name!r} is no id"
    return int(found[2])


def _of_code(letter: str, title: str, sentences: Mapping[str, str], *, page: str) -> Family:
    own = [(name, text) for name, text in sentences.items() if NUMBER.sub(r"\1", name) == letter]
    made = (Item(id=name, sentence=text, page=page, has_row=True) for name, text in own)
    return Family(letter=letter, title=title, items=tuple(made))


def _of_data(data: Mapping[str, object]) -> Family:
    letter, page, subject = str(data["letter"]), str(data["home"]), str(data.get("subject", ""))
    rows = dict(_rows(page, letter)) if data.get("table") else {}
    written = data.get("items", {})
    assert isinstance(written, dict)
    twice = sorted(set(rows) & set(written))
    if twice:
        raise ValueError(f"{DATA.name} defines {', '.join(twice)}, and so does a table of {page}.md")
    prefix = str(data.get("prefix", ""))
    made = [
        Item(id=name, sentence=_sentence(f"{prefix}{text}"), subject=subject, page=page, has_row=name in rows)
        for name, text in sorted({**rows, **written}.items(), key=lambda entry: number_of(entry[0]))
    ]
    return Family(letter=letter, title=str(data["title"]), items=tuple(made))


def _rows(page: str, letter: str) -> Iterator[tuple[str, str]]:
    """The ids in the first cells of the tables of a page, each with the second cell; the first row of an id counts."""
    seen = set()
    for line in (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in CELL.split(line)]
        if len(cells) < 4 or cells[0]:
            continue
        for name in re.findall(rf"\b{letter}\d{{1,2}}\b", cells[1]):
            if name not in seen:
                seen.add(name)
                yield name, cells[2]


def _sentence(text: str) -> str:
    begin = text[:1].upper() + text[1:]
    return begin if begin.endswith(".") else f"{begin}."
