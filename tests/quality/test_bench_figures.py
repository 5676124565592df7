"""How the bench compares: ratios round by round, more is better whatever is measured."""

from __future__ import annotations

import pytest

from tests.bench.compare import ROWS
from tests.bench.figures import Figure, Spread
from tests.bench.frontier import Cycle, handoffs_ms
from tests.bench.worker import ROWS as MEASURED


def test_a_ratio_is_taken_round_by_round_and_shows_its_spread():
    """What slows the machine down in one round slows both sides of that round."""
    ratio = Spread((10.0, 1.0, 4.0)).over(Spread((5.0, 1.0, 2.0)))
    assert ratio.values == (2.0, 1.0, 2.0)
    assert str(ratio) == "2 [1 to 2]"
    assert "[1 to 2]" in Figure.of("a ratio", ratio, "ratio").line()


def test_a_shorter_duration_counts_as_a_gain_as_a_higher_rate_does():
    """Above 1 is better in every row."""
    slow, fast = Spread((1.0,)), Spread((2.0,))
    for row in ROWS:
        assert row.ratio(*((slow, fast) if row.is_rate else (fast, slow))).median == 2.0


def test_the_worker_measures_every_row():
    """A row that only one side knows could not be compared."""
    assert {row.name for row in ROWS} == set(MEASURED)


def test_a_handoff_ends_with_the_grant_of_one_who_waited():
    """Who comes later and gets it first ends nobody's wait; a release that nobody waited for hands nothing over."""
    first = Cycle(contender=1, asked=0.0, granted=0.0, released=1.0)
    again = Cycle(contender=1, asked=1.2, granted=1.3, released=1.4)
    waiter = Cycle(contender=2, asked=0.5, granted=3.0, released=4.0)
    later = Cycle(contender=3, asked=1.1, granted=1.15, released=1.18)
    assert handoffs_ms([first, again, waiter, later]) == pytest.approx([2_000.0, 1_600.0, 1_820.0])
    assert handoffs_ms([first, Cycle(contender=2, asked=1.5, granted=1.6, released=1.7)]) == []
    assert handoffs_ms([first, Cycle(contender=2, asked=0.5, granted=None, released=9.0)]) == []
