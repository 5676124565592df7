"""From a scenario's faults to a fault plan: whole numbers, explicit, ready to be stored.

A scenario's clocks are faults that begin at true time 0. A swarm adds what the
seed draws. Where nothing is drawn, every seed shares one plan, and only its
triggers and filters meet different requests.
"""

from __future__ import annotations

from typing import Any

from scenarios.definition.draw import DrawnScenario, Draws
from scenarios.definition.faults import plan_entry, quantities_of
from scenarios.definition.schema import Scenario
from scenarios.definition.units import DrawnNumber
from sim.faults.drawing import ENVELOPE_KINDS, Shape
from sim.faults.fault import Fault
from sim.faults.generators import swarm_faults
from sim.faults.plan import FaultPlan, parse_fault
from sim.kernel.streams import stream


def is_same_for_all_seeds(scenario: Scenario) -> bool:
    """True if no seed changes the plan, so that a batch can draw it once."""
    quantities: list[Any] = [scenario.heal_at, *scenario.clock.drift.values(), *scenario.clock.offset.values()]
    for fault in scenario.faults:
        quantities += quantities_of(fault)
    return scenario.swarm is None and all(
        not isinstance(value, DrawnNumber) or value.is_constant for value in quantities
    )


def written_faults(scenario: Scenario, draw: Draws) -> list[Fault]:
    """The faults that the file says, wrong clocks included; nothing that a swarm draws."""
    clock = scenario.clock
    entries = [
        {
            "id": f"drift-{name}",
            "kind": "drift",
            "client": name,
            "at_ns": 0,
            "rate_ppm": draw(rate, f"clock.drift.{name}"),
        }
        for name, rate in clock.drift.items()
    ]
    entries += [
        {
            "id": f"offset-{name}",
            "kind": "offset",
            "client": name,
            "at_ns": 0,
            "by_ns": draw(by, f"clock.offset.{name}"),
        }
        for name, by in clock.offset.items()
    ]
    entries += [plan_entry(fault, number=number, draw=draw) for number, fault in enumerate(scenario.faults, 1)]
    return [parse_fault(entry) for entry in entries]


def draw_plan(scenario: Scenario, drawn: DrawnScenario, seed: int) -> FaultPlan:
    """The plan of one seed: the scenario's faults with their quantities drawn, then what a swarm adds."""
    faults = written_faults(scenario, Draws(seed))
    heal_ns = drawn.heal_at_ns
    if scenario.swarm is not None:
        faults += swarm_faults(stream(seed, "swarm"), _shape(scenario, drawn))
    return FaultPlan.of(*faults, heal_ns=heal_ns)


def _shape(scenario: Scenario, drawn: DrawnScenario) -> Shape:
    """The shape of a swarm's plans.

    It is bounded unless the scenario says otherwise: a correct lock must survive them.
    """
    assert scenario.swarm is not None, "only a swarm has a shape"
    return Shape(
        clients=scenario.client_names,
        duration_ns=drawn.duration_ns if drawn.heal_at_ns is None else drawn.heal_at_ns,
        validity_ns=drawn.validity_ns,
        drift_bound_ns=scenario.envelope.offset.most,
        kinds=tuple(scenario.swarm.kinds) or ENVELOPE_KINDS,
        is_bounded=not scenario.swarm.beyond_envelope,
        rate_error_ppm=scenario.envelope.drift.most,
        heal_ns=drawn.heal_at_ns,
    )
