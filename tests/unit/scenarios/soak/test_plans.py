"""Faults at a low rate: those of a scenario, again and again."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from scenarios.definition.load import load_scenario
from scenarios.soak.plans import LENGTH_MAX_NS, longest_unstruck_ns, plan_at_low_rate
from scenarios.soak.running import soak_scenario

MINUTE = 60_000_000_000


def plan_of(name, *, lasting=10):
    return plan_at_low_rate(load_scenario(name), every_ns=MINUTE, lasting_ns=lasting * MINUTE, seed=3)


def test_the_faults_of_a_swarm_come_once_in_every_minute_and_are_short():
    """Each turn is drawn anew and stays in its minute; no id comes twice."""
    plan = plan_of("swarm-on-the-wire")
    turns = {}
    for fault in plan.faults:
        turn = int(fault.id.partition("-")[0]) - 1
        turns.setdefault(turn, []).append(fault.kind)
        begins = [each for each in (fault.at_ns, fault.when and fault.when.after_ns) if each is not None]
        assert all(MINUTE // 2 + turn * MINUTE <= each < MINUTE // 2 + (turn + 1) * MINUTE for each in begins)
        assert (fault.length_ns or 0) <= LENGTH_MAX_NS
    assert len(turns) > 5
    assert len(set(map(tuple, turns.values()))) > 1
    assert len({fault.id for fault in plan.faults}) == len(plan.faults)


def test_a_fault_at_a_request_waits_for_a_request_of_its_turn():
    """A trigger without a window would fire once, at the begin of the run."""
    plan = plan_of("e11-create-reply-lost", lasting=3)
    whens = [fault.when for fault in plan.faults if fault.when is not None]
    assert all(when.after_ns is not None and when.before_ns is not None for when in whens)
    assert len(plan.faults) == 3


def test_a_scenario_without_a_fault_that_can_be_carried_out_is_refused():
    """A soak with faults that never strike would show nothing of them."""
    with pytest.raises(ConfigError, match="has no fault"):
        plan_of("contention")


def test_a_soak_is_too_short_for_its_first_fault():
    """Nothing is drawn that would strike after the end."""
    assert plan_at_low_rate(load_scenario("contention"), every_ns=MINUTE, lasting_ns=MINUTE // 4, seed=1).faults == ()


def test_faults_come_at_most_as_often_as_the_longest_one_lasts():
    """A soak of hours with a fault in each millisecond would draw plans for ever."""
    with pytest.raises(ConfigError, match="--every"):
        plan_at_low_rate(load_scenario("e11-create-reply-lost"), every_ns=1_000_000, lasting_ns=MINUTE, seed=1)


def test_the_scenario_of_a_soak_keeps_its_workload_and_loses_its_faults():
    """Its cycles have no end, and what strikes is what --faults names."""
    scenario = soak_scenario("swarm-on-the-wire")
    assert (scenario.faults, scenario.swarm, scenario.workload.cycles.least) == ([], None, 10**9)
    with pytest.raises(ConfigError, match="Delta log"):
        soak_scenario("w16-under-lock")


def test_the_shortest_soak_in_which_faults_strike_is_told():
    """One nanosecond more than that has the first faults."""
    scenario, longest_ns = load_scenario("e11-create-reply-lost"), longest_unstruck_ns(MINUTE)
    for lasting_ns, is_struck in ((longest_ns, False), (longest_ns + 1, True)):
        assert bool(plan_at_low_rate(scenario, every_ns=MINUTE, lasting_ns=lasting_ns, seed=1).faults) is is_struck
