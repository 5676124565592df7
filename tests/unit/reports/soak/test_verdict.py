"""The one word for a whole soak: its exit code follows it, so it must not be that of the clauses beside a leak."""

from __future__ import annotations

import pytest

from reports.soak.verdict import SoakVerdict


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
