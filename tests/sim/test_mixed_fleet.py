"""Several builds on one object: how their records are read, and what the runs table says of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from scenarios.definition.load import parse_scenario
from scenarios.worlds.real import run_real
from scenarios.worlds.simulated import run_simulated
from tests.sim.mixed_leases import MARK, MARKS

MIXED = """
version: 1
name: mixed
clients: 2
duration: 3s
lock: {validity: 2s, renew_every: 200ms, poll_every: 20ms}
workload: {kind: counter, cycles: 2, think: 0s, hold: 20ms, wait: 20s}
providers: {n2: "tests.sim.mixed_leases:Second"}
"""
FIRST = load_provider("tests.sim.mixed_leases:First")


def read_by(events: pa.Table) -> dict[str, set[int]]:
    """By node, whose decoder read the records of its requests."""
    found: dict[str, set[int]] = {}
    for row in events.to_pylist():
        if row["valid_until_ns"] is not None and row["kind"] in ("sent", "applied", "replied"):
            found.setdefault(row["node"], set()).add(row["valid_until_ns"] % MARK)
    return found


def described(run_row: dict[str, Any]) -> tuple[str, dict[str, str], dict[str, str]]:
    """What a run's row says once it has been through the table, as a reader finds it."""
    row = runs_table([run_row]).to_pylist()[0]
    return row["provider"], dict(row["node_providers"] or ()), dict(row["lock_protocols"] or ())


def test_a_mixed_fleet_is_read_alike_in_both_worlds() -> None:
    """The object says how its records are read, through the lock under test, whichever client wrote or reads them."""
    simulated = run_simulated(parse_scenario(MIXED), FIRST, 1)
    real = run_real(parse_scenario(MIXED), FIRST, "memory:")
    assert read_by(to_table([simulated.recorder])) == {"n1": {MARKS["first"]}, "n2": {MARKS["first"]}}
    assert read_by(real.events) == {"n1": {MARKS["first"]}, "n2": {MARKS["first"]}}


def test_the_runs_table_says_who_ran_what() -> None:
    """Node to provider where they differ, also for clients beyond the file's; lock to its protocol."""
    second = "tests.sim.mixed_leases:Second"
    name, beside, protocols = described(run_simulated(parse_scenario(MIXED), FIRST, 1).run_row)
    assert (name, beside) == (FIRST.name, {"n2": second})
    assert list(protocols.values()) == ["chain"]
    [row] = run_real(parse_scenario(MIXED), FIRST, "memory:", clients=4).runs.to_pylist()
    assert dict(row["node_providers"]) == {"n2": second, "n4": second}
    assert list(dict(row["lock_protocols"]).values()) == ["chain"]


def test_one_provider_alone_needs_no_map() -> None:
    """A run of one build says its name once; RFC-91's locks say their protocol."""
    plain = run_simulated(parse_scenario("version: 1\nname: x\n"), load_provider("hudi"), 1).run_row
    assert plain["node_providers"] is None
    assert list(plain["lock_protocols"].values()) == ["rfc91"]
