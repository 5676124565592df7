"""The search of a boundary: it ends next to the value at which things change, whatever that is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scenarios.envelope.bisection import Bracket, first_change


@given(edge=st.integers(1, 1_000_000), resolution=st.integers(1, 5_000))
def test_a_search_ends_around_the_edge_and_no_wider_than_the_resolution(edge: int, resolution: int) -> None:
    bracket = Bracket(held=0, broke=1_000_000)
    asked = 0
    while (middle := bracket.middle(resolution)) is not None:
        bracket = bracket.told(middle, has_broken=middle >= edge)
        asked += 1
    assert bracket.held is not None
    assert bracket.broke is not None
    assert bracket.held < edge <= bracket.broke
    assert bracket.broke - bracket.held <= resolution
    assert asked <= 21


@given(edge=st.integers(0, 999_999))
def test_an_axis_on_which_high_is_mild_is_searched_downwards(edge: int) -> None:
    bracket = Bracket(held=1_000_000, broke=0)
    while (middle := bracket.middle(1)) is not None:
        bracket = bracket.told(middle, has_broken=middle <= edge)
    assert (bracket.broke, bracket.held) == (edge, edge + 1)


def test_a_row_begins_to_break_at_the_first_cell_that_did() -> None:
    """An island is told: beyond the first broken cell it held again."""
    assert first_change([(0, False), (1, False), (2, True), (3, True)]) == Bracket(held=1, broke=2)
    assert first_change([(0, False), (1, True), (2, False)]) == Bracket(held=0, broke=1, holds_again=True)
    assert first_change([(0, True), (1, True)]) == Bracket(held=None, broke=0)
    assert first_change([(0, False), (1, False)]) == Bracket(held=1, broke=None)


def test_nothing_is_asked_where_there_is_no_edge() -> None:
    assert Bracket(held=5, broke=None).middle(1) is None
    assert Bracket(held=None, broke=5).middle(1) is None
