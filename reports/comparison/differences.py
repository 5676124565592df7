"""The difference of two figures, as an interval at 95 %.

Shares of runs (how often a clause broke) are counts of independent runs:
Newcombe's interval for the difference of two shares, made of Wilson's for each
(Newcombe 1998, method 10).

Figures of a real run are not made of independent samples: one slow second slows
every client. So a run is cut into stretches of time, and whole stretches are
drawn with replacement (a block bootstrap). What a figure owes to the moments at
which it was measured is then in its interval.

How two runs of one thing differ is not in one run. Where each side was run
several times, the interval is of those runs: of all pairs, one run of each side,
the middle differences by rank (Hodges and Lehmann 1963; Mann and Whitney 1947).
It is exact for few runs, and asks nothing of how the figures are distributed.
What slows all runs of a block alike makes it miss less often, not more.

Newcombe's interval is too narrow for a handful of runs: of two equal locks that
break in every second run, it tells two runs of each apart one time in eight. So
two shares are apart only if Fisher's exact test finds them apart, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import comb, hypot
from typing import Final

import numpy as np
import numpy.typing as npt

from reports.checks.measures.confidence import wilson_95

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESAMPLES: Final = 1_000
_INTERVAL: Final = (2.5, 97.5)
_UNDEFINED_MAX: Final = 0.05
"""A figure that is undefined in more of the resamples has no interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends, in the figure's own unit."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"an interval from {self.low} to {self.high}")

    def holds(self, value: float) -> bool:
        """True if the value is inside."""
        return self.low <= value <= self.high


def share_difference(broken: int, runs: int, of_broken: int, of_runs: int) -> Interval:
    """The first share less the second, between -1 and 1; the whole range where either counted no run."""
    if not runs or not of_runs:
        return Interval(-1.0, 1.0)
    one, other = broken / runs, of_broken / of_runs
    (low, high), (of_low, of_high) = wilson_95(broken, runs), wilson_95(of_broken, of_runs)
    middle = one - other
    return Interval(middle - hypot(one - low, of_high - other), middle + hypot(high - one, other - of_low))


def chance_of_shares(broken: int, runs: int, of_broken: int, of_runs: int) -> float:
    """The probability that two equal shares differ as much as these, or more: Fisher's exact test, both sides."""
    both = broken + of_broken
    least, most = max(0, both - of_runs), min(both, runs)
    counts = np.arange(least, most)
    rises = np.log((both - counts) * (runs - counts)) - np.log((counts + 1) * (of_runs - both + counts + 1))
    logs = np.concatenate([[0.0], np.cumsum(rises)])
    weights = np.exp(logs - logs.max())
    as_unlikely = weights <= weights[broken - least] * (1 + 1e-9)
    return float(weights[as_unlikely].sum() / weights.sum())


@dataclass(frozen=True, slots=True)
class Stretches:
    """Samples by stretch of time: each with the number of the stretch that it fell into, of `count` stretches."""

    values: Floats
    stretch: Ints
    count: int

    def __post_init__(self) -> None:
        if len(self.values) != len(self.stretch):
            raise ValueError(f"{len(self.values)} samples, {len(self.stretch)} stretches")
        if len(self.stretch) and not 0 <= int(self.stretch.min()) <= int(self.stretch.max()) < self.count:
            raise ValueError(f"a sample outside of the {self.count} stretches")


Drawn = Callable[[Ints], Floats]
"""From how often each stretch was drawn, one row per resample, to one figure per resample; NaN where undefined."""


def quantile_of(samples: Stretches, share: float) -> Drawn:
    """The quantile, a value that occurred, of the samples in the stretches that were drawn."""
    order = np.argsort(samples.values, kind="stable")
    values, stretch = samples.values[order], samples.stretch[order]

    def draw(times: Ints) -> Floats:
        figures = np.full(len(times), np.nan)
        for row, counts in enumerate(times):
            weight = np.cumsum(counts[stretch])
            if len(weight) and weight[-1]:
                figures[row] = values[np.searchsorted(weight, share * weight[-1])]
        return figures

    return draw


def ratio_of(above: Floats, below: Floats) -> Drawn:
    """The sum of one quantity over that of another, both given per stretch, such as grants and seconds."""

    def draw(times: Ints) -> Floats:
        top, bottom = np.dot(times, above), np.dot(times, below)
        figures = np.full(len(times), np.nan)
        np.divide(top, bottom, out=figures, where=bottom > 0)
        return figures

    return draw


def known(value: float) -> Drawn:
    """A figure that was measured elsewhere, of which only the value is known."""

    def draw(times: Ints) -> Floats:
        return np.full(len(times), float(value))

    return draw


def once(figure: Drawn, stretches: int) -> float | None:
    """The figure itself: each stretch drawn once. None where it is undefined."""
    value = float(figure(np.ones((1, stretches), dtype=np.int64))[0])
    return None if np.isnan(value) else value


def resampled(figure: Drawn, stretches: int, *, seed: int) -> Floats:
    """The figure in `RESAMPLES` resamples. Equal seeds draw alike, so each subject takes a seed of its own."""
    drawn = np.random.default_rng(seed).integers(0, stretches, size=(RESAMPLES, stretches))
    times = np.zeros((RESAMPLES, stretches), dtype=np.int64)
    np.add.at(times, (np.arange(RESAMPLES)[:, None], drawn), 1)
    assert bool((times.sum(axis=1) == stretches).all()), "as many stretches are drawn as there are"
    return figure(times)


def interval_of(figures: Floats) -> Interval | None:
    """The middle 95 % of resampled figures; None where too many of them are undefined."""
    if np.isnan(figures).mean() > _UNDEFINED_MAX:
        return None
    low, high = np.nanpercentile(figures, _INTERVAL)
    return Interval(float(low), float(high))


def ratio_interval(figures: Floats, of: Floats) -> Interval | None:
    """The middle 95 % of one figure over another, each from its own resamples; None where either is undefined or 0."""
    below = np.where(of > 0, of, np.nan)
    return interval_of(figures / below)


def between_runs(pairs: Floats, *, error: float) -> Interval | None:
    """The interval of the difference between two sides that were run several times.

    pairs: the difference, or the ratio, of each run of the one side (rows) from each of the other (columns); all are
    finite. error: how often the interval may miss the true difference, at most. None for too few runs for that.
    """
    assert bool(np.isfinite(pairs).all()), "a figure that some run lacks is compared with nothing"
    runs, of_runs = pairs.shape
    total, reached, outside = comb(runs + of_runs, runs), 0, 0
    for arrangements in _arrangements(runs, of_runs):
        if 2 * (reached + arrangements) > error * total:
            break
        reached += arrangements
        outside += 1
    if not outside:
        return None
    ordered = np.sort(pairs, axis=None)
    return Interval(float(ordered[outside - 1]), float(ordered[len(ordered) - outside]))


@cache
def _arrangements(runs: int, of_runs: int) -> tuple[int, ...]:
    """In how many orders of all runs so many pairs stand the wrong way round: of 0, 1, 2 and so on pairs.

    They are the coefficients of the Gaussian binomial: the product of (1 - x^(of_runs + i)) / (1 - x^i).
    """
    counts = [1, *[0] * (runs * of_runs)]
    for factor in range(1, runs + 1):
        for place in range(len(counts) - 1, of_runs + factor - 1, -1):
            counts[place] -= counts[place - of_runs - factor]
        for place in range(factor, len(counts)):
            counts[place] += counts[place - factor]
    assert sum(counts) == comb(runs + of_runs, runs), "each order of the runs is counted once"
    return tuple(counts)


def repeats_least(error: float) -> int:
    """The fewest runs of each side with which a difference can be told at all, if the interval may miss so often."""
    return next(repeats for repeats in count(1) if error * comb(2 * repeats, repeats) >= 2)


def share_seen(factor: float, *, repeats: int, spread: float, error: float) -> float:
    """In which share of comparisons a difference by this factor is told, by a trial of `RESAMPLES` comparisons.

    spread: how much the figure varies from run to run, as the standard deviation of its logarithm: 0.1 is about 10 %.
    """
    logs = np.random.default_rng(0).normal(0.0, spread, size=(RESAMPLES, 2, repeats))
    ratios = factor * np.exp(logs[:, 0, :, None] - logs[:, 1, None, :])
    found = [between_runs(pairs, error=error) for pairs in ratios]
    return sum(each is not None and not each.holds(1.0) for each in found) / RESAMPLES
