"""`lockref gate`: a sound lock turns it green however simple it is, and each mistake turns it red for few causes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lockref.cli.jobs import simulation
from lockref.cli.main import run
from lockref.lab.loading import load_provider
from reports.formats.gate_result import GateResult
from scenarios.campaign import run_campaign
from scenarios.definition.load import catalogue, load_scenario
from scenarios.gate.abilities import Abilities, ask
from scenarios.gate.demands import Ability
from tests.sim import tiny_locks

TINY = "tests.sim.tiny_locks:"
LEASE_LOCK = f"{Path(__file__).parents[2]}/docs/examples/lease_lock.py:LeaseLock"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(
    monkeypatch: pytest.MonkeyPatch, folder: Path, provider: str, *names: str, more: tuple[str, ...] = ()
) -> tuple[int, GateResult]:
    """The exit code and the account of a gate over some scenarios of the catalogue, in one process."""
    known = catalogue()
    chosen = [path for path in known if path.stem.split("-")[0] in names or path.stem in names]
    assert chosen, f"no scenario is called {names}"
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: chosen)
    code = run(["-q", "gate", "--provider", provider, "--seeds", "1..4", "--jobs", "1", *more])
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: known)
    text = (folder / ".lockref/runs/latest/gate.json").read_text(encoding="utf-8")
    return code, GateResult.model_validate_json(text)


ABOUT_RENEWALS = ("e06", "e07", "e13", "h04", "reordered-replies", "token-alone", "u06", "e20")


@pytest.mark.parametrize("lock", [f"{TINY}TinyLock", LEASE_LOCK])
def test_nothing_is_inconclusive_only_because_a_lock_is_simple(lock, monkeypatch, own_folder):
    """Scenarios about renewals, tokens and tasks hold by what remains, or do not apply, with the reason."""
    code, found = gate(monkeypatch, own_folder, lock, *ABOUT_RENEWALS)
    assert {each.outcome for each in found.scenarios} == {"held", "not_applicable"}
    assert code == found.exit_code == 0
    reasons = {each.name: each.reason for each in found.scenarios}
    assert reasons["e13-renewal-reply-lost"].endswith("strike renewals, and this lock does not renew")


@pytest.mark.parametrize(
    ("lock", "scenario", "clause"),
    [
        ("DeletesWithoutACondition", "e08", "S6"),
        ("LooksAtNoClock", "h02", "S3"),
        ("CountsFromTheAnswer", "e09", "S3"),
        ("TakesOverTooEarly", "e08", "S5"),
        ("DeniesWhatItDoesNotKnow", "a08", "S7"),
        ("WritesOverWhatLapsed", "h02", "S5"),
    ],
)
def test_each_mistake_turns_the_gate_red(lock, scenario, clause, monkeypatch, own_folder):
    """Also in a scenario that the sound lock holds; the cause names the clause, and its line shows it again."""
    code, found = gate(monkeypatch, own_folder, f"{TINY}{lock}", scenario)
    assert (code, found.groups[0].clause) == (1, clause)
    assert run([*found.groups[0].replay.split()[1:], "--trust"]) == 1


def test_the_mistakes_are_all_tried():
    """A lock that is added to the file is added here."""
    tried = {mark.args[1][place][0] for mark in test_each_mistake_turns_the_gate_red.pytestmark for place in range(6)}
    assert tried == {lock.__name__ for lock in tiny_locks.UNSOUND}


def test_two_mistakes_of_one_lock_are_two_causes(monkeypatch, own_folder):
    """Each alone is one cause in all scenarios that show it."""
    names = ("e08", "h02", "u02")
    causes = {}
    for lock in ("DeletesWithoutACondition", "LooksAtNoClock", "TwoMistakes"):
        _, found = gate(monkeypatch, own_folder, f"{TINY}{lock}", *names)
        causes[lock] = {group.clause: group.scenarios for group in found.groups}
    assert set(causes["DeletesWithoutACondition"]) == {"S6"}
    assert set(causes["LooksAtNoClock"]) == {"S3"}
    assert set(causes["TwoMistakes"]) == {"S3", "S6"}


def test_a_lock_that_declares_renewals_and_makes_none_is_not_green(monkeypatch, own_folder):
    """What it is held to never happened: inconclusive, and the contradiction is told."""
    code, found = gate(monkeypatch, own_folder, f"{TINY}WouldRenew", "h06", "e13")
    assert code == 3
    assert {each.outcome for each in found.scenarios} == {"inconclusive"}
    told = {each.name: each for each in found.abilities}
    assert told["renews"].contradiction == "declared, but never renewed in 36 holds of up to 40 s"
    _, found = gate(monkeypatch, own_folder, f"{TINY}TinyLock", "e13", more=("--declare", "renews"))
    assert found.scenarios[0].outcome == "inconclusive"


def test_an_ability_that_was_seen_cannot_be_denied(monkeypatch, own_folder):
    """`--declare no-renews` about a lock that renews is told as a contradiction, and excuses nothing."""
    _, found = gate(monkeypatch, own_folder, "hardened", "e13", more=("--declare", "no-renews"))
    told = {each.name: each for each in found.abilities}
    assert told["renews"].has
    assert told["renews"].contradiction.startswith("declared not to, but renewed")
    assert found.scenarios[0].outcome == "held"


def test_a_lock_is_held_to_what_its_class_says_and_to_what_was_seen():
    """Each contradiction is told; nobody can deny what the runs show."""
    found = ask(load_provider(f"{TINY}SaysWhatItIsNot"), denied=[Ability.RECORD]).findings
    for ability in (Ability.REENTRY, Ability.TOKENS):
        assert found[ability].has
        assert found[ability].contradiction.startswith("declared, but")
    for ability in (Ability.LEASE, Ability.RECORD):
        assert found[ability].has
        assert found[ability].contradiction.startswith("declared not to, but")


def test_what_hardened_can_do_is_seen():
    """Its abilities, from its runs alone."""
    found = ask(load_provider("hardened")).findings
    assert {ability for ability, each in found.items() if not each.has} == set()


def test_what_a_tiny_lock_can_do_is_seen():
    """A record, a lease and a release: it never asks which task calls."""
    found = ask(load_provider(f"{TINY}TinyLock"))
    assert found.has == {Ability.RECORD, Ability.STAMPS, Ability.RELEASES, Ability.LEASE}
    assert found.findings[Ability.RENEWS].evidence == "never renewed in 36 holds of up to 40 s"


def test_a_lapsed_record_that_its_owner_takes_again_is_no_renewal():
    """It is written within the next acquire. Taken for a renewal, it left 26 scenarios of a sound lock inconclusive."""
    found = ask(load_provider(f"{TINY}LeavesWhatLapsed"))
    assert Ability.RENEWS not in found.has
    assert found.findings[Ability.RENEWS].evidence.startswith("never renewed in 3 holds")


def test_an_ability_that_shows_later_counts_everywhere():
    """A lock cannot turn green by hiding what it can do from the first questions."""
    hidden = ask(load_provider(f"{TINY}TinyLock")).seen_later({"renewal": 3}, where="e08")
    assert Ability.RENEWS in hidden.has
    assert hidden.findings[Ability.RENEWS].evidence == "3 renewals in e08, though none when it was asked"


def test_the_document_is_the_account(capsys, monkeypatch, own_folder):
    """`--json` prints what gate.json holds."""
    _, found = gate(monkeypatch, own_folder, f"{TINY}TinyLock", "e01", more=("--json",))
    assert json.loads(capsys.readouterr().out) == found.model_dump(mode="json")


@pytest.mark.parametrize("command", ["gate", "sim --all"])
def test_the_whole_catalogue_asks_by_one_set_of_rules(command, capsys, monkeypatch, own_folder):
    """`sim --all` and `gate` agree on what does not apply to a simple lock, and on what holds."""
    chosen = [path for path in catalogue() if path.stem.split("-")[0] in ("e01", "e13", "u06", "e20")]
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: chosen)
    code = run(["-q", *command.split(), "--provider", f"{TINY}TinyLock", "--seeds", "1..3", "--json"])
    told = json.loads(capsys.readouterr().out)
    if command == "gate":
        left_out = {each["name"] for each in told["scenarios"] if each["outcome"] == "not_applicable"}
    else:
        left_out = {each["scenario"] for each in told["skipped"]}
    assert (code, left_out) == (0, {"e13-renewal-reply-lost", "u06-shared-provider"})


def test_what_was_asked_too_little_is_taken_back(capsys, monkeypatch, own_folder):
    """`sim --all` judges a scenario before a later one shows an ability: then the early verdict does not stand."""
    chosen = [path for path in catalogue() if path.stem.split("-")[0] in ("e13", "h06")]
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: chosen)
    known = ask
    monkeypatch.setattr(simulation, "ask_fleet", lambda locks: without(known(locks[0]), Ability.RENEWS))
    assert run(["-q", "sim", "--all", "--provider", "hardened", "--seeds", "1..2"]) == 3
    assert "2 scenarios, which asked less than this lock can do: e13-renewal-reply-lost, h06" in capsys.readouterr().out


def without(found: Abilities, ability: Ability) -> Abilities:
    """The same, as if the ability had not shown."""
    return Abilities({**found.findings, ability: replace(found.findings[ability], has=False)})


def test_a_lock_that_fails_when_it_is_asked_is_held_to_everything(monkeypatch, own_folder):
    """What is wrong with it the scenarios tell, each for itself."""
    code, found = gate(monkeypatch, own_folder, f"{TINY}Broken", "e01", "e13")
    assert code == 2
    assert {each.outcome for each in found.scenarios} == {"could_not_be_run"}
    assert all(each.has and each.evidence.startswith("could not be asked") for each in found.abilities)


def test_an_own_record_that_is_taken_again_within_a_call_is_no_renewal():
    """A07: a lock that never heard of its own write writes over it at its next look. That renews nothing."""
    reach = run_campaign(load_scenario("a07"), load_provider(f"{TINY}TinyLock"), range(1, 5), keep_runs=0).summary.reach
    assert reach["lost_reply_acquire"][1] > 0
    assert reach["renewal"] == (0, 0)
    reach = run_campaign(load_scenario("h06"), load_provider("hardened"), range(1, 3), keep_runs=0).summary.reach
    assert reach["renewal"][0] == 2
