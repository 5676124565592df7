"""The slope of a series and its interval, by Theil and Sen: half of the values may be wild, and it does not move.

The interval is Sen's, from the variance of Kendall's S. It takes values for independent of each other, and samples of a
process are not: what was high a moment ago is high now. So the variance is multiplied as Hamed and Rao (1998) do, here
by the correlation of neighbours alone. Without this a slow wave looks like a slope.

No library of the laboratory has it (SciPy has, and would be a second NumPy in size, for ten lines).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Z_95: Final = 1.959964
INFLATION_MAX: Final = 9.0
"""The variance is multiplied by at most so much: more than that, and no series of twenty values would show anything."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope and its 95 % interval, in units of y for each unit of x."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Slope:
        """The same in other units. factor: positive."""
        assert factor > 0, "a negative factor would turn the interval around"
        return Slope(self.value * factor, self.low * factor, self.high * factor)


def theil_sen(x: Floats, y: Floats) -> Slope:
    """The median of the slopes of all pairs, and its interval. x: rising; pairs without a distance are left out.

    Cost: quadratic in the number of values; a soak hands over a few dozen.
    Raises ValueError for fewer than three values, and where all x are equal.
    """
    if len(x) < 3 or len(x) != len(y):
        raise ValueError(f"a slope needs three values, and as many x as y; got {len(x)} and {len(y)}")
    first, second = np.triu_indices(len(x), 1)
    distance = x[second] - x[first]
    is_apart = distance > 0
    if not is_apart.any():
        raise ValueError("a slope needs values of different x")
    slopes = np.sort((y[second] - y[first])[is_apart] / distance[is_apart])
    value = float(np.median(slopes))
    count = len(x)
    variance = count * (count - 1) * (2 * count + 5) / 18 * _inflation(x, y, value)
    reach = Z_95 * math.sqrt(variance)
    below = max(0, math.floor((len(slopes) - reach) / 2))
    above = min(len(slopes) - 1, math.ceil((len(slopes) + reach) / 2))
    return Slope(value, float(slopes[below]), float(slopes[above]))


def _inflation(x: Floats, y: Floats, slope: float) -> float:
    """By how much neighbours that are alike widen the variance: (1 + r) / (1 - r) of the ranks of the residuals."""
    residuals = y - slope * x
    ranks = np.argsort(np.argsort(residuals, kind="stable"), kind="stable").astype(np.float64)
    if float(np.ptp(residuals)) == 0:
        return 1.0
    ranks -= ranks.mean()
    r = float(np.dot(ranks[:-1], ranks[1:]) / np.dot(ranks, ranks))
    return min(INFLATION_MAX, max(1.0, (1 + r) / (1 - r))) if r < 1 else INFLATION_MAX
