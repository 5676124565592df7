"""What n runs say: the rule of three and Wilson's interval."""

from __future__ import annotations

import pytest

from reports.checks.measures.confidence import bound_95, wilson_95


@pytest.mark.parametrize("runs", [30, 1000, 30_000])
def test_no_violation_bounds_the_rate_by_three_over_n(runs):
    """3/n is the exact 95 % bound, rounded up: with that rate, n clean runs happen in at most 5 % of cases."""
    assert (1 - bound_95(runs)) ** runs <= 0.05
    assert bound_95(runs) == pytest.approx(1 - 0.05 ** (1 / runs), rel=0.06)


def test_few_runs_say_little():
    """The bound is a rate, so never above one."""
    assert bound_95(0) == bound_95(1) == bound_95(3) == 1.0


def test_one_of_twenty_five_spans_a_factor_of_twenty():
    """A worked figure: 1 of 25 means 0.7 % to 19.5 %."""
    low, high = wilson_95(1, 25)
    assert (round(low, 3), round(high, 3)) == (0.007, 0.195)


def test_wilson_at_its_ends():
    """No runs say nothing; all of them violated leaves room below, none above."""
    assert wilson_95(0, 0) == (0.0, 1.0)
    assert wilson_95(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson_95(10, 10)[1] == pytest.approx(1.0)


def test_more_violations_than_runs_is_a_mistake():
    """A miscount is said, not computed with."""
    with pytest.raises(ValueError, match="3 violations in 2 runs"):
        wilson_95(3, 2)
