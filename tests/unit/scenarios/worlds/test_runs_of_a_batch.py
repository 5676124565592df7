"""The runs of a batch share what no seed changes, and nothing else; and each leaves nothing behind."""

from __future__ import annotations

import gc

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.batch import run_seeds
from scenarios.definition.draw import is_drawn_alike
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import run_simulated

CONSTANT = """\
version: 1
name: constant
duration: 30s
heal_at: 20s
clients: 3
workload: {kind: register, cycles: 1, hold: 1s, clients: {n2: {cycles: 2, hold: 2s}}}
"""
OURS = ("lockref.", "sim.", "scenarios.")
FAULT = "faults: [{kind: lose_reply, op: renew, nth: 1, client: n1}]\n"

QUANTITIES = ["lock: {validity: 10s..40s}", "lock: {renew_every: 800ms..1s}", "lock: {poll_every: 1s..3s}"]
QUANTITIES += ["lock: {drift_bound: 500ms..600ms}"]


@pytest.mark.parametrize("build", ["hardened", "hudi"])
@pytest.mark.parametrize("drawn", ["", *QUANTITIES])
def test_a_run_of_a_batch_is_the_run_alone(build: str, drawn: str) -> None:
    """Row and plan do not tell whether other seeds ran before, also where seeds draw what the others share."""
    scenario, spec = parse_scenario(CONSTANT + FAULT + drawn), load_provider(build)
    together = run_seeds(scenario, spec, [4, 2, 3, 4])
    alone = [run_simulated(scenario, spec, seed) for seed in (4, 2, 3, 4)]
    assert [(run.seed, run.run_row, run.plan) for run in together] == [
        (run.seed, run.run_row, run.plan) for run in alone
    ]
    rows = [{**run.run_row, "digest": "", "run": 0, "seed": 0} for run in alone]
    assert rows[0] == rows[3]


def _scenario(text: str) -> Scenario:
    return parse_scenario(CONSTANT.replace(*text.split(" -> ")) if " -> " in text else CONSTANT + text)


@pytest.mark.parametrize(
    "drawn", [*QUANTITIES, "duration: 30s -> duration: 30s..40s", "heal_at: 20s -> heal_at: 20s..25s"]
)
def test_each_quantity_that_a_seed_may_draw_is_asked(drawn: str) -> None:
    """One that is left out would make all seeds run with the numbers of one."""
    assert is_drawn_alike(_scenario(""))
    assert not is_drawn_alike(_scenario(drawn))


@pytest.mark.parametrize("build", ["hardened", "hudi"])
def test_a_run_leaves_nothing_for_the_collector(build: str) -> None:
    """World, clients and locks are freed by their last reference."""
    scenario, spec = parse_scenario(CONSTANT), load_provider(build)
    outcome = run_simulated(scenario, spec, 1)
    gc.collect()
    gc.disable()
    try:
        # What other tests of this process have left, and a cache drops meanwhile, is not of this run either.
        before = {id(each) for each in gc.get_objects()}
        again = run_simulated(scenario, spec, 1)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        # What the standard library leaves, such as a caught exception, is not ours.
        ours = [each for each in gc.garbage if type(each).__module__.startswith(OURS)]
        left = [type(each).__qualname__ for each in ours if id(each) not in before]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []
    assert again.digest == outcome.digest


SERVICES = "services: {rows: {kind: table}, more: {kind: table}}\n"


def test_a_remembered_service_is_the_one_that_the_scenario_means() -> None:
    """Both parts of the question count: the kind of port and the name."""
    scenario = parse_scenario(CONSTANT + SERVICES)
    shared = Shared(scenario, load_provider("hardened"), plan=None)
    asked = [("object_store", ""), ("table", ""), ("table", "more"), ("table", "rows"), ("object_store", "store")]
    for _ in range(2):
        assert [shared.service_for(*each) for each in asked] == ["store", "rows", "more", "rows", "store"]
        with pytest.raises(ConfigError, match="was opened as object_store; it is declared as table"):
            shared.service_for("object_store", "more")
        with pytest.raises(ConfigError, match="'rwos' was opened"):
            shared.service_for("table", "rwos")
