"""The catalogue: scenarios that must hold hold, those that must break break, and each does what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.definition.expectations import surprises
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario
from scenarios.ineffective_faults import ineffective_faults
from scenarios.run import simulate_many

SEEDS = {"swarm": 60, "swarm-overload": 60, "swarm-on-the-wire": 60}
"""More where the plan is random; otherwise 12."""


def builds_of(path: Path) -> list[str]:
    """The two builds that every scenario is run with, and those of which it says something; each that it applies to."""
    scenario = load_scenario(path)
    builds = dict.fromkeys(("hudi", "hardened", *scenario.expect))
    return [build for build in builds if not inapplicable(scenario, load_provider(build))]


CASES = [(path, build) for path in catalogue() for build in builds_of(path)]


@pytest.mark.parametrize(("path", "provider"), CASES, ids=[f"{path.stem}-{build}" for path, build in CASES])
def test_a_scenario_shows_what_it_says(path: Path, provider: str) -> None:
    """Each scenario's `expect` for each build, and its `must_happen`, over a few seeds (E1 to E31, U1 to U10)."""
    scenario = load_scenario(path)
    batch = simulate_many(scenario, load_provider(provider), range(1, 1 + SEEDS.get(path.stem, 12)))
    assert (
        list(surprises(scenario, provider, Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs))) == []
    )
    assert not any(outcome.run_row["is_cut_off"] for outcome in batch.outcomes)


def is_slow(scenario: Scenario) -> bool:
    """Swarms draw many forms of a fault, and a cluster with its controller takes ten times as long as a lock alone."""
    return scenario.swarm is not None or "helix" in scenario.expect


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.long] if is_slow(load_scenario(path)) else [], id=path.stem)
        for path in catalogue()
        if load_scenario(path).disturbs
    ],
)
def test_every_fault_matters(path: Path) -> None:
    """A fault, or a form of what a swarm draws, that changes nothing in 500 seeds is a mistake in the file."""
    scenario = load_scenario(path)
    assert ineffective_faults(scenario, [load_provider(build) for build in builds_of(path)]) == []
