"""Faults of the machine behind a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lockref.provider import DEFAULT_STORE
from sim.faults.fault import ArmedFault, Fault, StateFault
from sim.faults.quantities import Duration, ServiceName

if TYPE_CHECKING:
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import Surroundings


class ServerFault(StateFault):
    """A fault of the machine behind a service."""

    if TYPE_CHECKING:
        service: str

    @property
    def target(self) -> str:
        return self.service

    def obstacle(self) -> str:
        return "" if self.service == DEFAULT_STORE else "only the store's server has a process of its own"


class FreezeService(ServerFault):
    """The service stands still for `for`; what arrives meanwhile is done when it goes on (S7).

    Its clients may have given up by then: their requests are applied all the same.
    """

    kind: Literal["freeze_service"] = "freeze_service"
    service: ServiceName = DEFAULT_STORE
    for_ns: Duration

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        for_ns = armed.clipped(self.for_ns)
        armed.end_after(for_ns)
        around.service(self.service).freeze(for_ns, armed.has_mattered)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {
            "service": drawing.rng.choice(drawing.shape.services),
            "at_ns": drawing.instant(),
            "for_ns": drawing.length(),
        }

    def happened(self) -> str:
        return f"the {self.service} stood still for {self.for_ns} ns"


class CrashService(ServerFault):
    """The server of a service is killed, and started again `restart_after` later with what it had on disk.

    Until then every connection to it is refused. A simulated service has all that it applied on disk.
    """

    kind: Literal["crash_service"] = "crash_service"
    service: ServiceName = DEFAULT_STORE
    restart_after_ns: Duration

    @property
    def length_ns(self) -> int:
        return self.restart_after_ns

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        for_ns = armed.clipped(self.restart_after_ns)
        armed.end_after(for_ns)
        around.service(self.service).crash(for_ns, armed.has_mattered)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {
            "service": drawing.rng.choice(drawing.shape.services),
            "at_ns": drawing.instant(),
            "restart_after_ns": drawing.length(),
        }

    def happened(self) -> str:
        return f"the server of the {self.service} was killed and started again {self.restart_after_ns} ns later"
