"""Confidence: the bound that a number of runs gives for the rate of violations. Never "safe".

Two statements suffice and need no tables. No violation in n independent runs:
at most 3/n at 95 % (the exact bound is 1 - 0.05^(1/n), and -ln 0.05 = 2.996).
Some violations: Wilson's interval. Both speak of the distribution that was
sampled, scenario, plan and provider as they were, not of the world.
"""

from __future__ import annotations

from math import sqrt

_Z95 = 1.959964


def bound_95(runs: int) -> float:
    """Upper bound of the violation rate after `runs` runs without any, at 95 %; 1.0 for none."""
    return min(1.0, 3.0 / runs) if runs > 0 else 1.0


def share_95(faulty: int, rounds: int) -> tuple[float, float]:
    """The 95 % interval of a share of rounds: from 0 to `bound_95` without a faulty round, else Wilson's."""
    return wilson_95(faulty, rounds) if faulty else (0.0, bound_95(rounds))


def wilson_95(violated: int, runs: int) -> tuple[float, float]:
    """Wilson's 95 % interval of the rate after `violated` of `runs`. Units: shares. (0.0, 1.0) for no runs."""
    if not 0 <= violated <= runs:
        raise ValueError(f"counted {violated} violations in {runs} runs; expected 0 to {runs}")
    if runs == 0:
        return 0.0, 1.0
    share, square = violated / runs, _Z95 * _Z95
    middle = share + square / (2 * runs)
    spread = _Z95 * sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    scale = 1 + square / runs
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
