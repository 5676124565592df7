"""How the bench compares: ratios round by round, more is better whatever is measured."""

from __future__ import annotations

from tests.bench.compare import ROWS
from tests.bench.figures import Figure, Spread
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
