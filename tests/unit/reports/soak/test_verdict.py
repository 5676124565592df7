"""The one word for a whole soak: its exit code follows it, so it must not be that of the clauses beside a leak."""

from __future__ import annotations

import numpy as np
import pytest

from reports.soak.series import Series
from reports.soak.slopes import Slope
from reports.soak.verdict import Finding, SoakVerdict, signed


@pytest.mark.parametrize(
    ("resources", "safety", "liveness", "fairness", "whole"),
    [
        ("flat", "held", "held", "not_applicable", "held"),
        ("leaks", "held", "held", "not_applicable", "leaks"),
        ("leaks", "violated", "held", "not_applicable", "violated"),
        ("leaks", "held", "violated", "not_applicable", "leaks"),
        ("flat", "held", "violated", "not_applicable", "not_live"),
        ("inconclusive", "held", "held", "violated", "not_live"),
        ("inconclusive", "held", "held", "held", "inconclusive"),
        ("flat", "inconclusive", "held", "held", "inconclusive"),
    ],
)
def test_a_soak_has_one_word_for_the_whole(resources, safety, liveness, fairness, whole):
    """A leak before a liveness clause, as the exit codes have it."""
    told = SoakVerdict(verdict=resources, findings=(), cycles=0, lasted_s=0, stretches=1)
    assert told.whole(safety=safety, liveness=liveness, fairness=fairness) == whole


def memory(verdict: str) -> Finding:
    """A finding on memory: 1.22 MiB more in forty seconds, which are 170 MiB in an hour."""
    none = np.array([])
    return Finding(
        role="lock", name="memory", title="memory", unit="MiB", verdict=verdict, decides=True, reason="it grew",
        level=50.5, growth=1.22, slope=Slope(3.24e-5, 0.0, 5.75e-5), per_hour=Slope(170.0, 0.0, 300.0), at_most=1.81e-4,
        needs_s=None, series=Series(cycles=none, values=none, at_s=none, level=50.5),
    )  # fmt: skip


def test_what_is_flat_has_no_rate_of_an_hour_and_each_figure_has_its_unit() -> None:
    told = "50.5 MiB, growth +1.22 MiB; +0.0324 [0 to +0.0575] MiB per 1,000 cycles"
    assert memory("flat").line == f"memory: flat, {told}; at most 0.181 per 1,000 cycles"
    assert memory("leaks").line == f"memory: leaks, {told}, +170 MiB an hour: it grew"


def test_no_growth_is_told_in_powers_of_ten() -> None:
    assert [signed(each) for each in (-1.71e-06, 23_512.0, -0.5, 0.0, 1.22)] == ["0", "+23,500", "-0.5", "0", "+1.22"]
