"""Runs that once broke something of ours: each fixed bug leaves its plan here, with a one-line story.

An entry holds a scenario, a lock, a seed and an explicit fault plan. It must
run to its end, and no safety clause may break.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from scenarios.definition.load import parse_scenario
from scenarios.failures.judged_run import broken_clauses
from scenarios.worlds.simulated import run_simulated
from sim.faults.plan import FaultPlan

ENTRIES = sorted(Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: path.stem)
def test_a_fixed_bug_stays_fixed(entry: Path) -> None:
    """The stored plan runs to its end without breaking S1 to S7."""
    stored = json.loads(entry.read_text(encoding="utf-8"))
    assert stored["story"].endswith("."), "an entry tells its story in a sentence"
    outcome = run_simulated(
        parse_scenario(stored["scenario"], file=entry.name),
        load_provider(stored["provider"]),
        stored["seed"],
        plan=FaultPlan.from_json(json.dumps(stored["plan"])),
    )
    assert not [clause for clause in broken_clauses(outcome) if clause.startswith("S")], stored["story"]
    assert not outcome.run_row["is_cut_off"]


def test_there_are_entries() -> None:
    """An empty corpus tests nothing."""
    assert ENTRIES
