"""The index of ids and the catalogue of scenarios, as pages that link to each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from docs.site.items import DOCS, Family, Item, families, scenarios, shown_by
from docs.site.markdown import code, escaped, one_line, table
from reports.checks.spec import CLAUSES
from scenarios.definition.expectation_words import LEGEND, expectation_words
from scenarios.definition.schema import Scenario

SHOWN_MAX = 6


def index_of_ids() -> str:
    """A table for each family: id, sentence, the page that says more, scenarios that show it."""
    return "\n".join(f"## {each.letter}: {each.title}\n\n{_table(each)}" for each in families())


def _table(family: Family) -> str:
    rows = [(f"**{item.id}**", one_line(item.sentence), _more(item), _scenarios(item.id)) for item in family.items]
    return table(("id", "what it stands for", "more", "shown by"), rows)


def _more(item: Item) -> str:
    """The page alone: `docs.site.id_links` leads the link to the row or paragraph, whose anchor it makes."""
    return f"[{_title(item.page)}](../{item.page}.md)" if item.page else ""


@cache
def _title(page: str) -> str:
    """The heading of a page, up to its first comma or colon."""
    first = (DOCS / f"{page}.md").read_text(encoding="utf-8").split("\n", 1)[0]
    return re.split("[:,]", first.removeprefix("# "))[0]


def _scenarios(name: str) -> str:
    shown = shown_by(name)
    links = [f"[{each}](catalogue.md#{each})" for each in shown[:SHOWN_MAX]]
    if len(shown) > SHOWN_MAX:
        option = "--clause" if name in CLAUSES else "--id"
        links.append(f"and {len(shown) - SHOWN_MAX} more: {code(f'lockref scenario list {option} {name}')}")
    return ", ".join(links) or "–"


def catalogue_of_scenarios() -> str:
    """A section for each scenario: what happens, what it shows, its faults, what each build makes of it."""
    return f"{escaped(LEGEND)}\n\n" + "\n".join("\n".join(_scenario(each)) for each in scenarios())


def _scenario(scenario: Scenario) -> Iterator[str]:
    yield f"## {scenario.name}\n"
    yield f"{one_line(scenario.about)}\n"
    if scenario.ids:
        yield f"- shows: {', '.join(scenario.ids)}"
    kinds = list(dict.fromkeys(fault.kind for fault in scenario.faults))
    told = ", ".join(f"[{kind}](scenario-keys.md#{kind})" for kind in kinds)
    yield f"- faults: {'random' if scenario.swarm else told or 'none'}"
    expected = (f"{code(build)} {escaped(expectation_words(said))}" for build, said in scenario.expect.items())
    yield f"- expected: {'; '.join(expected) or 'nothing is written down'}"
    yield f"- run it: {code(f'lockref sim {scenario.name}')}\n"
