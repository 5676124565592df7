"""A mixed fleet as one text."""

from __future__ import annotations

import pickle

import pytest

from lockref.errors import ConfigError
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.definition.mixture import Mixture
from scenarios.worlds.simulated import run_simulated


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
