"""The table of stores in the documents comes from fingerprints, and stands between its marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.stores_table import BEGIN, DOCUMENT, END, table_of, with_table
from tests.unit.scenarios.probe.test_findings import all_kept, document, found


def test_a_store_is_a_column_and_a_clause_a_row() -> None:
    """Signs for verdicts and designs, and faulty rounds of those that were judged."""
    bad = document(all_kept() | {"C4": found("C4", unsafe=["accepted a stale one"])})
    lines = table_of({"good": document(all_kept()), "bad": bad}).splitlines()
    assert lines[0] == "||good|bad|"
    assert lines[2] == "|**verdict**|✓ conforming|✗ unsafe|"
    assert "|C4|✓|✗|" in lines
    assert "|compare-and-swap|✓|✗|" in lines


def test_the_document_has_a_place_for_it() -> None:
    """What is around the table stays; a document without the marks is refused."""
    text = (Path(__file__).parents[2] / DOCUMENT).read_text(encoding="utf-8")
    written = with_table(text, "|new|")
    assert "|new|" in written
    assert written.partition(BEGIN)[0] == text.partition(BEGIN)[0]
    assert written.partition(END)[2] == text.partition(END)[2]
    with pytest.raises(ValueError, match="no place for the table"):
        with_table("no marks", "|new|")
