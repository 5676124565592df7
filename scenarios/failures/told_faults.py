"""The faults of a plan in words, for explanations: each as it was and was planned, and whether it changed anything."""

from __future__ import annotations

from collections.abc import Mapping

from reports.explanation.explanation import ToldFault
from sim.faults.description import describe, happened
from sim.faults.fault import Fault
from sim.faults.plan import FaultPlan


def told_faults(
    plan: FaultPlan, planned: Mapping[str, Fault], counts: Mapping[str, tuple[int, int, int]]
) -> tuple[ToldFault, ...]:
    """The faults of `plan` in its order.

    planned: by id, the same faults before they were shrunk. counts: by id, how often each was armed, fired, mattered.
    """
    return tuple(
        ToldFault(
            id=fault.id,
            kind=fault.kind,
            target=fault.target,
            text=describe(fault, planned.get(fault.id)),
            happened=happened(fault, planned.get(fault.id)),
            mattered=counts[fault.id][2] if fault.id in counts else None,
        )
        for fault in plan.faults
    )
