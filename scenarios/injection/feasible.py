"""Which faults of a plan can be carried out on a real server, and why the others cannot."""

from __future__ import annotations

import signal
from collections.abc import Collection, Sequence
from typing import Final

from lockref.clouds.uri import CLOUDS, cloud_of
from lockref.errors import CapabilityMissing, ConfigError
from lockref.provider import DEFAULT_STORE
from lockref.stores.address import StoreAddress
from scenarios.backends.pins import BACKENDS
from scenarios.backends.server_process import RestartableServer
from scenarios.definition.schema import Scenario
from scenarios.workloads.resource import RESOURCE
from sim.faults.clocks import Drift, Offset
from sim.faults.drawing import ENVELOPE_KINDS
from sim.faults.fault import Fault, RequestFault
from sim.faults.network import Partition
from sim.faults.plan import FAULT_TYPES, FaultPlan
from sim.faults.process import Crash, Pause
from sim.faults.servers import CrashService, FreezeService
from sim.faults.stores import CorruptObject, DeleteObject

_WIRE_CUTS: Final = ("c1", "c2", "c3")


def is_idle(fault: Fault) -> bool:
    """True for a clock fault of size 0, which a draw may come to."""
    return (isinstance(fault, Offset) and fault.by_ns == 0) or (isinstance(fault, Drift) and fault.rate_ppm == 0)


def possible(plan: FaultPlan) -> tuple[FaultPlan, list[tuple[Fault, str]]]:
    """The part of a plan that a real run can carry out, and the faults that are left out, each with the reason."""
    left_out = [(fault, why) for fault in plan.faults if not is_idle(fault) and (why := fault.obstacle())]
    gone = {fault.id for fault, _ in left_out} | {fault.id for fault in plan.faults if is_idle(fault)}
    return plan.without(sorted(gone)), left_out


def require_possible(scenario: Scenario, plan: FaultPlan, *, drawn: Collection[str] | None = None) -> FaultPlan:
    """The plan of a real run: without clock faults of size 0, and without drawn faults that it cannot carry out.

    drawn: the ids of the faults that a swarm drew. Those that no real run can carry out are left out; see `possible`.
    None for a plan that does not come from the scenario; then nothing may be left out.
    Raises ConfigError for a scenario with disturbances that only the simulated world has, CapabilityMissing on a system
    without the signals that stop processes.
    """
    where = f"scenario {scenario.name!r}"
    hint = "run it with `lockref sim`"
    if scenario.workload.life == "forks":
        raise ConfigError(f"{where} forks processes, which only the simulated world does: {hint}")
    if scenario.has_unreliable_network:
        raise ConfigError(f"{where} has a network that loses or repeats messages; only a simulated one does: {hint}")
    kept, left_out = possible(plan)
    told = {fault.kind: why for fault, why in left_out if fault.id not in (drawn or ())}
    if drawn is not None:
        told.update((kind, why) for kind in _swarm_kinds(scenario) if (why := FAULT_TYPES[kind].never_real))
    if told:
        kinds = "; ".join(f"{kind}: {why}" for kind, why in told.items())
        raise ConfigError(f"{where} injects what no real run can ({kinds}): {hint}")
    if kept.faults and not hasattr(signal, "SIGSTOP"):
        raise CapabilityMissing(f"{where} stops processes, and this system has no signal for that (SIGSTOP)")
    return kept


def _swarm_kinds(scenario: Scenario) -> Sequence[str]:
    return () if scenario.swarm is None else tuple(scenario.swarm.kinds) or ENVELOPE_KINDS


def needs_wire(fault: Fault) -> bool:
    """True if the fault strikes between a client and its store. Requests must then pass a lane."""
    if isinstance(fault, RequestFault):
        return fault.service in (None, DEFAULT_STORE) and (fault.when is None or fault.when.service != RESOURCE.name)
    if isinstance(fault, Partition) and any(DEFAULT_STORE in group for group in fault.groups):
        return True
    trigger = fault.when
    return trigger is not None and trigger.service in (None, DEFAULT_STORE) and trigger.cut in _WIRE_CUTS


def needs_operator(fault: Fault) -> bool:
    """True if the fault is an act of an operator, who changes objects in the store."""
    return isinstance(fault, DeleteObject | CorruptObject)


def needs_server(fault: Fault) -> bool:
    """True if the fault strikes the server's own process."""
    return isinstance(fault, FreezeService | CrashService)


def announced_clients(plan: FaultPlan) -> frozenset[str]:
    """The clients that a fault strikes at c0 or c4. Their processes must announce each request and each answer."""
    return frozenset(
        fault.when.client
        for fault in plan.faults
        if fault.when is not None and not isinstance(fault, RequestFault) and fault.when.cut not in _WIRE_CUTS
    )


def struck_processes(plan: FaultPlan) -> frozenset[str]:
    """The clients that need their own process: the plan stops or kills them, or a fault waits for their requests."""
    struck = {fault.client for fault in plan.faults if isinstance(fault, Pause | Crash)}
    return frozenset(struck | {fault.when.client for fault in plan.faults if fault.when is not None})


def restarted_clients(plan: FaultPlan) -> frozenset[str]:
    """The clients that crash and start again in another process."""
    return frozenset(
        fault.client for fault in plan.faults if isinstance(fault, Crash) and fault.restart_after_ns is not None
    )


def require_reachable(plan: FaultPlan, address: StoreAddress, *, server: RestartableServer | None = None) -> None:
    """Raise CapabilityMissing if the plan strikes a place that we cannot reach, such as a store without HTTP.

    server: the store's, where it was started here.
    """
    if server is None and (struck := _kinds([fault for fault in plan.faults if needs_server(fault)])):
        raise CapabilityMissing(
            f"the plan stops or kills the server ({struck}), and {address} was not started here as a process; take "
            "a server of `lockref backends` by its name, without `--via docker`"
        )
    is_killed = any(isinstance(fault, CrashService) for fault in plan.faults)
    if server is not None and is_killed and not server.keeps_objects_at(address):
        able = ", ".join(name for name, backend in BACKENDS.items() if backend.keeps)
        raise CapabilityMissing(
            f"the plan kills the server, and {server.name} keeps its objects in memory: after the restart it would be "
            f"empty. Take a server that keeps them on disk ({able})"
        )
    on_wire = _kinds([fault for fault in plan.faults if needs_wire(fault)])
    if on_wire and not cloud_of(address).is_reached_by_http:
        raise CapabilityMissing(
            f"the plan strikes requests ({on_wire}), and {address} is not reached by HTTP; "
            f"take a store of {', '.join(f'{scheme}:' for scheme, cloud in CLOUDS.items() if cloud.is_reached_by_http)}"
        )
    if on_wire and not address.endpoint:
        raise CapabilityMissing(
            f"the plan strikes requests ({on_wire}), so a proxy must stand in front of the store: add ?endpoint=URL, "
            f"the address of the store, to {address}"
        )
    by_hand = _kinds([fault for fault in plan.faults if needs_operator(fault)])
    if by_hand and not cloud_of(address).holds_objects:
        raise CapabilityMissing(f"the plan changes objects by hand ({by_hand}), and {address} holds none")


def _kinds(faults: Sequence[Fault]) -> str:
    return ", ".join(sorted({fault.kind for fault in faults}))
