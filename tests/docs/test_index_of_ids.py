"""The index of ids: every id that stands in documents, scenarios and messages is in it, with its sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from sphinx.application import Sphinx

from docs.site.id_links import ID, link
from docs.site.item_pages import index_of_ids
from docs.site.items import Family, families, items, number_of, scenarios, shown_by
from lockref.stores.probe.clauses import CLAUSES as QUESTIONS
from reports.checks.spec import CLAUSES
from tests.docs import DOCUMENTS, ROOT
from tests.quality.source_trees import READS_SOURCES, ROOMS, tree

LETTERS = {family.letter for family in families()}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")


def ids_in(text: str) -> set[str]:
    """The ids of known families in a text; other words of a letter and a number are none."""
    return {name for name in ID.findall(text) if re.sub(r"\d", "", name) in LETTERS}


def messages() -> Iterator[tuple[Path, str]]:
    """The texts in the sources of the product that are no docstrings: messages, sentences, help."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            module = tree(path)
            told = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
            for node in ast.walk(module):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                    yield path, node.value


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_id_of_a_document_is_in_the_index(document: Path) -> None:
    """Outside of code, where letters and numbers mean other things."""
    text = CODE.sub("", BLOCK.sub("", document.read_text(encoding="utf-8")))
    assert ids_in(text) <= set(items())


def test_every_id_of_a_scenario_is_in_the_index() -> None:
    """The ids that a file carries, and those in its words."""
    assert all(ids_in(one.about) | set(one.ids) <= set(items()) for one in scenarios())


@READS_SOURCES
def test_every_id_of_a_message_is_in_the_index() -> None:
    """What a user may read in a message is explained in the index."""
    missing = {(path.name, name) for path, text in messages() for name in ids_in(text) - set(items())}
    assert not missing


def test_clauses_and_questions_are_those_of_the_code() -> None:
    """Their sentences stand in the code, and each has one meaning."""
    assert {name: items()[name][0].sentence for name in CLAUSES} == dict(CLAUSES)
    assert set(QUESTIONS) <= set(items())
    assert all(len(items()[name]) == 1 for name in (*CLAUSES, *QUESTIONS))


@pytest.mark.parametrize("family", families(), ids=lambda family: f"{family.letter} {family.title}")
def test_a_family_is_in_order_and_each_item_has_a_sentence(family: Family) -> None:
    """Numbers rise; a sentence begins with a capital, ends with a full stop, and says something."""
    assert [number_of(one.id) for one in family.items] == sorted({number_of(one.id) for one in family.items})
    assert family.items
    for one in family.items:
        assert one.sentence[0].isupper() or not one.sentence[0].isalpha(), one
        assert one.sentence.endswith("."), one
        assert len(one.sentence) > 15, one


def test_an_id_names_the_scenarios_that_show_it() -> None:
    """Those that carry it, and for a clause those in which a build is expected to break it."""
    assert "e08-paused-holder" in shown_by("E8")
    assert "e08-paused-holder" in shown_by("S3")
    assert "e01-empty-store" not in shown_by("S3")


def test_the_index_has_a_row_for_each_meaning() -> None:
    """Two letters have two families, so some ids have two rows."""
    rows = re.findall(r"^\| \*\*(\w+)\*\* \|", index_of_ids(), re.MULTILINE)
    assert len(rows) == sum(len(meanings) for meanings in items().values())
    assert {name for name in rows if rows.count(name) > 1} == {name for name, both in items().items() if len(both) > 1}


def resolved(page: str, body: str) -> nodes.document:
    """A page of the site with this text, its ids linked."""
    app = SimpleNamespace(builder=SimpleNamespace(get_relative_uri=lambda _, to: f"{to}.html"))
    tree = publish_doctree(body, settings_overrides={"report_level": 5})
    link(cast("Sphinx", app), tree, page)
    return tree


def linked(page: str, body: str) -> list[str]:
    """The anchors of the index to which the page leads."""
    prefix = "reference/ids.html#id-"
    return [one["refuri"].removeprefix(prefix) for one in resolved(page, body).findall(nodes.reference)]


def test_an_id_links_to_its_row_and_tells_its_sentence() -> None:
    """Each use, on whatever page; of an id with two meanings both sentences."""
    text = "It stops believing (H1), as D3 and S5 demand."
    assert linked("gate", text) == ["h1", "d3", "s5"]
    titles = [one["reftitle"] for one in resolved("gate", text).findall(nodes.reference)]
    assert titles[0] == items()["H1"][0].sentence
    assert [one.sentence in titles[1] for one in items()["D3"]] == [True, True]
    assert "(of Delta's lease)" in titles[1]


def test_code_and_other_words_are_left_alone() -> None:
    """Code may mean something else by a letter and a number; so may a path, and an id that does not exist."""
    assert linked("gate", "``H1`` and H1-like and x/H1 and H99 and RFC-91") == []


@pytest.mark.parametrize(
    ("page", "text", "is_clause"),
    [
        ("gate", "S3, S4 broke", True),
        ("gate", "S1 to S7, S2 and S3", True),
        ("gate", "a lock in S3", False),
        ("spec", "S3 sees belief", True),
        ("spec", "an S3 server", False),
        ("spec", "objects of S3", False),
    ],
)
def test_s3_is_the_clause_or_the_store(page: str, text: str, is_clause: bool) -> None:
    """Beside another clause, or on a page about clauses, it is the clause, unless a store's words stand beside it."""
    assert ("s3" in linked(page, text)) is is_clause


def test_the_words_that_define_an_id_carry_the_anchor_and_no_link() -> None:
    """A paragraph of docs/spec.md that begins with the id; elsewhere the same words are a link."""
    text = "**S1 Truth exclusion.** Grants form a chain."
    assert "item-s1" in resolved("spec", text).ids
    assert linked("spec", text) == []
    assert linked("gate", text) == ["s1"]
