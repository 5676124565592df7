"""A mixed fleet as one text."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from reports.checks.situation_names import TOKEN
from reports.history_files import load_history
from scenarios.campaigns.sources import Sources
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.definition.mixture import Mixture, inapplicable
from scenarios.gate import abilities
from scenarios.gate.abilities import Abilities, AbilityFinding, ask_fleet
from scenarios.gate.demands import Ability
from scenarios.search.mutations import _crowd
from scenarios.worlds.simulated import run_simulated
from sim.kernel.streams import stream


def test_one_lock_changes_nothing():
    scenario = load_scenario("e08")
    fleet = load_fleet("hudi")
    assert (fleet.spec.name, fleet.members) == ("hudi", ())
    assert fleet.on(scenario) is scenario


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("hardened,hudi-jvm,hudi:3", ("hardened", "hudi-jvm", "hudi", "hudi", "hudi")),
        ("hudi:2", ("hudi", "hudi")),
        (" hudi , lockref.storage.lock:StorageLock:2", ("hudi", *("lockref.storage.lock:StorageLock",) * 2)),
    ],
)
def test_a_count_is_the_number_of_clients(text, members):
    """A class after a colon is none."""
    fleet = load_fleet(text)
    assert fleet.members == members
    assert (fleet.spec.name, fleet.spec.reference) == (text, members[0])
    assert pickle.loads(pickle.dumps(fleet.spec)).name == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hudi,", "expected locks with commas between them"),
        ("hudi:0,hardened", "a count is 1 to 1024"),
        ("hudi:40,hardened:40", "has 80 clients; a mixed fleet has at most 64"),
        ("hudi,hadrened", "'hadrened' is not known"),
        ("hudi,dynamodb", "hudi and dynamodb cannot share one object: their records are rfc91 and delta-lease"),
    ],
)
def test_what_is_no_fleet_is_refused(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        load_fleet(text)


def test_the_clients_run_the_fleet_in_order_and_repeat_it():
    fleet = load_fleet("hardened,hudi:2")
    scenario = fleet.on(parse_scenario("version: 1\nname: x\nclients: 5\n"))
    mixture = Mixture(scenario, fleet.spec)
    names = [mixture.of(client).name for client in scenario.client_names]
    assert names == ["hardened", "hudi", "hudi", "hardened", "hudi"]
    assert fleet.on(parse_scenario("version: 1\nname: x\nclients: 1\n")).clients == 3
    beside = fleet.on(parse_scenario("version: 1\nname: x\nclients: 3\nproviders: {n1: hudi}\n"))
    assert Mixture(beside, fleet.spec).of("n1").name == "hudi", "the scenario's own word counts"


@pytest.mark.parametrize("clients", [2, 65])
def test_no_member_is_left_out_and_no_client_without_its_lock(clients):
    scenario = parse_scenario("version: 1\nname: x\nclients: 5\n")
    with pytest.raises(ConfigError, match=f"on x: {clients} clients; expected at least the fleet's 3, and at most 64"):
        load_fleet("hardened,hudi:2").on(scenario, clients)
    assert load_fleet("hardened,hudi:2").on(scenario, 64).providers["n64"] == "hardened"


def test_the_path_of_a_file_may_have_commas(tmp_path):
    file = tmp_path / "a,b.py"
    file.write_text("from lockref.storage.lock import StorageLock\n")
    assert load_fleet(f"{file}:StorageLock").members == ()


def test_a_run_tells_the_lock_of_each_client():
    """A paused client of the original build breaks the exclusion of a fleet that would hold without it."""
    fleet = load_fleet("hudi,hardened:2")
    scenario = fleet.on(load_scenario("e08"))
    row = run_simulated(scenario, fleet.spec, 1).run_row
    assert row["provider"] == "hudi,hardened:2"
    assert row["node_providers"] == {"n1": "hudi", "n2": "hardened", "n3": "hardened"}


def test_a_fleet_can_do_what_each_of_its_locks_can(monkeypatch):
    """But for clocks: where one lock compares them, less is demanded of all. What they show together tells of none."""
    having = {"hardened": {Ability.RENEWS, Ability.TOKENS, Ability.STAMPS}, "hudi": {Ability.RENEWS}}

    def asked(spec, **_declared):
        has = having[spec.name]
        return Abilities({each: AbilityFinding(ability=each, has=each in has, evidence=spec.name) for each in Ability})

    monkeypatch.setattr(abilities, "ask", asked)
    found = ask_fleet(load_fleet("hardened,hudi:2").locks)
    assert found.has == {Ability.RENEWS, Ability.STAMPS}
    assert found.findings[Ability.TOKENS].evidence == "hardened: hardened; hudi: hudi"
    assert found.seen_later({TOKEN: 3}, where="e08") is found
    assert not ask_fleet(load_fleet("hudi:2").locks).is_of_fleet


def test_a_scenario_must_be_about_each_lock_of_a_fleet():
    """One lock that promises re-entry makes no fleet that does."""
    scenario = parse_scenario("version: 1\nname: x\nclients: 2\nmust_happen: [reentry]\n")
    told = inapplicable(load_fleet("hudi,hardened").on(scenario), load_provider("hardened"))
    assert told.startswith("n1 runs hudi: it is about reentry")


def test_an_edit_of_any_lock_of_a_fleet_is_another_campaign(tmp_path):
    """Finished chunks speak for all locks that ran in them, also those that the scenario itself names."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        source = "from lockref.storage.lock import StorageLock\n\n\nclass Mine(StorageLock):\n    pass\n"
        (tmp_path / name / f"{name}.py").write_text(source)
    old, new = f"{tmp_path}/old/old.py:Mine", f"{tmp_path}/new/new.py:Mine"
    fleet = load_fleet(f"{old}:1,{new}:1")
    scenario = parse_scenario("version: 1\nname: x\nclients: 2\n")
    beside = scenario.model_copy(update={"providers": {"n2": new}})

    def hashes():
        of_fleet = Sources.of_each({"fleet": fleet.on(scenario)}, fleet.spec)
        of_old = Sources.of_each({"alone": scenario, "beside": beside}, load_provider(old))
        assert of_old == Sources.of_each({"beside": beside, "alone": scenario}, load_provider(old))
        return {name: each.provider for name, each in {**of_fleet, **of_old}.items()}

    before = hashes()
    assert hashes() == before
    with (tmp_path / "new" / "new.py").open("a") as file:
        file.write("# changed\n")
    # A scenario in which the lock does not run goes on where it was, whatever else the command runs.
    assert {name for name, found in hashes().items() if found != before[name]} == {"fleet", "beside"}


def test_a_larger_crowd_repeats_the_fleet_and_a_smaller_one_leaves_no_lock_out():
    scenario = load_fleet("hardened,hudi:2").on(parse_scenario("version: 1\nname: x\nclients: 2\n"))
    crowds = [_crowd(scenario, stream(seed, "crowd")) for seed in range(1, 30)]
    assert min(crowd.clients for crowd in crowds) == 3 < max(crowd.clients for crowd in crowds)
    for crowd in crowds:
        assert [crowd.providers[name] for name in crowd.client_names][:4] == ["hardened", "hudi", "hudi", "hardened"][
            : crowd.clients
        ]


def test_a_campaign_of_a_fleet_is_that_of_sim(tmp_path, monkeypatch, capsys):
    """Same digest, in a shelter too."""
    monkeypatch.chdir(tmp_path)
    line = ["e08", "--provider", "hudi,hardened", "--seeds", "1..4", "--jobs", "1", "--shrink-for", "0s", "--json"]
    told = []
    for command in ("sim", "campaign"):
        assert run(["-q", command, *line]) == 1
        told.append(json.loads(capsys.readouterr().out))
    assert told[0]["digest"] == told[1]["digest"]


@pytest.mark.parametrize("explore", ["pos", "faults:1"])
def test_schedules_and_placements_are_searched_with_each_lock_of_a_fleet(explore, tmp_path, monkeypatch, capsys):
    """The runs name the lock of each client."""
    monkeypatch.chdir(tmp_path)
    line = ["sim", "two-turns", "--provider", "hudi,hardened", "--explore", explore, "--seeds", "1", "--jobs", "1"]
    assert run([*line, "--shrink-for", "0s", "--max-time", "100ms"]) in (0, 1, 3)
    capsys.readouterr()
    _, runs, _ = load_history(tmp_path / ".lockref/runs/latest")
    assert {tuple(locks) for locks in runs["node_providers"].to_pylist()} == {(("n1", "hudi"), ("n2", "hardened"))}


def test_a_fleet_is_fuzzed_and_has_no_envelope(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = ["fuzz", "--provider", "hardened,hudi", "--runs", "4", "--jobs", "1", "--shrink-for", "0s", "--out", "kept"]
    assert run(line) in (0, 1, 3)
    capsys.readouterr()
    worlds = [json.loads(path.read_text())["scenario"] for path in sorted(Path("kept/corpus").iterdir())]
    assert worlds
    for world in worlds:
        assert [world["providers"][f"n{number}"] for number in (1, 2)] == ["hardened", "hudi"]
    for fleet in ("hardened,hudi", "hudi:3"):
        assert run(["envelope", "--provider", fleet]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"provider {fleet!r} is a fleet: an envelope holds one lock to its promise" in said
