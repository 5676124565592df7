"""The judge against the second definition, on simulated runs: what the sweep calls illegal, the judge must see."""

from __future__ import annotations

import pytest

from lockref.providers import load_provider
from reports.checks import judge
from reports.checks.crosscheck import crosscheck
from reports.checks.spec import SAFETY
from scenarios.batch import simulate_many
from scenarios.load import load_scenario

SEEDS = range(1, 13)


def answers(scenario: str, provider: str) -> tuple[dict[int, str], set[int]]:
    """What the sweep says of each run, and the runs in which the judge finds a safety violation."""
    batch = simulate_many(load_scenario(scenario), load_provider(provider), SEEDS)
    swept = {run: said for (run, _), said in crosscheck(batch.events, batch.runs).items()}
    rows = judge(batch.events, batch.runs).verdicts.to_pylist()
    return swept, {row["run"] for row in rows if row["verdict"] == "violated" and row["clause"] in SAFETY}


@pytest.mark.parametrize("provider", ["hudi", "hardened"])
@pytest.mark.parametrize(
    "scenario",
    ["contention", "e03-killed-holder", "e08-paused-holder", "e14-release-reply-lost", "u04-reuse-after-lost-release",
     "u01-partitioned-holder", "e12-replace-reply-lost"],
)  # fmt: skip
def test_what_the_sweep_calls_illegal_the_judge_calls_violated(scenario, provider):
    """S1, S2, S7 twice defined: illegal answers are always among the judge's violations, and legal runs are decided."""
    swept, violated = answers(scenario, provider)
    assert set(swept) == set(SEEDS)
    illegal = {run for run, said in swept.items() if said.startswith("illegal")}
    assert illegal <= violated, {run: swept[run] for run in illegal - violated}


def test_a_false_grant_is_illegal_by_both_definitions():
    """U4: Hudi's provider answers yes from memory; no lock that excludes could have answered so."""
    swept, violated = answers("u04-reuse-after-lost-release", "hudi")
    assert all(said.startswith("illegal") for said in swept.values()), swept
    assert violated == set(SEEDS)


def test_an_honest_lock_is_legal_by_both_definitions():
    """The other side: contention alone, answers of a lock that excludes."""
    swept, violated = answers("contention", "hardened")
    assert set(swept.values()) == {"legal"}
    assert violated == set()
