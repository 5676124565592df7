"""What the gate says of its own limits."""

from __future__ import annotations

import pytest

from lockref.cli.jobs.gate.account import seeds_in_words, with_locks
from reports.checks.summary import Finding


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


def test_a_key_that_is_called_as_a_client_is_not_said_to_run_a_lock() -> None:
    """Which names are those of clients is told by the witness."""
    witness = {"effects": [{"node": "n2"}], "lock": "n1", "kind": "n3"}
    finding = Finding(clause="S4", kind="", fault_kinds=(), run=1, at_ns=1, witness=witness)
    locks = {"n1": "hudi", "n2": "hardened", "n3": "hudi"}
    assert with_locks("n2 wrote to n1 after n3", locks, finding) == "n2 runs hardened: n2 wrote to n1 after n3"
