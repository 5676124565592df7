"""Which requests each fault of a plan struck, and how each of these requests ended, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

from scenarios.injection.unstruck import why_never_struck
from sim.faults.fault import Fault, InFlight, RequestFault
from sim.faults.plan import FaultPlan

TOLD_MAX: Final = 3
"""Requests that are told of each fault; the others are counted."""

_NEVER: Final = 0, 0, 0


def idle_faults(faults: Sequence[Fault], counts: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """The ids of the faults that changed nothing, though another fault of their kind did.

    `fault:KIND` in the runs table asks for one fault of each kind, so a second one of the kind may stay away unseen. A
    fault with a probability below 1 may stay away by its own words. counts: as for `Strikes.told`.
    """
    at_work = {fault.kind for fault in faults if counts.get(fault.id, _NEVER)[2]}
    return [
        fault.id
        for fault in faults
        if fault.kind in at_work
        and fault.id in counts
        and not counts[fault.id][2]
        and not (isinstance(fault, RequestFault) and fault.probability < 1)
    ]


@final
class Strikes:
    """The strikes of each fault on requests, in order."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = {}

    def note(self, in_flight: InFlight, outcome: str) -> None:
        """Note a request that has ended. outcome: how it ended."""
        struck = [armed.fault.id for armed in in_flight.struck.values()]
        for fault_id in dict.fromkeys([*struck, *in_flight.set_off]):
            request = in_flight.request
            what = " ".join(filter(None, (in_flight.client, in_flight.op, request.verb, request.key)))
            self._told.setdefault(fault_id, []).append(f"{what}: {outcome}")

    def told(self, plan: FaultPlan, counts: Mapping[str, tuple[int, int, int]]) -> Iterator[str]:
        """A sentence for each fault of the plan: the requests that it struck, or why it struck none.

        counts: by fault id, how often it was armed, fired and mattered.
        """
        for fault in plan.faults:
            armed, fired, mattered = counts[fault.id]
            name = fault.id if fault.id.startswith(fault.kind) else f"{fault.id} ({fault.kind})"
            if not fired:
                yield f"{name} never struck: {why_never_struck(fault, armed, heal_ns=plan.heal_ns)}"
                continue
            requests = self._told.get(fault.id, [])
            what = f": {'; '.join(requests[:TOLD_MAX])}" if requests else ""
            more = f" and {len(requests) - TOLD_MAX} more" if len(requests) > TOLD_MAX else ""
            idle = max(0, fired - mattered)
            nothing = f", {idle} of them without changing anything" if idle else ""
            if not mattered:
                nothing = ", which changed nothing"
            yield f"{name} struck {fired}×{nothing}{what}{more}"
