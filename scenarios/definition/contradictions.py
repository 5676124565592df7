"""Contradictions in a scenario file: keys that are valid alone, and impossible together.

The model (`schema`) checks each key by itself. These checks need the whole scenario: names that nobody has, ids that
occur twice, times that do not fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockref.errors import ConfigError, did_you_mean
from lockref.lab.loading import is_installed_code, load_program, load_provider
from lockref.located_yaml import KeyPath
from lockref.provider import DEFAULT_STORE
from lockref.services import DEFAULT_KIND, service_kind
from lockref.words import OPERATOR
from reports.checks.spec import CLAUSES
from scenarios.definition.fault_forms import WrittenFault, written_name
from scenarios.definition.faults import FAULT_KINDS, id_of, named_in, plan_entry
from scenarios.definition.schema import QUEUE_NAME, RESOURCE_NAME, Scenario
from sim.faults.plan import complaint_about
from sim.faults.quantities import Quantity
from sim.faults.stores import ObjectFault

_CLIENT = re.compile(r"n[0-9]+(-child)*")
_OF_A_SWARM = re.compile(r"f[0-9]+")
_RESERVED = (OPERATOR, "observer")
"""Names that a history uses for parties of its own. No service or node may have them."""


def foreign_code(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """The place and the reference of each lock, program and rebalancer that is neither ours nor known by its name."""
    named: list[tuple[KeyPath, str]] = [(("providers", name), text) for name, text in scenario.providers.items()]
    named += [(("nodes", name, "program"), node.program) for name, node in scenario.nodes.items()]
    options: list[tuple[KeyPath, dict[str, str]]] = [(("lock", "options"), scenario.lock.options)]
    options += [(("nodes", name, "options"), node.options) for name, node in scenario.nodes.items()]
    named += [((*place, key), text) for place, told in options for key, text in told.items() if key == "rebalancer"]
    yield from ((place, text) for place, text in named if not is_installed_code(text))


def contradictions(scenario: Scenario, *, may_import: bool = True) -> Iterator[tuple[KeyPath, str]]:
    """The place and the message of each contradiction. No key alone is wrong there.

    may_import: also import what `foreign_code` names, to see whether it is a lock or a program.
    """
    unseen = set() if may_import else {reference for _, reference in foreign_code(scenario)}
    known = set(scenario.client_names)
    clients = f"n1 to n{scenario.clients}"

    def stranger(name: str) -> str:
        return f"is {name!r}; the clients are {clients}.{did_you_mean(name, sorted(known))}"

    for part, names in (
        (("clock", "drift"), scenario.clock.drift),
        (("clock", "offset"), scenario.clock.offset),
        (("workload", "clients"), scenario.workload.clients),
        (("providers",), scenario.providers),
    ):
        for name in names:
            if name not in known:
                yield (*part, name), stranger(name)
    for name, reference in scenario.providers.items():
        if reference in unseen:
            continue
        try:
            load_provider(reference)
        except ConfigError as error:
            yield ("providers", name), str(error)
    yield from _contradictory_services(scenario, unseen)
    yield from _contradictory_faults(scenario)
    for number, kind in enumerate(scenario.swarm.kinds if scenario.swarm else ()):
        if kind not in FAULT_KINDS:
            yield (
                ("swarm", "kinds", number),
                f"is {kind!r}; expected one of {', '.join(FAULT_KINDS)}.{did_you_mean(kind, FAULT_KINDS)}",
            )
    for build in scenario.expect:
        if build in CLAUSES:
            yield (
                ("expect", build),
                f"is a clause, expected a build first: {{hudi: {{{build}: violated}}}}",
            )
    needed = scenario.workload.needs
    if needed and scenario.declared_for_work() is None:
        yield (
            ("workload", "protocol"),
            f"is {scenario.workload.protocol!r}, which needs {service_kind(needed).title}: "
            f"add services: {{rows: {{kind: {needed}}}}}",
        )
    if scenario.lock.validity.least < 2 * scenario.lock.renew_every.most:
        yield ("lock", "renew_every"), "leaves no second chance: validity must be at least twice renew_every"
    if scenario.duration.most == 0:
        yield ("duration",), "is 0; a run needs time"
    if scenario.heal_at is not None and scenario.heal_at.most > scenario.duration.least:
        yield ("heal_at",), "lies after the end of the run"


def _alternatives(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _contradictory_faults(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Names in faults that the scenario does not have, ids that occur twice, and what no plan can hold."""
    nodes = set(scenario.client_names) | set(scenario.nodes)
    services = scenario.service_names
    reachable = nodes | set(services)
    clients = f"n1 to n{scenario.clients}"
    ids = {f"drift-{name}" for name in scenario.clock.drift} | {f"offset-{name}" for name in scenario.clock.offset}
    for number, fault in enumerate(scenario.faults):
        here: KeyPath = ("faults", number)
        for below, name, holds in named_in(fault):
            if holds is Quantity.NODE and name not in nodes:
                beside = f", beside them {', '.join(scenario.nodes)}" if scenario.nodes else ""
                near = did_you_mean(name, sorted(nodes))
                yield (*here, *below), f"is {name!r}; the clients are {clients}{beside}.{near}"
            elif holds is Quantity.SERVICE and name not in services:
                expected = _alternatives([repr(service) for service in services])
                yield (*here, *below), f"is {name!r}; expected {expected}.{did_you_mean(name, services)}"
            elif holds is Quantity.MEMBERS and name not in reachable:
                expected = _alternatives([clients, *scenario.nodes, *services])
                yield (*here, *below), f"is {name!r}; expected {expected}.{did_you_mean(name, sorted(reachable))}"
        protected = (RESOURCE_NAME, QUEUE_NAME) if scenario.workload.has_queue else (RESOURCE_NAME,)
        if issubclass(fault.fault_type, ObjectFault) and (service := getattr(fault, "service", None)) in protected:
            # Nobody could say then whose effect an object is: the clauses on effects would accuse a writer.
            yield (
                (*here, "service"),
                f"is {service!r}; {fault.kind} changes objects of a store, not of the protected resource",
            )
        if text := _unfit_for_a_plan(fault, number + 1):
            yield here, text
        own = id_of(fault, number=number + 1)
        if own in ids:
            place, which = ((*here, "id"), "is") if fault.id else (here, "has no id, so it is called")
            yield place, f"{which} {own!r} a second time; ids are unique"
        elif scenario.swarm is not None and _OF_A_SWARM.fullmatch(own):
            yield (*here, "id"), f"is {own!r}, as faults are called that a swarm draws"
        ids.add(own)


def _unfit_for_a_plan(fault: WrittenFault, number: int) -> str:
    """Why the plan's own rules refuse a fault, in the words of a file; empty if they take it.

    The form of a file has each key's own rule. What keys mean together is said once, where the kind is declared.
    """
    for draw in (lambda drawn, _place: drawn.least, lambda drawn, _place: drawn.most):
        text = complaint_about(plan_entry(fault, number=number, draw=draw))
        if text:
            return re.sub(r"'(\w+)'", lambda named: f"'{written_name(named[1])}'", text)
    return ""


def _contradictory_services(scenario: Scenario, unseen: set[str]) -> Iterator[tuple[KeyPath, str]]:
    """Declared services and nodes whose names are taken, or that cannot be made."""
    for name, service in scenario.services.items():
        if name == RESOURCE_NAME:
            yield ("services", name), "is the protected resource, which is in every scenario; see workload.kind"
        elif name == QUEUE_NAME and scenario.workload.has_queue:
            yield ("services", name), f"is the queue of {scenario.workload.protocol!r}; give this service another name"
        elif name == DEFAULT_STORE and service.kind != DEFAULT_KIND:
            title = service_kind(DEFAULT_KIND).title.partition(" ")[2]
            yield ("services", name, "kind"), f"is the {title} of every scenario; give this service another name"
        elif name == DEFAULT_STORE and "store" in scenario.model_fields_set:
            yield ("services", name), "is said a second time: in store and here"
        elif name in _RESERVED or _CLIENT.fullmatch(name):
            yield ("services", name), f"is called {name!r}, as somebody else in every history is"
        try:
            service.make()
        except ConfigError as error:
            yield ("services", name), str(error)
    for name, node in scenario.nodes.items():
        try:
            if node.program not in unseen:
                load_program(node.program)
        except ConfigError as error:
            yield ("nodes", name, "program"), str(error)
        if name in scenario.service_names or name in _RESERVED or _CLIENT.fullmatch(name):
            yield ("nodes", name), f"is called {name!r}, as a client, a service or somebody else in the history is"
