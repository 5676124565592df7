"""The reason why a fault of a plan never struck: one that did nothing must not pass for one that was withstood."""

from __future__ import annotations

from collections.abc import Iterator

from lockref.durations import plain_duration
from lockref.words import counted
from sim.faults.fault import Fault, RequestFault, Trigger


def why_never_struck(fault: Fault, armed: int, *, heal_ns: int | None) -> str:
    """The reason. armed: how often the fault was armed. heal_ns: of its plan, from when on nothing strikes any more."""
    matching = _filter(fault, heal_ns)
    if fault.when is not None and armed:
        which = "that was applied" if fault.when.applied else f"number {fault.when.nth}"
        # A fault that changes the world strikes whenever its request comes; one on requests may find it struck already.
        spent = ", or another fault struck that one first" if isinstance(fault, RequestFault) else ""
        return f"{counted(armed, 'request')} matched it, and none was the one {which}{spent} ({matching})"
    if fault.when is not None:
        return f"no request of this run matched it ({matching})"
    if not isinstance(fault, RequestFault):
        if heal_ns is not None and fault.at_ns is not None and fault.at_ns >= heal_ns:
            return f"its plan heals everything at {plain_duration(heal_ns)}, and it was to begin at that time or later"
        return "the run ended before"
    if armed:
        if fault.probability < 1:
            return f"it could have struck {armed}×, and its probability of {fault.probability:g} never did"
        return f"{counted(armed, 'request')} matched it, and another fault struck first or none got to where it acts"
    if fault.nth in (None, 1):
        return f"no request of this run matched it ({matching})"
    return f"fewer than {fault.nth} requests of this run matched it ({matching})"


def _filter(fault: Fault, heal_ns: int | None) -> str:
    """The request that the fault waits for, as the plan says it."""
    said = fault if fault.when is None else fault.when
    told = [f"{name} {value}" for name in ("client", "service", "op", "nth") if (value := getattr(said, name, None))]
    return ", ".join([*told, *_span(said, heal_ns)]) or "any request"


def _span(said: Fault | Trigger, heal_ns: int | None) -> Iterator[str]:
    """From when on a request counts, and until when; nothing for the whole run."""
    if isinstance(said, Trigger):
        begin_ns, end_ns = said.after_ns, said.before_ns
    else:
        begin_ns = said.at_ns
        end_ns = (
            None if said.length_ns is None or not isinstance(said, RequestFault) else (begin_ns or 0) + said.length_ns
        )
    if begin_ns:
        yield f"from {plain_duration(begin_ns)} on"
    if heal_ns is not None and (end_ns is None or heal_ns < end_ns):
        yield f"before everything heals at {plain_duration(heal_ns)}"
    elif end_ns is not None:
        yield f"before {plain_duration(end_ns)}"
