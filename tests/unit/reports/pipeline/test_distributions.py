"""Distributions add up: exact while they are small, then within the error that they tell."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from reports.pipeline import distributions
from reports.pipeline.distributions import Distribution

POINTS = (0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)


def test_few_values_give_exact_quantiles_however_they_are_cut():
    """Below the size, the quantiles are those of all values at once, to the last bits."""
    values = np.random.default_rng(1).integers(-(10**9), 10**12, 5_000)
    assert pickle.loads(pickle.dumps(Distribution(values))).count == 5_000
    joined = Distribution()
    for part in np.array_split(values, 7):
        joined.join(pickle.loads(pickle.dumps(Distribution(part))))
    assert (joined.count, joined.rank_error) == (5_000, 0.0)
    assert joined.quantiles(POINTS) == pytest.approx(np.quantile(values, POINTS), rel=1e-15)


@pytest.mark.parametrize("cuts", [1, 9])
def test_many_values_give_quantiles_within_the_error_that_is_told(cuts: int):
    """Beyond the size, the share of values below each quantile is off by no more than is told; the ends are exact."""
    values = np.random.default_rng(2).lognormal(15, 2, 3 * distributions.EXACT_MAX).astype(np.int64)
    joined = Distribution()
    for part in np.array_split(values, cuts):
        joined.join(pickle.loads(pickle.dumps(Distribution(part))))
    assert joined.count == len(values)
    assert 0 < joined.rank_error < 0.001
    found = joined.quantiles(POINTS)
    assert (found[0], found[-1]) == (values.min(), values.max())
    ordered = np.sort(values)
    for point, value in zip(POINTS, found, strict=True):
        rank = np.searchsorted(ordered, value) / len(values)
        # The error holds with a probability of 99 %; twice of it always, in practice.
        assert abs(rank - point) <= 2 * joined.rank_error + 1e-5


def test_an_exact_distribution_joins_a_sketch_and_a_sketch_an_exact_one(monkeypatch: pytest.MonkeyPatch):
    """Whichever of the two comes first, no value is lost."""
    monkeypatch.setattr(distributions, "EXACT_MAX", 100)
    few, many = np.arange(50), np.arange(50, 1_050)
    for first, second in ((few, many), (many, few)):
        joined = Distribution(first)
        joined.join(Distribution(second))
        assert (joined.count, joined.quantiles((0.0, 1.0))) == (1_050, [0.0, 1_049.0])
