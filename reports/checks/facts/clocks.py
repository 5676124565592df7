"""The greatest distance of two clocks: the arithmetic that bounds and deadlines share.

Times are true nanoseconds in 64 bits. A run declares β (`drift_bound_ns`, how far a wall clock may be off) and ρ
(`rate_error_ppm`, how much too fast or too slow a clock may run); a run that declares none has clocks that agree.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lockref.words import ABSENT
from reports.checks.facts.columns import Ints, Runs

FOREVER: Final = 2**62
"""An instant that no history reaches: the end of what never ended."""

PPM = 1_000_000


def or_zero(values: Ints) -> Ints:
    """An optional duration of the runs table: null counts as none."""
    return np.where(values == ABSENT, 0, values)


def rate_allowance(runs: Runs, run: Ints, span_ns: Ints) -> Ints:
    """The greatest disagreement of two clocks within the rate error after a span: twice ρ of the span."""
    ppm = or_zero(runs.integers("rate_error_ppm"))[run]
    span = np.maximum(span_ns, 0)
    # In two parts, since a record may promise a century, and that times a million exceeds 64 bits.
    allowance: Ints = 2 * (span // PPM) * ppm + 2 * (span % PPM) * ppm // PPM
    return allowance
