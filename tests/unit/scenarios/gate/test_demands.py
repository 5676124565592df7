"""What is asked of a lock follows from its abilities and from the scenario's own words, not from a list of names."""

from __future__ import annotations

import pytest

from scenarios.definition.load import catalogue, load_scenario, parse_scenario
from scenarios.gate.demands import Ability, declared_ability, demands_on

ALL = frozenset(Ability)
SIMPLE = ALL - {Ability.RENEWS, Ability.TOKENS, Ability.BESIDE, Ability.REENTRY, Ability.LOSSES}


def scenario(*, faults: str = "", must_happen: str = "", workload: str = "{kind: register}"):
    text = f"version: 1\nname: made\nclients: 2\nduration: 60s\nworkload: {workload}\n"
    text += f"faults: [{faults}]\n" if faults else ""
    return parse_scenario(text + (f"must_happen: [{must_happen}]\n" if must_happen else ""))


def test_nothing_is_dropped_for_a_lock_that_can_do_everything():
    """A lock with every ability is asked for everything, in every scenario of the catalogue."""
    for path in catalogue():
        asked = demands_on(load_scenario(path.stem), ALL)
        assert (dict(asked.dropped), asked.not_applicable, asked.is_run) == ({}, "", True), path.stem


@pytest.mark.parametrize(
    ("situation", "ability"),
    [("renewal", Ability.RENEWS), ("token", Ability.TOKENS), ("takeover_after_expiry", Ability.LEASE)],
)
def test_a_situation_that_only_an_ability_brings_about_is_dropped_without_it(situation, ability):
    """Each is asked of a lock that has the ability, and of no other."""
    made = scenario(must_happen=f"grant, {situation}")
    assert dict(demands_on(made, ALL - {ability}).dropped) == {situation: ability}
    assert dict(demands_on(made, ALL).dropped) == {}


def test_a_fault_of_renewals_asks_nothing_of_a_lock_that_makes_none():
    """The reason names what the faults strike and what the lock lacks."""
    made = scenario(
        faults="{kind: lose_reply, client: n1, op: renew, nth: 2}", must_happen="contention, fault:lose_reply"
    )
    asked = demands_on(made, SIMPLE)
    assert dict(asked.dropped) == {"fault:lose_reply": Ability.RENEWS}
    assert asked.not_applicable == "its faults (lose reply) strike renewals, and this lock does not renew"
    assert asked.is_run


def test_a_fault_that_strikes_in_time_all_the_same_is_asked_for():
    """`at_latest`: a lock that never renews is paused then; and where another fault can strike, the rest is judged."""
    late = "{kind: pause, when: {client: n1, op: renew, nth: 1, cut: c4, at_latest: 3700ms}, client: n1, for: 12s}"
    assert dict(demands_on(scenario(faults=late, must_happen="fault:pause"), SIMPLE).dropped) == {}
    both = "{kind: error, status: 503, op: renew, at: 0s, for: 9s}, {kind: error, status: 503, op: release, nth: 1}"
    made = scenario(faults=both, must_happen="fault:error, renewal")
    asked = demands_on(made, SIMPLE)
    assert dict(asked.dropped) == {"renewal": Ability.RENEWS}
    assert asked.not_applicable == ""
    assert asked.note == "without renewal: this lock does not renew"


def test_clients_that_ask_for_tokens_are_no_clients_of_a_lock_without():
    """Its runs are judged all the same: a violation counts."""
    asked = demands_on(scenario(workload="{kind: register, asks: token}"), SIMPLE)
    assert asked.not_applicable == "its clients ask for a fencing token, and this lock shows no tokens"
    assert asked.is_run


def test_two_tasks_of_one_process_are_not_run_with_a_lock_for_one():
    """What breaks then is the use of the lock, and not the lock."""
    made = scenario(workload="{kind: register, life: two_threads}")
    assert not demands_on(made, ALL - {Ability.TASKS}).is_run
    assert demands_on(made, ALL).is_run


def test_some_of_the_catalogue_is_left_for_a_simple_lock():
    """Most scenarios ask something of a lock without renewals and tokens."""
    asked = {path.stem: demands_on(load_scenario(path.stem), SIMPLE) for path in catalogue()}
    told = [name for name, each in asked.items() if each.not_applicable]
    assert "e13-renewal-reply-lost" in told
    assert "e08-paused-holder" not in told
    assert len(told) < len(asked) // 4


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("renews", (Ability.RENEWS, True)),
        ("no-renews", (Ability.RENEWS, False)),
        ("one-task", (Ability.TASKS, False)),
    ],
)
def test_a_declaration_names_an_ability(word, says):
    """`no-` before the word says that the lock has it not."""
    assert declared_ability(word) == says


def test_an_unknown_declaration_is_refused_with_a_suggestion():
    """The message names what is known."""
    with pytest.raises(ValueError, match="Did you mean 'renews'"):
        declared_ability("renew")
