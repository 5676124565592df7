"""Rules of users that fail, for scenarios that ask what becomes of the holders (Z4).

A scenario names one as `rebalancer` of its controller: `scenarios.helix.rules:raises_beside_a_second`.
"""

from __future__ import annotations

from lockref.helix.rebalancers import Assignment, Question, sticky


def raises_beside_a_second(question: Question) -> Assignment:
    """A rule that works while at most one instance lives, and raises as soon as there are two (Z4)."""
    if len(question.live) == 2:
        raise RuntimeError("this rule was never tried with two instances")
    return sticky(question)
