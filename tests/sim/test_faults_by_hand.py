"""Changes of objects by an operator's hand, on each service that a scenario may have."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.definition.load import parse_scenario
from scenarios.run import simulate_many
from sim.faults.plan import FAULT_TYPES
from sim.faults.stores import ObjectFault

OBJECT_FAULTS = tuple(kind for kind, fault in FAULT_TYPES.items() if issubclass(fault, ObjectFault))
WORKLOADS = ("{kind: register}", "{kind: delta_log, life: unlocked, protocol: create}")
SERVICES = "services: {zk: {kind: coordination}, rows: {kind: table}, files: {kind: object_store}}"


@pytest.mark.parametrize("kind", OBJECT_FAULTS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_change_of_objects_by_hand_is_run_or_refused_with_its_place(kind: str, workload: str) -> None:
    """Each kind on each service: a file that is accepted runs to its end, and the resource is refused by its line."""
    head = f"version: 1\nname: x\nclients: 1\nduration: 5s\n{SERVICES}\nworkload: {workload}\n"
    for service in ("store", "zk", "rows", "files"):
        scenario = parse_scenario(f"{head}faults: [{{kind: {kind}, key: some, at: 1s, service: {service}}}]\n")
        simulate_many(scenario, load_provider("hardened"), [1])
    with pytest.raises(ConfigError, match=r"x\.yaml:7:.*faults\.0\.service: is 'resource'"):
        parse_scenario(f"{head}faults: [{{kind: {kind}, key: some, at: 1s, service: resource}}]\n", file="x.yaml")
