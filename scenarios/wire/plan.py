"""Turn a scenario's faults into a plan for programs on the wire, and refuse faults that cannot be carried out there.

Simulations carry out the same plan, and its words mean the same: clients are n1, n2, …; `op` is what a request means
for a lock, told by the record in its body. Faults that only a simulated world has are refused before any start.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.runtime import NS_PER_S
from scenarios.backends.environments import ensure_environment, find_python
from scenarios.backends.pins import Packages
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.schema import Scenario
from scenarios.injection.feasible import needs_operator
from sim.faults.clocks import Offset
from sim.faults.fault import Fault
from sim.faults.plan import EMPTY_PLAN, FaultPlan


@dataclass(frozen=True, slots=True)
class _Program:
    """The program that an environment of packages is built for."""

    name: str


FAKETIME: Final = _Program("libfaketime")
FAKETIME_PACKAGES: Final = Packages(version="3.0.1", requirements=("libfaketime==3.0.1",), python_min=(3, 11))
"""The library, of PyPI. That of Debian 12 (0.9.10) makes Python's `time.sleep` fail with "invalid argument"."""


def plan_of(scenario: Scenario | None, *, clients: Sequence[str], seed: int) -> FaultPlan:
    """The faults of a run; none without a scenario.

    Errors: ConfigError for a client that the run does not have, and for faults that neither a connection nor a signal
    can carry out, with a reason for each; CapabilityMissing on a system without SIGSTOP.
    """
    if scenario is None:
        return EMPTY_PLAN
    plan = draw_plan(scenario, draw_scenario(scenario, seed), seed)
    problems = []
    for fault in plan.faults:
        unknown = [name for name in fault.nodes if name not in clients]
        reason = f"names client {unknown[0]}; this run has {', '.join(clients)}" if unknown else _impossible(fault)
        if reason:
            problems.append(f"{fault.id} ({fault.kind}) {reason}")
    if scenario.has_unreliable_network:
        problems.append("the network of the scenario loses messages by chance; write faults instead")
    if problems:
        raise ConfigError(f"the plan {scenario.name!r} does not fit a program on the wire: {'; '.join(problems)}")
    if not hasattr(signal, "SIGSTOP"):
        raise CapabilityMissing("processes cannot be stopped on this system (SIGSTOP)")
    return plan


def _impossible(fault: Fault) -> str:
    """Why the fault cannot be done to a program from outside; "" if it can."""
    if isinstance(fault, Offset):
        is_plain = fault.at_ns == 0 and fault.for_ns is None
        return "" if is_plain else "sets a clock during the run; a program's clock can be wrong from its start only"
    if needs_operator(fault):
        return "changes the store past the endpoints, so the record of requests would be incomplete"
    why = fault.obstacle()
    return f"cannot be done: {why}" if why else ""


def carried_out(plan: FaultPlan) -> FaultPlan:
    """The plan without what its programs are started with."""
    return plan.without([fault.id for fault in plan.faults if isinstance(fault, Offset)])


def clock_offsets_ns(plan: FaultPlan) -> dict[str, int]:
    """By client, by how much its clock is set apart."""
    return {fault.client: fault.by_ns for fault in plan.faults if isinstance(fault, Offset)}


def clock_environment(offset_ns: int) -> dict[str, str]:
    """The environment that sets a program's wall clock apart by libfaketime.

    It works on programs that ask the C library for the time. libfaketime is built on first use; `LOCKREF_FAKETIME`
    names another build of it.
    Errors: BackendUnavailable if it cannot be had.
    """
    if not offset_ns:
        return {}
    return {
        "LD_PRELOAD": os.environ.get("LOCKREF_FAKETIME") or str(_faketime()),
        "FAKETIME": f"{offset_ns / NS_PER_S:+.6f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


def _faketime() -> Path:
    interpreter = find_python(FAKETIME_PACKAGES.python_min)
    if interpreter is None:
        raise BackendUnavailable(
            "the plan sets clocks apart, which needs libfaketime, and there is no Python 3.11 for it"
        )
    folder = ensure_environment(FAKETIME, FAKETIME_PACKAGES, interpreter).parent
    found = sorted(folder.glob("lib/python*/site-packages/libfaketime/vendor/libfaketime/src/libfaketime.so.1"))
    if not found:
        raise BackendUnavailable(
            f"libfaketime has no library for this machine in {folder}; name one in LOCKREF_FAKETIME"
        )
    return found[0]
