"""A made-up fault: an operator truncates the made-up service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.faults.fault import ArmedFault, Fault, StateFault
from sim.faults.quantities import ServiceName

if TYPE_CHECKING:
    from sim.faults.surroundings import Surroundings


class Truncate(StateFault):
    """An operator removes every lock from a service with revisions."""

    kind: Literal["truncate"] = "truncate"
    service: ServiceName = "store"

    @property
    def target(self) -> str:
        return self.service

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        if around.service(self.service).tamper("truncate"):
            armed.has_mattered()

    def obstacle(self) -> str:
        return "no real server of this kind has an operator"
