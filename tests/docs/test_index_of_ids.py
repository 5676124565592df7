"""The index of ids: every id that stands in documents, scenarios and messages is in it, with its sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.id_links import ID
from docs.site.item_pages import index_of_ids
from docs.site.items import Family, families, items, number_of, scenarios, shown_by
from lockref.stores.probe.clauses import CLAUSES as QUESTIONS
from reports.checks.spec import CLAUSES
from tests.docs import DOCUMENTS, ROOT

LETTERS = {family.letter for family in families()}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")


def ids_in(text: str) -> set[str]:
    """The ids of known families in a text; other words of a letter and a number are none."""
    return {name for name in ID.findall(text) if re.sub(r"\d", "", name) in LETTERS}


def messages() -> Iterator[tuple[Path, str]]:
    """The texts in the sources of the product that are no docstrings: messages, sentences, help."""
    for room in ("lockref", "sim", "scenarios", "reports"):
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
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
