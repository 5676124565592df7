"""Faults of a service's state: the service lies about it, or an operator changes it from outside.

They know no service: an old state is asked of `past`, and an operator's hands
are `tamper`, which every service has in its own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sim.faults.fault import ArmedFault, Fault, InFlight, RequestFault, StateFault
from sim.faults.operations import WRITE_OPS, RequestOp
from sim.faults.quantities import Body, Duration, ServiceName

if TYPE_CHECKING:
    from lockref.ports import Reply, Request
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import Surroundings


STORES_ARE_HONEST = "a real store does not lie on demand"
"""Why no real run has faults of a store that lies."""


class StaleRead(RequestFault):
    """A read is answered with the state of `lag` ago (A8)."""

    never_real: ClassVar[str] = STORES_ARE_HONEST

    kind: Literal["stale_read"] = "stale_read"
    rank: ClassVar[int] = 50
    only_op: ClassVar[RequestOp | None] = "read"
    lag_ns: Duration

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        in_flight.stale_ns = self.lag_ns

    def on_applied(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> None:
        present = in_flight.hosted.past(in_flight.request.key)
        armed.fire(has_mattered=reply.version != present.version)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(("read",)), "service": "store", "lag_ns": drawing.length()}

    def happened(self) -> str:
        return f"{self.struck} showed the state of {self.lag_ns} ns before"


class IgnoreConditions(RequestFault):
    """The store writes although the condition fails (U13, M16)."""

    never_real: ClassVar[str] = STORES_ARE_HONEST

    kind: Literal["ignore_conditions"] = "ignore_conditions"
    rank: ClassVar[int] = 90

    def overrules(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> Request | None:
        if reply.missing and in_flight.op == "delete":
            # Nothing is there to delete: no condition stands in the way.
            return None
        armed.fire(has_mattered=True)
        return in_flight.request._replace(condition="")

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(WRITE_OPS), "service": "store"}

    def happened(self) -> str:
        return f"the store ignored the condition of {self.struck}"


class ObjectFault(StateFault):
    """An operator changes objects from outside; key None: every lock record."""

    key: str | None = None
    service: ServiceName = "store"

    @property
    def target(self) -> str:
        return self.service

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {"at_ns": drawing.instant()}

    def tamper(
        self,
        armed: ArmedFault[Fault],
        around: Surroundings,
        act: str,
        *,
        body: bytes | None = None,
        attribute: str = "",
    ) -> None:
        """Let the service do `act`; the fault matters once for each object that it changed."""
        for _ in range(around.service(self.service).tamper(act, self.key, body=body, attribute=attribute)):
            armed.has_mattered()

    @property
    def whats(self) -> str:
        """The objects that it changes, in words."""
        return "the record of the lock" if self.key is None else f"the object {self.key}"


class DeleteObject(ObjectFault):
    """An operator or a lifecycle rule deletes the object `key`, or every lock record (U9, E23, E24)."""

    kind: Literal["delete_object"] = "delete_object"

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        self.tamper(armed, around, "delete")

    def happened(self) -> str:
        return f"an operator deleted {self.whats}"


class ExpireItems(ObjectFault):
    """A table's time-to-live removes items whose `attribute` is a number of epoch seconds that has passed (B5, W18).

    DynamoDB does so at any time within two days, so the plan says when. Text is no such number: it never expires.
    """

    never_real: ClassVar[str] = "a table's time to live acts when it likes"

    kind: Literal["expire_items"] = "expire_items"
    attribute: str = "leaseDuration"

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        self.tamper(armed, around, "expire", attribute=self.attribute)

    def happened(self) -> str:
        return f"the time to live of the table removed {self.whats}"


class CorruptObject(ObjectFault):
    """An operator overwrites the object `key`, or every lock record, with `body` (D6, E25).

    In a file `body` is text, or a list of which a seed chooses one, and `charset` (utf-8, latin-1) makes bytes of it.
    """

    kind: Literal["corrupt_object"] = "corrupt_object"
    body: Body = b"{"

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        self.tamper(armed, around, "put", body=self.body)

    def happened(self) -> str:
        return f"an operator overwrote {self.whats}"
