"""Faults: plain data with hooks, of one of two families.

*State faults* change the world at one instant: a pause, a crash, a partition,
a clock, an object in the store. *Request faults* strike requests that pass a
filter: lost, delayed, answered wrongly. Either begins at `at_ns` (true time)
or at a trigger, `when`: the n-th request of one kind by one client at one of
the five cut points

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

so that "pause between PUT applied and reply" (E9) is `cut: c2`, and "pause
between timestamp and PUT" (E10) is `cut: c0`: the lock has computed its record
but the request has not left.

A kind is one class. The class holds the fields of the fault, its act in the
simulated world, its act on a connection to a real server, how a swarm draws it,
and what shrinking may change. The form of the fields in scenario files follows
from their quantities (`quantities`). The first paragraph of the docstring is the
sentence in the guide. A class registers itself by being defined in a module that
`sim.faults.plan` imports. Rejected: one table each for injector, swarm, shrinking
and files, as it was before. A new kind then touched seven files, and nothing
noticed a missing entry.

A fault is data and is shared by all runs of its plan. What a run notes about
it, such as counts, stands in `ArmedFault`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sim.faults.operations import RequestOp
from sim.faults.quantities import (
    Count,
    Duration,
    Instant,
    NodeName,
    Ordinal,
    Probability,
    Quantity,
    ServiceName,
    fields_holding,
)
from sim.journey import Journey

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockref.ports import Reply, Request
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import Surroundings
    from sim.journey import Refusal

CUTS = ("c0", "c1", "c2", "c3", "c4")
Cut = Literal["c0", "c1", "c2", "c3", "c4"]

DEFINED: dict[str, type[Fault]] = {}
"""Every kind whose module was imported so far; `sim.faults.plan.FAULT_TYPES` is all of them."""


class Model(BaseModel):
    """Plain data: unknown keys are errors, and nothing changes after it was read."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, ser_json_bytes="base64", val_json_bytes="base64", defer_build=True
    )


class Trigger(Model):
    """A place in a client's life, not an instant: its `nth` request of kind `op` to `service`, at cut point `cut`.

    client: whose request. op: of which kind; left out, any counts.
    nth: the how many-th such request. Counting starts with the run and goes on through restarts.
    cut: where on its way the request is then, from `c0` (not sent) to `c4` (the reply is delivered).
    service: to which service; left out, any counts.
    after, before: only requests that are made in that span of true time are counted at all. Locks renew and look as
    often as they like, so the third renewal is no instant; the first one after 6 s is.
    applied: only requests that the service applied are counted, where they reach the cut, which has to be c2, c3 or
    c4 then: "the first acquire that was granted".
    at_latest: of faults that change the world, the instant of true time at which they strike if the client did not
    get there before. A lock that never renews is paused all the same.
    """

    client: NodeName
    op: RequestOp | None = None
    nth: Ordinal = 1
    cut: Cut = "c0"
    service: ServiceName | None = None
    after_ns: Duration | None = None
    before_ns: Duration | None = None
    applied: bool = False
    at_latest_ns: Instant | None = None

    @model_validator(mode="after")
    def _is_known(self) -> Trigger:
        if self.applied and self.cut in ("c0", "c1"):
            raise ValueError(f"has 'applied', which nobody knows at {self.cut}; expected one of c2, c3, c4 as 'cut'")
        return self

    @property
    def counts_when_made(self) -> bool:
        """True if requests are counted by the instant at which they are made."""
        return self.has_window and not self.applied

    @property
    def has_window(self) -> bool:
        return self.after_ns is not None or self.before_ns is not None

    def is_open(self, now_ns: int) -> bool:
        """True if a request that is made now counts."""
        return (self.after_ns or 0) <= now_ns and (self.before_ns is None or now_ns < self.before_ns)


class Treatment(Enum):
    """The treatment of a request's bytes, or of its reply's, on a real connection."""

    PASS = "pass"
    HOLD = "hold"  # They never arrive; the connection stays open.
    RESET = "reset"  # The connection is reset in their place.


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """A fault's act on one request on a real connection.

    request_ns, reply_ns: how long their bytes wait. answer: an HTTP status that the client gets in place of the reply,
    as from a gateway that gave up; 0 for none.
    """

    request: Treatment = Treatment.PASS
    reply: Treatment = Treatment.PASS
    request_ns: int = 0
    reply_ns: int = 0
    answer: int = 0


class Fault(Model):
    """The base of all faults: a stable id, a kind, and when to begin.

    The kind is the default of the field `kind`; a class without one is a family.
    """

    is_request_fault: ClassVar[bool] = False
    shortens: ClassVar[tuple[Quantity, ...]] = (Quantity.DURATION, Quantity.SHIFT)
    """Which fields shrinking brings closer to 0; those, and instants, are also rounded."""
    never_real: ClassVar[str] = ""
    """Why no real run can carry out any fault of this kind, in words that follow its kind; "" if one can."""

    if TYPE_CHECKING:
        kind: str

    id: Annotated[str, Field(min_length=1, max_length=64)]
    at_ns: Instant | None = None
    when: Trigger | None = None

    @classmethod
    def __pydantic_init_subclass__(cls, **_kwargs: Any) -> None:
        if "kind" in cls.model_fields:
            known = DEFINED.setdefault(cls.kind_name(), cls)
            assert known is cls, f"two classes of faults are called {cls.kind_name()!r}"

    @classmethod
    def kind_name(cls) -> str:
        """The word for it in files and plans."""
        return str(cls.model_fields["kind"].default)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any] | None:
        """The fields that a swarm draws for one fault of this kind; None if the envelope has no room for it.

        The order of the draws is part of every stored seed: it must not change.
        """
        raise NotImplementedError(f"{cls.__name__} does not say how a swarm draws it")

    @property
    def target(self) -> str:
        """The node or service that the fault is about, for messages and FAULT rows."""
        return str(getattr(self, "client", None) or "")

    @property
    def nodes(self) -> list[str]:
        """The nodes that it names, its trigger's included; a partition's members are not checked to be nodes."""
        models: list[Model] = [self] if self.when is None else [self, self.when]
        names = [getattr(model, name) for model in models for name in fields_holding(type(model), Quantity.NODE)]
        return [name for name in names if name is not None]

    @property
    def length_ns(self) -> int | None:
        """The length of the fault once it has begun; None if it has no end or no length."""
        length: int | None = getattr(self, "for_ns", None)
        return length

    def forms(self) -> list[str]:
        """The forms of this fault beside its kind: each form that a swarm draws has to matter in some run."""
        return []

    def happened(self) -> str:
        """The fault as a clause with a verb, its lengths in nanoseconds: `n1 was paused for 31000000000 ns`."""
        about = f" {self.target}" if self.target else ""
        return f"{self.kind.replace('_', ' ')} struck{about}"

    def obstacle(self) -> str:
        """Why no real run can carry this fault out, in words that follow its kind; "" if one can."""
        return self.never_real

    def interference(self) -> Interference | None:
        """The treatment of a request on a real connection; None if the fault cannot be done below HTTP."""
        return None


class StateFault(Fault):
    """Changes the world once, at `at_ns` or at the trigger."""

    begins_with_node: ClassVar[bool] = False
    """True if at instant 0 it has to strike as soon as its node exists, before anything reads the node's state."""

    @model_validator(mode="after")
    def _begins_once(self) -> StateFault:
        if (self.at_ns is None) == (self.when is None):
            raise ValueError("needs exactly one of 'at_ns' and 'when'")
        return self

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        """Change the world. Called from a task that the fault kills, this does not return."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it changes")


class RequestFault(Fault):
    """Strikes requests. With `when`, exactly the one it names; else all that pass the filter.

    client, op, service: None passes any. at_ns: the filter opens then (None:
    from the start); for_ns: and closes after that long (None: never). nth: only
    the n-th request that passes, and `times` - 1 after it. probability: of each
    request that got so far. applied: only requests that the service applied
    pass, and are counted; for faults that strike on the way back (`is_late`).

    Of several faults of one kind, the first in the plan that lets a request
    pass strikes it. Faults of different kinds strike it all, in order of `rank`.
    """

    is_request_fault: ClassVar[bool] = True
    rank: ClassVar[int]
    """The order of kinds that strike one request: the lower one acts first. Part of every stored digest."""
    only_op: ClassVar[RequestOp | None] = None
    """The one kind of request that it can strike; None: any."""
    is_op_a_form: ClassVar[bool] = True
    """False if the kind of a request that it strikes decides whether it can matter at all."""

    client: NodeName | None = None
    op: RequestOp | None = None
    service: ServiceName | None = None
    for_ns: Duration | None = None
    nth: Ordinal | None = None
    times: Count | None = None
    probability: Probability = 1.0
    applied: bool = False

    @model_validator(mode="after")
    def _strikes_in_one_way(self) -> RequestFault:
        if self.when is not None and (
            self.at_ns is not None or self.for_ns is not None or self.nth is not None or self.times is not None
        ):
            raise ValueError("has 'when', which names one request; 'at_ns', 'for_ns', 'nth' and 'times' do not apply")
        if self.when is not None and self.when.at_latest_ns is not None:
            raise ValueError("has 'at_latest', and strikes a request; it is for faults that change the world")
        if self.when is not None and self.applied:
            raise ValueError("has 'when', which names one request; write 'applied' in it")
        if self.asks_whether_applied and not self.is_late:
            raise ValueError(
                "has 'applied', and strikes a request on its way, when nobody knows whether it will be applied"
            )
        return self

    @property
    def asks_whether_applied(self) -> bool:
        """True if only requests that the service applied are meant: whom it strikes is known at c2."""
        return self.applied or (self.when is not None and self.when.applied)

    @property
    def is_late(self) -> bool:
        """True if it acts on the way back only, so that it can ask whether the request was applied."""
        return False

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any] | None:
        return drawing.filter()

    @property
    def target(self) -> str:
        return self.client or (self.when.client if self.when else "")

    @property
    def struck(self) -> str:
        """The requests that it strikes, as one noun: `the renew of n1`, `each request of n1`."""
        op = self.op or (self.when.op if self.when is not None else None) or "request"
        whose = f" of {self.target}" if self.target else ""
        is_one = self.when is not None or self.nth is not None or self.times == 1
        article = (
            "the" if is_one and op != "request" else "a" if is_one else "each" if self.probability == 1.0 else "some"
        )
        return f"{article} {op}{whose}"

    @property
    def is_endless(self) -> bool:
        """True if nothing in the fault itself bounds how long it strikes."""
        return self.when is None and self.for_ns is None and self.nth is None and self.times is None

    # What the fault does to a request that it strikes. `armed` is the fault in this run.

    def on_send(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        """The request leaves. May change how long it and its reply take, and whether they arrive."""

    def on_applied(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> None:
        """The service has applied it for the first time."""

    def refusal(self, armed: ArmedFault[Fault], in_flight: InFlight, cut: Cut) -> Refusal | None:
        """At c1: an answer in place of applying it. At c2: an answer in place of the true one."""
        return None

    def overrules(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> Request | None:
        """The request to apply in the place of one whose condition failed, at the same instant; None lets it fail."""
        return None

    def on_duplicate(self, armed: ArmedFault[Fault], in_flight: InFlight, reply: Reply) -> None:
        """A second delivery of it was applied."""

    def on_retried(self, armed: ArmedFault[Fault], in_flight: InFlight, first: Reply, second: Reply) -> None:
        """A retry inside the SDK was applied; the caller hears the second answer only."""

    def loses_reply(self, armed: ArmedFault[Fault], in_flight: InFlight) -> bool:
        """A reply is about to leave: True if it shall not arrive. May change how long the reply takes."""
        return False

    def on_delivered(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        """Note that the caller has the reply."""


class Counts(Protocol):
    """The counts of a whole plan, as one fault of it needs them (`sim.faults.counts`)."""

    @property
    def now_ns(self) -> int:
        """True time."""
        ...

    def call_at(self, true_ns: int, call: Callable[[], None]) -> None:
        """Let the world call back at an instant."""
        ...

    def clipped(self, at_ns: int, for_ns: int) -> int:
        """A length from `at_ns`, cut short by the healing."""
        ...

    def disturb_until(self, true_ns: int) -> None:
        """Something disturbs the run until then at least."""
        ...

    def record(self, armed: ArmedFault[Fault], phase: str) -> None:
        """Write a FAULT row."""
        ...


F_co = TypeVar("F_co", bound=Fault, covariant=True)
T = TypeVar("T")


class ArmedFault(Generic[F_co]):
    """One fault of the plan in one run, with its counts.

    passed: requests that its filter let through so far. chosen: the request
    that a trigger with a window waits for, once that was made.
    """

    __slots__ = ("_counts", "_notes", "armed", "chosen", "fault", "fired", "kind", "mattered", "passed")

    def __init__(self, fault: F_co, counts: Counts) -> None:
        self.fault = fault
        self.kind = fault.kind
        self.armed = 0
        self.fired = 0
        self.mattered = 0
        self.passed = 0
        self.chosen: object | None = None
        self._notes: object | None = None
        self._counts = counts

    def notes(self, kind: type[T]) -> T:
        """The notes of this kind of fault during the run, in its own type; empty at the first call."""
        if self._notes is None:
            self._notes = kind()
        assert isinstance(self._notes, kind), "one kind of fault keeps one type of notes"
        return self._notes

    @property
    def now_ns(self) -> int:
        """True time."""
        return self._counts.now_ns

    def has_mattered(self) -> None:
        """Did the fault change anything?"""
        assert self.fired, f"fault {self.fault.id!r} mattered before it struck"
        self.mattered += 1

    def fire(self, *, has_mattered: bool = False, lasts_ns: int = 0) -> None:
        """A request fault strikes; its consequences last `lasts_ns` from now."""
        self.fired += 1
        if has_mattered:
            self.mattered += 1
        self._counts.disturb_until(self._counts.now_ns + lasts_ns)
        self._counts.record(self, "fired")

    def begin(self) -> None:
        """A state fault strikes."""
        if self.fault.when is None:
            self.armed += 1
        self.fired += 1
        self._counts.disturb_until(self._counts.now_ns)
        self._counts.record(self, "begin")

    def end_after(self, for_ns: int, undo: Callable[[], object] | None = None) -> None:
        """A state fault that has begun ends `for_ns` from now, by `undo`."""
        counts = self._counts
        end_ns = counts.now_ns + for_ns
        counts.disturb_until(end_ns)

        def end() -> None:
            if undo is not None:
                undo()
            counts.record(self, "end")

        counts.call_at(end_ns, end)

    def clipped(self, for_ns: int) -> int:
        """A length from now, cut short by the healing."""
        return self._counts.clipped(self._counts.now_ns, for_ns)


InFlight = Journey[ArmedFault[RequestFault]]
"""A request under way in a world with faults: it carries those that strike it."""
