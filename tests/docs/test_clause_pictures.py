"""docs/explanation/clauses.md: a picture for each clause, drawn from a run that breaks it, and up to date."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from reports.checks.spec import CLAUSES
from tests.docs.clause_pictures import FOLDER, NOT_DRAWN, PAGE, picture_of

DRAWN = [clause for clause in CLAUSES if clause not in NOT_DRAWN]


@pytest.mark.parametrize("clause", DRAWN)
def test_the_picture_of_a_clause_is_current(clause: str) -> None:
    """Its scenario still breaks it, and the picture and the words on the page are those of that run (`make docs`)."""
    drawn = picture_of(clause)
    assert drawn.scenario.with_suffix(".svg").read_text(encoding="utf-8") == drawn.svg, "run `make docs`"
    assert f"<!-- clause {clause} -->\n{drawn.text}<!-- end -->" in PAGE.read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("clause", DRAWN)
def test_the_guilty_moment_is_marked(clause: str) -> None:
    """Somewhere in the picture stands which clause breaks; it is a file of its own, for light and dark surroundings."""
    picture = ET.fromstring(picture_of(clause).svg)
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.endswith(f"✗ breaks {clause}") for text in texts)
    styles = "".join(each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}style"))
    assert "prefers-color-scheme: dark" in styles
    assert float(picture.attrib["width"]) <= 900, "it fits a page of text"


def test_every_clause_has_its_place() -> None:
    """Each clause has a heading, in the order of the specification, and no picture is left over."""
    page = PAGE.read_text(encoding="utf-8")
    headings = [line.removeprefix("### ").partition(":")[0] for line in page.splitlines() if line.startswith("### ")]
    assert headings == list(CLAUSES)
    assert {path.stem for path in FOLDER.glob("*.svg")} == {clause.lower() for clause in DRAWN}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {clause.lower() for clause in DRAWN}
