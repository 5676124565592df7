"""Changes of a trial: of its faults, their instants, lengths and order; of its seed, workload, timing and crowd.

A change draws from the stream that it is given and from nothing else. What it makes is valid, and a correct lock
survives it: the faults are of the kinds that a swarm draws, within the envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from scenarios.definition.draw import draw_scenario
from scenarios.definition.schema import Scenario, Work
from scenarios.definition.units import DrawnNumber, constant
from scenarios.search.forms import FORMS, Terms
from scenarios.search.requests import RequestPlace
from scenarios.search.trials import Trial
from sim.faults.drawing import ENVELOPE_KINDS, Drawing, Shape
from sim.faults.fault import CUTS, Fault
from sim.faults.operations import OPS
from sim.faults.plan import FAULT_TYPES, FaultPlan
from sim.faults.quantities import Quantity, fields_holding
from sim.kernel.streams import Stream

CLIENTS_MAX: Final = 5
PLAN_FAULTS_MAX: Final = 6
"""A plan with more hides what each of them does."""

CYCLES_MAX: Final = 4
CLOCK_KINDS: Final = ("drift", "offset", "step")
"""Kinds whose sum has to stay within the envelope: a plan holds those of one drawing alone, each once."""


def changed(
    trial: Trial,
    others: Sequence[Trial],
    rng: Stream,
    *,
    number: int,
    places: Sequence[RequestPlace] = (),
    patience_ns: int = 0,
) -> Trial:
    """The trial after one to three changes.

    others: trials whose faults may be taken over. places: the requests of the trial's run. patience_ns: how long the
    lock waits for an answer.
    """
    scenario, plan, seed = trial.scenario, trial.plan, trial.seed
    terms = Terms.of(scenario, draw_scenario(scenario, seed), patience_ns)
    for _ in range(rng.randint(1, 3)):
        what = rng.random()
        if what < 0.35 and places:
            plan = _struck(plan, rng.choice(places), terms, rng)
        elif what < 0.65:
            plan = rng.choice(_OF_PLANS)(scenario, plan, rng)
        elif what < 0.75 and others:
            plan = _joined(plan, rng.choice(others).plan, rng)
        elif what < 0.85:
            seed = rng.randrange(1, 1_000_000)
        else:
            scenario = rng.choice(_OF_SCENARIOS)(scenario, rng)
    return Trial(number=number, scenario=scenario, seed=seed, plan=_fitting(plan, scenario))


def fresh_fault(scenario: Scenario, rng: Stream) -> dict[str, Any] | None:
    """The fields of a fault as a swarm draws them, with its kind; None where the envelope has no room for it."""
    kind = rng.choice(ENVELOPE_KINDS)
    fields = FAULT_TYPES[kind].draw(Drawing(rng, _shape(scenario)))
    return None if fields is None else {"kind": kind, **fields}


def _shape(scenario: Scenario) -> Shape:
    drawn = draw_scenario(scenario, 0)
    return Shape(
        clients=scenario.client_names,
        duration_ns=min(drawn.duration_ns, 3 * drawn.validity_ns),
        validity_ns=drawn.validity_ns,
        # A plan may hold two faults of clocks, each drawn by itself.
        drift_bound_ns=scenario.envelope.offset.most // 2,
        rate_error_ppm=scenario.envelope.drift.most,
        heal_ns=drawn.heal_at_ns,
    )


# Changes of plans.


def _struck(plan: FaultPlan, place: RequestPlace, terms: Terms, rng: Stream) -> FaultPlan:
    """One more fault, at a request that the trial is known to make."""
    form = rng.choice([form for form in FORMS if form.fits(place, terms)])
    return _with(plan, [*plan.faults, form.fault(place, terms, number=1)])


def _added(scenario: Scenario, plan: FaultPlan, rng: Stream) -> FaultPlan:
    fields = fresh_fault(scenario, rng)
    return plan if fields is None else _with(plan, [*plan.faults, _made(fields)])


def _added_at_a_request(scenario: Scenario, plan: FaultPlan, rng: Stream) -> FaultPlan:
    """A fault that one request sets off: it strikes at a place in a client's life, and not at an instant."""
    fields = fresh_fault(scenario, rng)
    if fields is None:
        return plan
    kind = FAULT_TYPES[str(fields["kind"])]
    client = str(fields.get("client") or rng.choice(scenario.client_names))
    when = {"client": client, "op": rng.choice(OPS), "nth": rng.randint(1, 4), "cut": rng.choice(CUTS)}
    if kind.kind_name() in ("drift", "offset"):
        return _with(plan, [*plan.faults, _made(fields)])
    kept = {
        name: value
        for name, value in fields.items()
        if name not in ("at_ns", "nth", "times", "probability", "when", "op")
        and not (kind.is_request_fault and name in ("for_ns", "client", "service"))
    }
    return _with(plan, [*plan.faults, _made({**kept, "when": when})])


def _removed(_scenario: Scenario, plan: FaultPlan, rng: Stream) -> FaultPlan:
    if not plan.faults:
        return plan
    out = rng.randrange(len(plan.faults))
    return _with(plan, [fault for place, fault in enumerate(plan.faults) if place != out])


def _resized(scenario: Scenario, plan: FaultPlan, rng: Stream) -> FaultPlan:
    """Another length, around the lease's; or another instant."""
    if not plan.faults:
        return plan
    place = rng.randrange(len(plan.faults))
    fault = plan.faults[place]
    names = fields_holding(type(fault), Quantity.DURATION, Quantity.INSTANT)
    named = [name for name in names if getattr(fault, name) is not None]
    if fault.kind in CLOCK_KINDS or not named:
        return plan
    drawing = Drawing(rng, _shape(scenario))
    name = rng.choice(named)
    is_instant = name in fields_holding(type(fault), Quantity.INSTANT)
    value = drawing.instant() if is_instant else drawing.length()
    return _replaced(plan, place, fault.model_copy(update={name: value}))


def _moved(_scenario: Scenario, plan: FaultPlan, rng: Stream) -> FaultPlan:
    """The same fault at the request before or after, at another cut, or at another kind of request."""
    triggered = [place for place, fault in enumerate(plan.faults) if fault.when is not None]
    if not triggered:
        return plan
    place = rng.choice(triggered)
    fault = plan.faults[place]
    when = fault.when
    assert when is not None, "only faults with a trigger were chosen"
    update: dict[str, Any] = rng.choice(
        (
            {"nth": max(1, when.nth + rng.choice((-1, 1)))},
            {"cut": rng.choice(CUTS)},
            {"op": rng.choice(OPS), "service": None},
        )
    )
    return _replaced(plan, place, fault.model_copy(update={"when": when.model_copy(update=update)}))


def _joined(plan: FaultPlan, other: FaultPlan, rng: Stream) -> FaultPlan:
    """The faults of one plan, and some of another one."""
    taken = [fault for fault in other.faults if rng.random() < 0.5]
    return _with(plan, [*plan.faults, *taken])


_OF_PLANS: Final[tuple[Callable[[Scenario, FaultPlan, Stream], FaultPlan], ...]] = (
    _added,
    _added_at_a_request,
    _added_at_a_request,
    _removed,
    _resized,
    _moved,
)


def _made(fields: dict[str, Any]) -> Fault:
    kind = FAULT_TYPES[str(fields["kind"])]
    return kind.model_validate({"id": "new", **{name: value for name, value in fields.items() if name != "kind"}})


def _with(plan: FaultPlan, faults: Sequence[Fault]) -> FaultPlan:
    """The plan with these faults, numbered anew, so that two plans can be joined."""
    named = [
        fault.model_copy(update={"id": f"f{number}-{fault.kind.replace('_', '-')}"})
        for number, fault in enumerate(faults[:PLAN_FAULTS_MAX], 1)
    ]
    return FaultPlan.of(*named, heal_ns=plan.heal_ns)


def _replaced(plan: FaultPlan, place: int, fault: Fault) -> FaultPlan:
    """The plan with another fault there; checked, because a copy of a fault is not."""
    checked = type(fault).model_validate(fault.model_dump(exclude_unset=True))
    return _with(plan, [checked if each == place else other for each, other in enumerate(plan.faults)])


def _fitting(plan: FaultPlan, scenario: Scenario) -> FaultPlan:
    """The faults that this world has the clients for, and one fault of clocks for each client, two in all."""
    known = {*scenario.client_names, *scenario.service_names}
    kept: list[Fault] = []
    wrong: set[str] = set()
    for fault in plan.faults:
        members = {name for group in getattr(fault, "groups", ()) for name in group}
        if not {*fault.nodes, *members} <= known:
            continue
        if fault.kind in CLOCK_KINDS:
            if fault.target in wrong or len(wrong) == 2:
                continue
            wrong.add(fault.target)
        kept.append(fault)
    return _with(plan, kept)


# Changes of worlds.


def _crowd(scenario: Scenario, rng: Stream) -> Scenario:
    # A mixed fleet keeps each of its locks: a failure without one of them would say nothing of the mix.
    least = scenario.clients if scenario.providers else 2
    names = [f"n{number}" for number in range(1, rng.randint(least, max(least, CLIENTS_MAX)) + 1)]
    locks = {
        name: scenario.providers[first]
        for place, name in enumerate(names)
        if (first := f"n{place % scenario.clients + 1}") in scenario.providers
    }
    work = scenario.workload
    own = {name: each for name, each in work.clients.items() if name in names}
    crowd = {"clients": len(names), "providers": locks, "workload": work.model_copy(update={"clients": own})}
    return scenario.model_copy(update=crowd)


def _lasting(duration_ns: int) -> DrawnNumber:
    """A duration that a file of a corpus or of a failure can hold: it is read with its unit."""
    return constant(duration_ns, f"{duration_ns}ns")


def _start(scenario: Scenario, rng: Stream) -> Scenario:
    """Another start of one client, at any fraction of a second."""
    client = rng.choice(scenario.client_names)
    return _own(scenario, client, start=_lasting(rng.randrange(3_000_000_000)))


def _cycles(scenario: Scenario, rng: Stream) -> Scenario:
    return _own(scenario, rng.choice(scenario.client_names), cycles=constant(rng.randint(1, CYCLES_MAX)))


def _hold(scenario: Scenario, rng: Stream) -> Scenario:
    validity_ns = scenario.lock.validity.most
    hold_ns = rng.choice((validity_ns // 50, validity_ns // 8, validity_ns // 3, validity_ns + validity_ns // 10))
    return _own(scenario, rng.choice(scenario.client_names), hold=_lasting(hold_ns))


def _think(scenario: Scenario, rng: Stream) -> Scenario:
    think_ns = rng.choice((0, rng.randrange(50_000_000), rng.randrange(2_000_000_000)))
    return _own(scenario, rng.choice(scenario.client_names), think=_lasting(think_ns))


_OF_SCENARIOS: Final[tuple[Callable[[Scenario, Stream], Scenario], ...]] = (_crowd, _start, _cycles, _hold, _think)


def _own(scenario: Scenario, client: str, **work: DrawnNumber) -> Scenario:
    """The scenario with something else for one client."""
    workload = scenario.workload
    own = (workload.clients.get(client) or Work()).model_copy(update=work)
    clients = {**workload.clients, client: own}
    return scenario.model_copy(update={"workload": workload.model_copy(update={"clients": clients})})
