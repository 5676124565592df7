"""Random fault plans by swarm: some kinds off for a whole run, the rest with wild weights.

A plan with a little of everything hides what a plan with much of one thing
shows, so every run draws its own mixture (Groce et al., ISSTA 2012; practised
in TigerBeetle's fuzzer). Durations spread around the lease's validity, where
locks break. Bounded plans stay inside an envelope that a correct lock must
survive: clocks of two nodes never disagree by more than the drift bound, the
store lies about no write, and nobody reaches into it from outside.

How one fault is drawn stands with its kind (`Fault.draw`); here is what kinds
draw with.
"""

from __future__ import annotations

from lockref.errors import ConfigError
from sim.faults.drawing import Drawing, Shape
from sim.faults.fault import Fault
from sim.faults.plan import FAULT_TYPES, FaultPlan
from sim.kernel.streams import Stream

FAULTS_MAX = 8


def swarm(rng: Stream, shape: Shape) -> FaultPlan:
    """Draw a plan; the same stream and shape give the same plan."""
    return FaultPlan.of(*swarm_faults(rng, shape), heal_ns=shape.heal_ns)


def swarm_faults(rng: Stream, shape: Shape) -> list[Fault]:
    """The faults of that plan, for a plan that has others beside them. Raises ConfigError for an unknown kind."""
    for kind in shape.kinds:
        if kind not in FAULT_TYPES:
            raise ConfigError(f"swarm kind is {kind!r}; expected one of {', '.join(FAULT_TYPES)}")
    share = rng.choice((0.1, 0.3, 0.5, 0.8))
    enabled = [kind for kind in shape.kinds if rng.random() < share]
    if not enabled:
        return []
    weights = [rng.random() ** 3 + 0.01 for _ in enabled]
    drawing = Drawing(rng, shape)
    faults: list[Fault] = []
    for kind in rng.choices(enabled, weights, k=rng.randint(1, FAULTS_MAX)):
        fault_type = FAULT_TYPES[kind]
        fields = fault_type.draw(drawing)
        if fields is not None:
            faults.append(fault_type.model_validate({"id": f"f{len(faults) + 1}", **fields}))
    return faults
