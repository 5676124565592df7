"""How far two figures are apart, as an interval at 95 %.

Shares of runs (how often a clause broke) are counts of independent runs:
Newcombe's interval for the difference of two shares, made of Wilson's for each
(Newcombe 1998, method 10).

Figures of a real run are not made of independent samples: one slow second slows
every client. So a run is cut into stretches of time, and whole stretches are
drawn with replacement (a block bootstrap). What a figure owes to the moments at
which it was measured is then in its interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot
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


@dataclass(frozen=True, slots=True)
class Stretches:
    """What was measured in each stretch of time: samples with the stretch they fell into, of `count` stretches."""

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
