"""A fault that changes nothing is found, whatever the lock calls its tasks."""

from __future__ import annotations

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from reports.checks.verdicts import decide
from scenarios.campaign import run_campaign
from scenarios.definition.load import parse_scenario
from scenarios.ineffective_faults import ineffective_faults

HOLDING = """
version: 1
name: x
clients: 2
duration: 30s
workload: {cycles: 1, start: 500ms, hold: 8s, writes: 4, wait: 20s, clients: {n1: {start: 0s, think: 0s}}}
faults:
  - {kind: pause, task: TASK, client: n1, at: 2s, for: 4s}
expect: {hardened: held}
"""

LOCKS = ("hardened", "hudi", "tests.quality.planted.strangers:PlainLock")


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("task", ["heartbeat", "main"])
def test_either_half_of_a_process_can_be_paused_under_any_lock(lock: str, task: str) -> None:
    """A pause of the heartbeat had never mattered in any run: no heartbeat's task was called so."""
    assert ineffective_faults(parse_scenario(HOLDING.replace("TASK", task)), [load_provider(lock)], seeds=3) == []


def test_a_lock_without_a_heartbeat_has_none_to_pause() -> None:
    """Then the fault is ineffective, and is named."""
    scenario = parse_scenario(HOLDING.replace("TASK", "heartbeat"))
    assert ineffective_faults(scenario, [load_provider("docs/examples/lease_lock.py:LeaseLock")], seeds=3) == [
        "pause-1"
    ]


def test_each_form_of_what_a_swarm_draws_has_to_matter() -> None:
    """The pauses of heartbeats that a swarm draws are ineffective where nobody has one. They are named apart."""
    scenario = parse_scenario("version: 1\nname: x\nduration: 20s\nswarm: {kinds: [pause]}\n")
    ineffective = ineffective_faults(scenario, [load_provider("docs/examples/lease_lock.py:LeaseLock")], seeds=150)
    assert "pause of heartbeat" in ineffective
    assert "pause of main" not in ineffective
    assert "pause" not in ineffective


@pytest.mark.parametrize(("probability", "is_told"), [("1", True), ("0.01", False)])
def test_a_verdict_names_a_fault_that_changed_nothing_beside_one_of_its_kind(probability: str, is_told: bool) -> None:
    """`fault:lose_reply` is met by one fault of the kind: the other stayed away, and the run read HELD without a word.

    A fault that strikes with a probability may stay away by its own words.
    """
    lost = "{kind: lose_reply, client: n1, op: acquire}"
    idle = f"{{id: idle, kind: lose_reply, client: n1, op: release, nth: 90, probability: {probability}}}"
    text = HOLDING.replace("{kind: pause, task: TASK, client: n1, at: 2s, for: 4s}", f"{lost}\n  - {idle}")
    scenario = parse_scenario(f"{text}must_happen: ['fault:lose_reply']\n")
    result = run_campaign(scenario, load_provider("hardened"), range(1, 3), keep_runs=0)
    assert decide(result.summary).reasons == ()
    assert ("1 fault of the scenario changed nothing in 2 runs: idle" in result.notices) == is_told


def test_the_command_says_which_fault_changes_nothing(tmp_path, monkeypatch, capsys) -> None:
    """`lockref scenario test` fails on a scenario with a fault that strikes nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scenarios.ineffective_faults.SEEDS_ENOUGH", 20)
    file = tmp_path / "idle.yaml"
    idle = "faults:\n  - {id: idle, kind: lose_reply, client: n1, op: release, nth: 90}\n"
    file.write_text(HOLDING.replace("TASK", "main").replace("faults:\n", idle))
    assert run(["scenario", "test", str(file), "--seeds", "1..3"]) == 1
    told = capsys.readouterr().out
    assert "idle" in told
    assert "changed nothing in 20 seeds" in told
