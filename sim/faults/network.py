"""Faults of the network between nodes and services."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from lockref.words import Outcome
from sim.faults.fault import ArmedFault, Fault, InFlight, Interference, RequestFault, StateFault, Treatment
from sim.faults.operations import CHANGING_OPS
from sim.faults.quantities import Duration, Groups

if TYPE_CHECKING:
    from lockref.ports import Reply
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import Surroundings


class Partition(StateFault):
    """Groups that cannot reach each other for `for`; services are members by name, like clients.

    one_way: only messages from the first group to the others are lost. A message is cut when it departs; what is in
    flight still lands.
    """

    kind: Literal["partition"] = "partition"
    groups: Groups
    for_ns: Duration
    one_way: bool = False

    @model_validator(mode="after")
    def _groups_are_apart(self) -> Partition:
        names = [name for group in self.groups for name in group]
        if len(names) != len(set(names)):
            raise ValueError("groups share a member; each name belongs to one group")
        return self

    @property
    def target(self) -> str:
        return self.groups[0][0] if self.groups[0] else ""

    def stops(self, source: str, destination: str) -> bool:
        """True if it lets no message from `source` to `destination` depart."""
        from_group = next((i for i, group in enumerate(self.groups) if source in group), None)
        to_group = next((i for i, group in enumerate(self.groups) if destination in group), None)
        if from_group is None or to_group is None or from_group == to_group:
            return False
        return not (self.one_way and from_group != 0)

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        def barrier(source: str, destination: str) -> bool:
            if not self.stops(source, destination):
                return False
            armed.has_mattered()
            return True

        around.barriers.append(barrier)
        armed.end_after(armed.clipped(self.for_ns), lambda: around.barriers.remove(barrier))

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        rng, shape = drawing.rng, drawing.shape
        client = drawing.client()
        services = shape.services if rng.random() < 0.5 else (rng.choice(shape.services),)
        groups: tuple[tuple[str, ...], ...] = ((client,), services)
        if rng.random() < 0.5:
            groups = (groups[1], groups[0])
        return {
            "groups": groups,
            "for_ns": drawing.length(),
            "one_way": rng.random() < 0.5,
            **drawing.beginning(client),
        }

    def forms(self) -> list[str]:
        return [f"{self.kind} {'one way' if self.one_way else 'both ways'}"]

    def happened(self) -> str:
        first, *others = (" and ".join(group) for group in self.groups)
        if self.one_way:
            return f"messages from {first} to {' and '.join(others)} were lost for {self.for_ns} ns"
        return f"{first} was cut off from {' and '.join(others)} for {self.for_ns} ns"


class Delay(RequestFault):
    """The request, or with `direction: reply` its answer, takes longer by `by`."""

    kind: Literal["delay"] = "delay"
    rank: ClassVar[int] = 10
    by_ns: Duration
    direction: Literal["request", "reply"] = "request"

    @property
    def is_late(self) -> bool:
        return self.direction == "reply"

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(has_mattered=self.by_ns > 0, lasts_ns=self.by_ns)
        if self.direction == "request":
            in_flight.to_service_ns += self.by_ns
        else:
            in_flight.to_client_ns += self.by_ns

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {
            **drawing.filter(),
            "by_ns": drawing.length(),
            "direction": drawing.rng.choice(("request", "reply")),
        }

    def forms(self) -> list[str]:
        return [f"{self.kind} of the {self.direction}"]

    def interference(self) -> Interference:
        if self.direction == "request":
            return Interference(request_ns=self.by_ns)
        return Interference(reply_ns=self.by_ns)

    def happened(self) -> str:
        held = self.struck if self.direction == "request" else f"the answer to {self.struck}"
        return f"{held} took {self.by_ns} ns longer"


class Drip(RequestFault):
    """The answer comes in pieces that are spread over `over`: never silent, and whole only then.

    A client that bounds each wait and not the whole request waits for all of it. In the simulation its clients bound
    the whole, so that it is an answer that takes longer.
    """

    kind: Literal["drip"] = "drip"
    rank: ClassVar[int] = 15
    over_ns: Duration

    @property
    def is_late(self) -> bool:
        return True

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(has_mattered=self.over_ns > 0, lasts_ns=self.over_ns)
        in_flight.to_client_ns += self.over_ns
        in_flight.drip_ns = self.over_ns

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(), "over_ns": drawing.length()}

    def happened(self) -> str:
        return f"the answer to {self.struck} came in pieces over {self.over_ns} ns"


class Duplicate(RequestFault):
    """The request arrives again `gap` later; nobody hears the second answer."""

    kind: Literal["duplicate"] = "duplicate"
    rank: ClassVar[int] = 30
    # A second delivery of a write on its condition changes nothing; that is what conditions are for.
    is_op_a_form: ClassVar[bool] = False
    gap_ns: Duration = 1_000_000

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(lasts_ns=self.gap_ns)
        in_flight.resend_ns = self.gap_ns

    def on_duplicate(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> None:
        if has_landed(reply):
            armed.has_mattered()

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(), "gap_ns": drawing.length()}

    def happened(self) -> str:
        return f"{self.struck} arrived again {self.gap_ns} ns later"


class LoseRequest(RequestFault):
    """The request never arrives (c1); the caller sees a timeout (E15)."""

    kind: Literal["lose_request"] = "lose_request"
    rank: ClassVar[int] = 60

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        armed.fire(has_mattered=not in_flight.is_request_lost)
        in_flight.is_request_lost = True

    def interference(self) -> Interference:
        return Interference(request=Treatment.HOLD)

    def happened(self) -> str:
        return f"{self.struck} never arrived"


class LoseReply(RequestFault):
    """The request is applied and its answer lost (c3); the caller sees a timeout (E11 to E14)."""

    kind: Literal["lose_reply"] = "lose_reply"
    rank: ClassVar[int] = 70

    @property
    def is_late(self) -> bool:
        return True

    def loses_reply(self, armed: ArmedFault[Fault], in_flight: InFlight) -> bool:
        armed.fire(has_mattered=hides_something(in_flight))
        return True

    def interference(self) -> Interference:
        return Interference(reply=Treatment.HOLD)

    def happened(self) -> str:
        return f"the answer to {self.struck} was lost"


class ReorderReplies(RequestFault):
    """The answers on one connection overtake each other: those that leave within `within` arrive last one first.

    A connection is that of one process to one service, as HTTP/2 shares it between threads. The first answer opens the
    span; whatever leaves in it waits until it is over, at most twice as long.
    """

    kind: Literal["reorder_replies"] = "reorder_replies"
    rank: ClassVar[int] = 65
    # A process seldom has two requests of one kind under way at once, so one kind alone has nobody to overtake.
    is_op_a_form: ClassVar[bool] = False
    within_ns: Duration

    @property
    def is_late(self) -> bool:
        return True

    def loses_reply(self, armed: ArmedFault[Fault], in_flight: InFlight) -> bool:
        link = armed.notes(_Connections).setdefault(
            (in_flight.process.number, in_flight.service), _Answers(armed.now_ns)
        )
        if armed.now_ns >= link.begin_ns + self.within_ns:
            link.begin_ns = armed.now_ns
        left_ns = link.begin_ns + self.within_ns - armed.now_ns
        assert 0 <= left_ns <= self.within_ns, "an answer left outside of the span that it opened"
        # The arrival is the departure, mirrored at the end of the span. So what leaves last arrives first, and nothing
        # arrives before it left. What another fault has added to the way back stays added.
        delayed_ns = in_flight.to_client_ns - in_flight.usual_to_client_ns
        assert delayed_ns >= 0, "a fault never hurries an answer"
        in_flight.to_client_ns = 2 * left_ns + delayed_ns
        link.left = [other for other in link.left if not other.is_over]
        link.left.append(in_flight)
        armed.fire(lasts_ns=in_flight.to_client_ns)
        return False

    def on_delivered(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        left = armed.notes(_Connections)[in_flight.process.number, in_flight.service].left
        if any(not other.is_over for other in left[: left.index(in_flight)]):
            armed.has_mattered()

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {**drawing.filter(), "within_ns": drawing.length()}

    def happened(self) -> str:
        return f"answers to {self.target or 'clients'} overtook each other within {self.within_ns} ns"


@dataclass(slots=True)
class _Answers:
    """The answers on one connection. begin_ns: when the present span began. left: those on their way, in order."""

    begin_ns: int
    left: list[InFlight] = field(default_factory=list)


class _Connections(dict[tuple[int, str], _Answers]):
    """By number of the process and name of the service."""


def hides_something(in_flight: InFlight) -> bool:
    """True if a caller that does not hear the answer misses what the request did.

    A caller that has gone on misses nothing. The answer to a refused write hides no write: the fault that was planned
    is one of a write that took effect.
    """
    return not in_flight.is_over and (in_flight.is_applied or in_flight.op not in CHANGING_OPS)


def has_landed(reply: Reply) -> bool:
    """True unless the service says that nothing was changed."""
    return reply.outcome is Outcome.APPLIED
