"""The distribution of one measure, added up share by share: exact while it is small, then a sketch.

Up to `EXACT_MAX` values are kept as they are, and quantiles are exact. Beyond, they are in a KLL sketch (Karnin, Lang
and Liberty 2016, as Apache DataSketches has it), which takes about 100 kB however many values there are. The rank of a
quantile from it is off by at most `rank_error`, with a probability of 99 %; the least and the greatest value are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[Any]

EXACT_MAX: Final = 100_000
_KLL_K: Final = 4096
"""The size of the sketch: ranks are off by 0.0007 at most."""


def percentiles(ordered: Numbers, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Exact percentiles of ascending values; between two values the line between them."""
    position = (len(ordered) - 1) * points
    lower, higher = np.floor(position), np.ceil(position)
    low, high = ordered[lower.astype(np.int64)], ordered[higher.astype(np.int64)]
    between = (higher - position) * low + (position - lower) * high
    found: npt.NDArray[np.float64] = np.where(low == high, low.astype(np.float64), between)
    return found


class Distribution:
    """Values of which quantiles are asked. It can be pickled, and joined with others in any order."""

    __slots__ = ("_kept", "_kept_count", "_sketch")

    def __init__(self, values: Numbers | None = None) -> None:
        self._kept: list[Numbers] = []
        self._kept_count = 0
        self._sketch: Any = None
        if values is not None:
            self.add(values)

    @property
    def count(self) -> int:
        """The number of values."""
        return self._kept_count if self._sketch is None else int(self._sketch.n)

    @property
    def rank_error(self) -> float:
        """By how much the rank of a quantile may be off, as a share of all values; 0 where quantiles are exact."""
        return 0.0 if self._sketch is None else float(self._sketch.normalized_rank_error(False))

    def add(self, values: Numbers) -> None:
        """Add values, of which none is missing."""
        if self._sketch is not None:
            self._sketch.update(values.astype(np.float64))
        elif len(values):
            self._kept.append(values)
            self._kept_count += len(values)
            if self._kept_count > EXACT_MAX:
                self._begin_sketch()

    def join(self, other: Distribution) -> None:
        """Add the values of another distribution."""
        if other._sketch is None:
            for values in other._kept:
                self.add(values)
            return
        if self._sketch is None:
            self._begin_sketch()
        self._sketch.merge(other._sketch)

    def quantiles(self, points: Sequence[float]) -> list[float]:
        """The values at these shares of all values, 0 the least and 1 the greatest. There must be a value."""
        if self._sketch is not None:
            ends = {0.0: self._sketch.get_min_value(), 1.0: self._sketch.get_max_value()}
            found = zip(points, self._sketch.get_quantiles(list(points)), strict=True)
            return [float(ends.get(point, value)) for point, value in found]
        return [float(value) for value in percentiles(np.sort(np.concatenate(self._kept)), np.array(points))]

    def _begin_sketch(self) -> None:
        # Imported here: most pages are small, and need none.
        from datasketches import kll_doubles_sketch

        self._sketch = kll_doubles_sketch(_KLL_K)
        for values in self._kept:
            self._sketch.update(values.astype(np.float64))
        self._kept, self._kept_count = [], 0

    def __getstate__(self) -> tuple[list[Numbers], bytes | None]:
        return self._kept, None if self._sketch is None else self._sketch.serialize()

    def __setstate__(self, state: tuple[list[Numbers], bytes | None]) -> None:
        self._kept, sketch = state
        self._kept_count = sum(len(values) for values in self._kept)
        self._sketch = None
        if sketch is not None:
            from datasketches import kll_doubles_sketch

            self._sketch = kll_doubles_sketch.deserialize(sketch)
