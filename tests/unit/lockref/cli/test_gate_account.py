"""What the gate says of its own limits."""

from __future__ import annotations

import pytest

from lockref.cli.jobs.gate.account import seeds_in_words


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([1], "1 seed"),
        ([4, 4, 4], "4 seeds"),
        ([4, 4, 60], "4 to 60 seeds"),
        ([4, 58, 60], "4 to 60 seeds, half of the scenarios 58 or more"),
        ([4, 60, 60, 60], "4 to 60 seeds, half of the scenarios 60"),
        ([4, 60], "4 to 60 seeds"),
    ],
)
def test_the_seeds_of_a_gate_in_words(numbers: list[int], text: str) -> None:
    """The middle is told only where it says more than the two ends do."""
    assert seeds_in_words(numbers) == text
