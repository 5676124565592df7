"""The catalogue: scenarios that must hold hold, those that must break break, and each does what it is about."""

from __future__ import annotations

from functools import cache

import pytest

from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.situation_names import TOKEN
from reports.checks.summary import Summary
from scenarios.definition.expectations import surprises
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario
from scenarios.ineffective_faults import ineffective_faults
from scenarios.run import simulate_many

SEEDS = {"swarm": 60, "swarm-overload": 60, "swarm-on-the-wire": 60}
"""More where the plan is random; otherwise 12."""

FEW = 2
"""As many first, then twice as many, and all only where these have not shown it all. The long lane runs all seeds."""

PROVIDERS = cache(load_provider)
SCENARIOS = {path: load_scenario(path) for path in catalogue()}


def builds_of(scenario: Scenario) -> list[str]:
    """The two builds that every scenario is run with, and those of which it says something; each that it applies to.

    Hudi's lock gives no tokens: where clients ask for them, or the scenario asks what they are worth, it can show
    nothing.
    """
    needs_token = scenario.workload.asks_token or TOKEN in scenario.must_happen
    always = ("hardened",) if needs_token else ("hudi", "hardened")
    builds = dict.fromkeys((*always, *scenario.expect))
    return [build for build in builds if not inapplicable(scenario, PROVIDERS(build))]


CASES = [
    pytest.param(scenario, build, id=f"{path.stem}-{build}")
    for path, scenario in SCENARIOS.items()
    for build in builds_of(scenario)
]


def shown_otherwise(scenario: Scenario, provider: str, seeds: int, *, watched: int = 0) -> list[str]:
    """What the runs of the first seeds show that the scenario does not say, or the reverse.

    watched: so many of them run under the strict auditor, in which a run takes three times as long.
    """
    batch = simulate_many(scenario, PROVIDERS(provider), range(1, 1 + seeds), watched=watched)
    assert not any(outcome.run_row["is_cut_off"] for outcome in batch.outcomes)
    return list(surprises(scenario, provider, Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)))


def seeds_in_turn(scenario: Scenario, provider: str) -> tuple[int, ...]:
    """How many seeds are run, and how many if those have not shown it all.

    What a build must break shows in the first seed that breaks it: half as many are run first as of a build that must
    hold, of which a further seed may show the contrary.
    """
    first = FEW if set(scenario.expected(provider).values()) == {"held"} else FEW // 2
    return first, 2 * first, SEEDS.get(scenario.name, 12)


@pytest.mark.parametrize(("scenario", "provider"), CASES)
def test_a_scenario_shows_what_it_says(scenario: Scenario, provider: str) -> None:
    """Each scenario's `expect` for each build, and its `must_happen`, over a few seeds (E1 to E31, U1 to U10)."""
    *fewer, seeds = seeds_in_turn(scenario, provider)
    if all(shown_otherwise(scenario, provider, few) for few in fewer):
        assert shown_otherwise(scenario, provider, seeds) == []


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "provider"), CASES)
def test_a_scenario_shows_what_it_says_in_every_seed(scenario: Scenario, provider: str) -> None:
    """Also where the first few seeds show it all: a lock that must hold holds in the others, too, and leaks nowhere."""
    assert shown_otherwise(scenario, provider, SEEDS.get(scenario.name, 12), watched=1) == []


FIRST_CASES = list({case.values[1]: case for case in reversed(CASES)}.values())
"""For each build the first scenario that it is run in."""


@pytest.mark.parametrize(("scenario", "provider"), FIRST_CASES)
def test_a_build_reaches_for_no_real_time_entropy_or_thread(scenario: Scenario, provider: str) -> None:
    """Each build under the strict auditor once; in each scenario it is in the long lane."""
    assert len(simulate_many(scenario, PROVIDERS(provider), [1]).outcomes) == 1


def is_slow(scenario: Scenario) -> bool:
    """Swarms draw many forms of a fault, and a cluster with its controller takes ten times as long as a lock alone."""
    return scenario.swarm is not None or "helix" in scenario.expect


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, marks=[pytest.mark.long] if is_slow(scenario) else [], id=path.stem)
        for path, scenario in SCENARIOS.items()
        if scenario.disturbs
    ],
)
def test_every_fault_matters(scenario: Scenario) -> None:
    """A fault, or a form of what a swarm draws, that changes nothing in 500 seeds is a mistake in the file."""
    assert ineffective_faults(scenario, [PROVIDERS(build) for build in builds_of(scenario)]) == []
