"""The way of one request past its five cut points, in every world.

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

All services use it, so a fault of the network or of a process means the same
for each of them. The journey knows requests and replies, and no service. The
service decides what a request does. The journey decides whether and when the
request is applied, and whether the client hears of it.

The journey is a state machine without time and without input or output, as h11
is one of HTTP: it asks the faults at each cut point, in one order, and says
which step comes next. Two drivers carry the steps out: `sim.wire` in virtual
time on the kernel, and `scenarios.injection.carriage` in real time on an event
loop, for real servers and for the endpoints of any program. Rejected: an order
of its own for each driver. The two orders drifted apart: after a retry inside
the SDK, one driver let the client hear the refusal of the first sending, the
other one the answer to the second sending. Rejected: a generator of steps. What
it is sent has no type of its own for each step, and a request took a fifth more
of the wire's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, Never, Protocol, TypeVar

from lockref.words import Op

if TYPE_CHECKING:
    from lockref.ports import Reply, Request
    from sim.machine.network import Draw

OP_NAMES: Final = tuple(op.name.lower() for op in Op)
"""What fault filters call each operation, by its number."""

RELEASE: Final = OP_NAMES[Op.RELEASE]

N = TypeVar("N")

Refusal = tuple[int | None, str]
"""An HTTP status (None: no answer, such as a reset) and a reason for people."""


class Named(Protocol):
    """A client's node, as far as a request knows it."""

    @property
    def name(self) -> str: ...


class Sender(Protocol):
    """The process that makes a request. number: unique among the processes of the run."""

    @property
    def number(self) -> int: ...

    @property
    def node(self) -> Named: ...


class Receiver(Protocol):
    """The service that a request goes to."""

    @property
    def name(self) -> str: ...

    def past(self, key: str, lag_ns: int = 0) -> Reply:
        """The reply that a read of `key` would have had `lag_ns` ago."""
        ...


def plan_op(request: Request) -> str:
    """The operation of a request, as plans name it."""
    return OP_NAMES[request.serves or request.op]


class Faults(Protocol[N]):
    """The questions of a journey at its cut points (`sim.faults.injector` answers them)."""

    def at_c1(self, request: Journey[N], /) -> Refusal | None:
        """The request has arrived. A refusal, if it shall not be applied."""
        ...

    def at_c2(self, request: Journey[N], reply: Reply, /) -> Refusal | None:
        """The request was applied. A refusal, if the client shall hear that instead of the truth."""
        ...

    def on_retried(self, request: Journey[N], first: Reply, second: Reply, /) -> None:
        """The SDK has sent the request again by itself, and the service has applied the second sending, too."""
        ...

    def on_duplicate(self, request: Journey[N], reply: Reply, /) -> None:
        """The service has applied the copy that the network made of the request."""
        ...

    def is_reply_lost(self, request: Journey[N], /) -> bool:
        """The reply is about to leave. True if it gets lost."""
        ...

    def at_c3(self, request: Journey[N], /) -> None:
        """The reply has left, or was lost on leaving."""
        ...


class Step(Enum):
    """One step of the driver, and the question that it then asks the journey."""

    APPLY = "apply"  # Let the service act on the request now; then `applied`.
    REPEAT = "repeat"  # The client's SDK sends the request again, `retry_after_ns` from now; then `arrives`.
    ANSWER = "answer"  # `refusal`, or else the last reply, leaves, and takes `to_client_ns`; then `left`.
    LOSE = "lose"  # The reply is lost, and the client hears nothing; then `left`.


# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
APPLY: Final = Step.APPLY
REPEAT: Final = Step.REPEAT
ANSWER: Final = Step.ANSWER
LOSE: Final = Step.LOSE


class Journey(Generic[N]):
    """One request under way between a process and a service, and the steps of its way.

    A journey begins where the request leaves, with `is_request_lost`, `to_service_ns` and `resend_ns` as the network
    drew them and as faults changed them. A request that is not lost arrives after `to_service_ns`, and the copy that
    the network made of it `resend_ns` later. c0 and c4 are the client's: they lie before and after.

    op: the operation, by its name in fault filters. ops: every name by which a filter lets the request pass; None
    stands for a filter without an operation. A deletion that gives a lock back is a delete and a release.
    draw: what the network does to the request; faults change the fields that are set from it.
    refusal: what the client hears in place of the last reply.
    is_over: the caller has the reply, or has gone on without one.
    N: what the injector notes of each kind of fault that strikes.
    """

    __slots__ = (
        "_first", "client", "drip_ns", "hosted", "is_applied", "is_over", "is_reply_lost", "is_request_lost", "op",
        "ops", "ordinals", "ordinals_as_release", "process", "refusal", "request", "resend_ns", "retry_after_ns",
        "service", "set_off", "stale_ns", "struck", "to_client_ns", "to_service_ns", "usual_to_client_ns",
    )  # fmt: skip

    def __init__(self, process: Sender, hosted: Receiver, request: Request, draw: Draw) -> None:
        self.process = process
        self.client = process.node.name
        self.hosted = hosted
        self.service = hosted.name
        self.request = request
        _, _, _, _, _, _, op, _, _, gives_back, serves = request
        self.op = OP_NAMES[serves or op]
        self.ops = (None, self.op, RELEASE) if gives_back else (None, self.op)
        self.is_over = False
        self.to_service_ns, self.to_client_ns, self.is_request_lost, self.is_reply_lost, self.resend_ns = draw
        # The way back as the network drew it. A fault that computes the way back anew subtracts this from the present
        # one, and so keeps the delays that other faults have added.
        self.usual_to_client_ns = self.to_client_ns
        # The injector's notes: the request's place in its client's life, and the faults that strike it, by kind.
        self.ordinals = (0, 0, 0, 0)
        self.ordinals_as_release = (0, 0)
        self.struck: Mapping[str, N] = _NOTHING
        # The ids of the faults that waited for this request, and whether the service has applied it.
        self.set_off: tuple[str, ...] = ()
        self.is_applied = False
        self.stale_ns = 0
        # For so long at the end of the way back the reply comes in pieces. Only a real connection has pieces.
        self.drip_ns = 0
        self.retry_after_ns: int | None = None
        self.refusal: Refusal | None = None
        # The reply to the first sending, once the SDK has sent the request again.
        self._first: Reply | None = None

    # The steps. faults: None in a world without any.

    def arrives(self, faults: Faults[N] | None, refusal: Refusal | None = None) -> Step:
        """c1: the request is at its service. refusal: what the client hears because no server listens there."""
        # The faults are asked about the first sending. What strikes the second one is the driver's network alone.
        if refusal is None and faults is not None and self._first is None:
            refusal = faults.at_c1(self)
        if refusal is None:
            return APPLY
        return self._answer(faults, refusal)

    def applied(self, faults: Faults[N] | None, reply: Reply) -> Step:
        """c2: the service has acted on the request, and this is its reply."""
        if faults is None:
            return self._answer(None, None)
        if self._first is not None:
            faults.on_retried(self, self._first, reply)
            return self._answer(faults, None)
        refusal = faults.at_c2(self, reply)
        if self.retry_after_ns is None:
            return self._answer(faults, refusal)
        # The client's SDK hears nothing of the first sending, not even a refusal, and sends the request again by
        # itself. The client hears the answer to the second sending only (A2).
        self._first = reply
        return REPEAT

    def _answer(self, faults: Faults[N] | None, refusal: Refusal | None) -> Step:
        """The reply is about to leave."""
        self.refusal = refusal
        if faults is not None and not self.is_reply_lost:
            self.is_reply_lost = faults.is_reply_lost(self)
        return LOSE if self.is_reply_lost else ANSWER

    def left(self, faults: Faults[N] | None) -> None:
        """c3: the reply has left, or was lost on leaving. The journey is over."""
        if faults is not None:
            faults.at_c3(self)

    def copy_applied(self, faults: Faults[N] | None, reply: Reply) -> None:
        """The service has acted on the copy that the network made of the request. Nobody waits for this reply."""
        if faults is not None:
            faults.on_duplicate(self, reply)


_NOTHING: Final[Mapping[str, Never]] = MappingProxyType({})
"""What strikes a request in a world without faults: one for all, since most requests meet none."""
