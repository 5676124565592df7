"""One cluster with four locks in a scenario: each is judged by itself, and one instance holds several."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.run import run_real
from scenarios.worlds.simulated import run_simulated

NAME = "z05-several-locks"


@pytest.mark.parametrize("provider", ["helix", "hardened"])
def test_every_lock_is_judged_by_itself(provider: str):
    """Four locks are granted and protect four resources; no clause of safety is broken for any of them."""
    outcome = run_simulated(load_scenario(NAME), load_provider(provider), 1)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    rows = events.to_pylist()
    effects = {row["lock"] for row in rows if row["kind"] == "effect"}
    granted = {(row["node"], row["lock"]) for row in rows if row["kind"] == "believed"}
    assert len(effects) == len({lock for _, lock in granted}) == 4
    assert max(sum(node == each for node, _ in granted) for each in ("n1", "n2", "n3")) > 1
    verdicts = {row["clause"]: row["verdict"] for row in judge(events, runs).verdicts.to_pylist()}
    assert {verdicts[clause] for clause in ("S2", "S3", "S4", "S7", "L5")} == {"held"}
    if provider == "helix":
        assert outcome.run_row["lock_protocols"] == dict.fromkeys(sorted(effects), "helix")


def test_a_client_of_several_locks_is_one_instance():
    """All its locks are in the current states of one session: the cluster balances instances, not tasks."""
    outcome = run_simulated(load_scenario(NAME), load_provider("helix"), 1)
    owners = {row["owner"] for row in to_table([outcome.recorder]).to_pylist() if row["kind"] == "believed"}
    assert owners <= {"n1", "n2", "n3"}


ASKED_FOR_WHILE_THE_OTHER_IS_HELD = """
version: 1
name: asked-for-while-the-other-is-held
ids: [L3]
about: Two instances share two locks. One of them waits in vain for the lock that it has not.
clients: 2
duration: 60s
workload: {life: members, locks: 2, cycles: 1, think: 0s, wait: 9s, hold: 20s, writes: 1}
"""


def test_a_caller_is_told_that_its_instance_stays_live_for_another_lock():
    """The controller may still assign the lock to it, and nobody else gets the lock then: the outcome is unknown."""
    outcome = run_simulated(parse_scenario(ASKED_FOR_WHILE_THE_OTHER_IS_HELD), load_provider("helix"), 1)
    rows = [row for row in to_table([outcome.recorder]).to_pylist() if row["op"] == "acquire"]
    ends = sorted(row["outcome"] for row in rows if row["kind"] == "return" and row["node"] == "n1")
    assert ends == ["ambiguous", "applied"]


def test_several_locks_need_a_life_that_has_a_task_for_each():
    """A client that loops over one lock would never ask for the others."""
    with pytest.raises(ConfigError, match="several locks need 'life: members'"):
        parse_scenario("version: 1\nname: x\nworkload: {locks: 2}\n", file="x.yaml")


CALM = """
version: 1
name: calm
clients: 2
lock: {validity: 4s, renew_every: 400ms, poll_every: 100ms}
duration: 1s
workload: {life: members, locks: 3, cycles: 1, hold: 50ms, wait: 5s}
"""


def test_every_lock_of_a_real_run_protects_its_own():
    """Threads of this process: each lock is granted to both clients in turn, and has effects of its own."""
    outcome = run_real(parse_scenario(CALM), load_provider("hardened"), "memory:")
    rows = outcome.events.to_pylist()
    granted = {(row["node"], row["lock"]) for row in rows if row["kind"] == "believed"}
    assert len({lock for _, lock in granted}) == 3
    assert {row["lock"] for row in rows if row["kind"] == "effect"} == {lock for _, lock in granted}
    verdicts = {row["clause"]: row["verdict"] for row in judge(outcome.events, outcome.runs).verdicts.to_pylist()}
    assert {verdicts[clause] for clause in ("S2", "S3", "S4", "S7")} == {"held"}
