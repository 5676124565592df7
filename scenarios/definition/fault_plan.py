"""From a scenario's faults to a fault plan: whole numbers, explicit, ready to be stored.

A scenario's clocks are faults that begin at true time 0. A swarm adds what the
seed draws. Where nothing is drawn, every seed shares one plan, and only its
triggers and filters meet different requests.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from scenarios.definition.draw import DrawnScenario, Draws
from scenarios.definition.faults import CorruptObject, FaultSpec
from scenarios.definition.schema import Scenario
from scenarios.definition.units import Drawn
from sim.faults.generators import ENVELOPE_KINDS, Shape, swarm
from sim.faults.vocabulary import Fault, FaultPlan, parse_fault
from sim.kernel.streams import stream

_WORDS = {"rate": "rate_ppm", "times": "times"}
"""What a drawn quantity is called in the plan; all others are durations and end in `_ns`."""


def plan_entry(fault: FaultSpec, *, number: int, draw: Draws) -> dict[str, Any]:
    """One fault in the simulator's words. `number` counts from 1 and names it where it has no id."""
    entry: dict[str, Any] = {"id": fault.id or f"{fault.kind}-{number}", "kind": fault.kind}
    for name in type(fault).model_fields:
        value = getattr(fault, name)
        word = name.rstrip("_")
        if value is None or name in ("id", "kind", "charset"):
            continue
        if isinstance(value, Drawn):
            entry[_WORDS.get(word, f"{word}_ns")] = draw(value, f"faults.{number - 1}.{word}")
        elif isinstance(value, BaseModel):
            entry[word] = {
                (f"{key}_ns" if isinstance(part, Drawn) else key): (
                    draw(part, f"faults.{number - 1}.{word}.{key}") if isinstance(part, Drawn) else part
                )
                for key, part in value
                if part is not None
            }
        elif isinstance(fault, CorruptObject) and name == "body":
            choice = draw(_choice_of(fault), f"faults.{number - 1}.body")
            entry[word] = fault.bodies[choice].encode(fault.charset)
        elif name == "groups":
            entry[word] = tuple(tuple(group) for group in value)
        else:
            entry[word] = value
    return entry


def _choice_of(fault: CorruptObject) -> Drawn:
    """Which of its bodies: a position that a seed settles."""
    return Drawn("", tuple(range(len(fault.bodies))))


def is_same_for_all_seeds(scenario: Scenario) -> bool:
    """True if no seed changes the plan, so that a batch can draw it once."""
    quantities: list[Any] = [scenario.heal_at, *scenario.clock.drift.values(), *scenario.clock.offset.values()]
    for fault in scenario.faults:
        quantities += [getattr(fault, name) for name in type(fault).model_fields]
        if fault.when is not None:
            quantities += [fault.when.after, fault.when.before]
        if isinstance(fault, CorruptObject):
            quantities.append(_choice_of(fault))
    return scenario.swarm is None and all(not isinstance(value, Drawn) or value.is_constant for value in quantities)


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
        faults += swarm(stream(seed, "swarm"), _shape(scenario, drawn)).faults
    return FaultPlan.of(*faults, heal_ns=heal_ns)


def _shape(scenario: Scenario, drawn: DrawnScenario) -> Shape:
    """What a swarm's plan must fit. Bounded unless the scenario says otherwise: a correct lock must survive it."""
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
