"""`-k` and `--exclude`: what an expression takes, and where a bad one is wrong."""

from __future__ import annotations

import re

import pytest

from reports.checks.spec import CLAUSES
from scenarios.definition.load import catalogue, load_scenario, parse_scenario
from scenarios.gate.selection import DEPTH_MAX, LENGTH_MAX, Words, parse_selection

PAUSED = """
version: 1
name: e08-paused-holder
ids: [E8, U2]
faults: [{kind: lose_reply, client: n1, op: renew, nth: 2}]
expect: {hudi: {S3: violated, S5: held}, hardened: held}
"""


def words() -> Words:
    return Words.of(parse_scenario(PAUSED))


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("paused", True),
        ("PAUSED", True),
        ("use", True),
        ("paused-holder", True),
        ("paused_holder", True),
        ("lose", True),
        ("lose_reply", True),
        ("lose-reply", True),
        ("crash", False),
        ("E8", True),
        ("e08", True),
        ("u2", True),
        ("e1", False),
        ("e0", False),
        ("S3", True),
        ("s3", True),
        ("S5", False),
        ("hudi", False),
        ("not paused", False),
        ("not not paused", True),
        ("paused and crash", False),
        ("paused or crash", True),
        ("crash or crash or paused", True),
        ("crash and crash or paused", True),
        ("paused or crash and crash", True),
        ("crash and (crash or paused)", False),
        ("not crash and paused", True),
        ("not (crash or paused)", False),
        ("(((paused)))", True),
        (" ( paused )and not(crash) ", True),
        ("notpaused", False),
    ],
)
def test_an_expression_takes_what_it_says(text: str, is_taken: bool) -> None:
    """`not` binds closest, then `and`, then `or`; a word is searched, an id is compared whole."""
    assert parse_selection(text).takes(words()) is is_taken


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("", 1, "found the end"),
        ("   ", 1, "found the end"),
        ("a and", 6, "found the end"),
        ("a and  ", 6, "found the end"),
        ("and a", 1, "found 'and'"),
        ("a or or b", 6, "found 'or'"),
        ("a b", 3, "expected 'and', 'or' or the end, not 'b'"),
        ("a not b", 3, "not 'not'"),
        ("(a", 3, "the parenthesis of column 1 is not closed"),
        ("a)", 2, "not ')'"),
        ("()", 2, "found ')'"),
        ("a & b", 3, "'&' has no meaning here"),
        ("a == b", 3, "'=' has no meaning here"),
        ("(" * (DEPTH_MAX + 2) + "a", DEPTH_MAX + 2, "within each other"),
        ("not " * (DEPTH_MAX + 2) + "a", 4 * (DEPTH_MAX + 1) + 1, "within each other"),
    ],
)
def test_a_bad_expression_says_where(text: str, column: int, what: str) -> None:
    """Every complaint has the column, counted from 1."""
    with pytest.raises(ValueError, match=re.escape(what)) as raised:
        parse_selection(text)
    assert f", column {column}: " in str(raised.value)


def test_an_endless_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1,000 characters"):
        parse_selection("a" * (LENGTH_MAX + 1))


def test_a_word_that_nothing_has_is_answered_with_a_near_one() -> None:
    assert parse_selection("not crash and paussed").hint([words()]) == " Did you mean 'paused'?"
    assert parse_selection("zzzz").hint([words()]) == ""


def test_each_clause_that_the_catalogue_breaks_takes_scenarios() -> None:
    """A clause takes the scenarios that some lock is known to break it in, and neither none nor all."""
    every = [Words.of(load_scenario(path, may_import=False)) for path in catalogue()]
    for clause in ("S1", "S3", "S4", "S5", "S6", "S7", "L4"):
        assert clause in CLAUSES
        assert 0 < sum(map(parse_selection(clause).takes, every)) < len(every) / 2
    assert sum(map(parse_selection("e1").takes, every)) < sum(map(parse_selection("empty").takes, every)) + 2
