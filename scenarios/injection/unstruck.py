"""The reason why a fault of a plan never struck: one that did nothing must not pass for one that was withstood."""

from __future__ import annotations

from lockref.words import counted
from sim.faults.fault import Fault, RequestFault


def why_never_struck(fault: Fault, armed: int) -> str:
    """The reason. armed: how often the fault was armed."""
    if fault.when is not None:
        if not armed:
            return f"no request of this run matched it ({_filter(fault)})"
        which = "that was applied" if fault.when.applied else f"number {fault.when.nth}"
        return f"{counted(armed, 'request')} matched it, and none was the one {which} ({_filter(fault)})"
    if not isinstance(fault, RequestFault):
        return "the run ended before"
    if armed:
        return f"it could have struck {armed}×, and its probability of {fault.probability:g} never did"
    if fault.nth in (None, 1):
        return f"no request of this run matched it ({_filter(fault)})"
    return f"fewer than {fault.nth} requests of this run matched it ({_filter(fault)})"


def _filter(fault: Fault) -> str:
    """The request that the fault waits for, as the plan says it."""
    said = fault if fault.when is None else fault.when
    told = [f"{name} {value}" for name in ("client", "service", "op", "nth") if (value := getattr(said, name, None))]
    return ", ".join(told) or "any request"
