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
other one the answer to the second sending.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from lockref.words import Op

if TYPE_CHECKING:
    from lockref.ports import Reply, Request
    from sim.machine.network import Draw

OP_NAMES: Final = tuple(op.name.lower() for op in Op)
"""What fault filters call each operation, by its number."""

RELEASE: Final = OP_NAMES[Op.RELEASE]

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


class InFlight:
    """One request under way between a process and a service.

    op: the operation, by its name in fault filters. ops: every name by which a filter lets the request pass; None
    stands for a filter without an operation. A deletion that gives a lock back is a delete and a release.
    draw: what the network does to the request; faults change the fields that are set from it.
    is_over: the caller has the reply, or has gone on without one.
    """

    __slots__ = (
        "client", "drip_ns", "hosted", "is_applied", "is_over", "is_reply_lost", "is_request_lost", "op", "ops",
        "ordinals", "ordinals_as_release", "process", "request", "resend_ns", "retry_after_ns", "service", "set_off",
        "stale_ns", "struck", "to_client_ns", "to_service_ns", "usual_to_client_ns",
    )  # fmt: skip

    def __init__(self, process: Sender, hosted: Receiver, request: Request, draw: Draw) -> None:
        self.process = process
        self.client = process.node.name
        self.hosted = hosted
        self.service = hosted.name
        self.request = request
        self.op = plan_op(request)
        self.ops = (None, self.op, RELEASE) if request.gives_back else (None, self.op)
        self.is_over = False
        self.to_service_ns, self.to_client_ns, self.is_request_lost, self.is_reply_lost, self.resend_ns = draw
        # The way back as the network drew it. A fault that computes the way back anew subtracts this from the present
        # one, and so keeps the delays that other faults have added.
        self.usual_to_client_ns = self.to_client_ns
        # The injector's notes: the request's place in its client's life, and the faults that strike it, by kind. The
        # notes have a type of the injector, which this module does not import: faults know requests, not the reverse.
        self.ordinals = (0, 0, 0, 0)
        self.ordinals_as_release = (0, 0)
        self.struck: dict[str, Any] = {}
        # The ids of the faults that waited for this request, and whether the service has applied it.
        self.set_off: tuple[str, ...] = ()
        self.is_applied = False
        self.stale_ns = 0
        # For so long at the end of the way back the reply comes in pieces. Only a real connection has pieces.
        self.drip_ns = 0
        self.retry_after_ns: int | None = None


class Faults(Protocol):
    """What a journey asks at its cut points (`sim.faults.injector`)."""

    def at_c1(self, in_flight: InFlight, /) -> Refusal | None:
        """The request has arrived. A refusal, if it shall not be applied."""
        ...

    def at_c2(self, in_flight: InFlight, reply: Reply, /) -> Refusal | None:
        """The request was applied. A refusal, if the client shall hear that instead of the truth."""
        ...

    def on_retried(self, in_flight: InFlight, first: Reply, second: Reply, /) -> None:
        """The SDK has sent the request again by itself, and the service has applied the second sending, too."""
        ...

    def on_duplicate(self, in_flight: InFlight, reply: Reply, /) -> None:
        """The service has applied the copy that the network made of the request."""
        ...

    def is_reply_lost(self, in_flight: InFlight, /) -> bool:
        """The reply is about to leave. True if it gets lost."""
        ...

    def at_c3(self, in_flight: InFlight, /) -> None:
        """The reply has left, or was lost on leaving."""
        ...


class Reach(NamedTuple):
    """Bring the request to the service, `after_ns` from now.

    The driver answers None, or the refusal that the client hears because no server listens.
    copy_after_ns: a copy follows so much later, on a journey of its own (`copied`); None: no copy.
    """

    after_ns: int
    copy_after_ns: int | None = None


class Back(NamedTuple):
    """The reply leaves, and arrives `after_ns` from now. refusal: what the client hears in place of `reply`.

    drip_ns: for so long at the end of that time the reply comes in pieces. One of `reply` and `refusal` is None.
    """

    after_ns: int
    drip_ns: int
    reply: Reply | None
    refusal: Refusal | None


class Act(Enum):
    """The steps without an amount."""

    APPLY = "apply"  # Let the service act on the request now. The driver answers with its reply.
    LOSE = "lose"  # The reply is lost: the client hears nothing.
    END = "end"  # The journey is over, and is not asked again.


Step = Reach | Back | Act
Journey = Generator[Step, "Reply | Refusal | None", None]
"""Asked for the next step by `send`, with the driver's answer to the last one: None to all but `Reach` and APPLY."""

APPLY: Final = Act.APPLY
LOSE: Final = Act.LOSE
END: Final = Act.END


def journey(in_flight: InFlight, faults: Faults | None) -> Journey:
    """The journey of a request that leaves now, from c1 to c3. faults: None in a world without any.

    c0 and c4 are the client's: they lie before and after, on its side of the network.
    """
    if in_flight.is_request_lost:
        yield END
    refusal: Any = yield Reach(in_flight.to_service_ns, in_flight.resend_ns)
    reply: Any = None
    if refusal is None and faults is not None:
        refusal = faults.at_c1(in_flight)
    if refusal is None:
        reply = yield APPLY
        if faults is not None:
            refusal = faults.at_c2(in_flight, reply)
            if in_flight.retry_after_ns is not None:
                # The client's SDK hears nothing of the first sending, not even a refusal, and sends the request again
                # by itself. The client hears the answer to the second sending only (A2).
                first = reply
                refusal = yield Reach(in_flight.retry_after_ns)
                if refusal is None:
                    reply = yield APPLY
                    faults.on_retried(in_flight, first, reply)
    if faults is not None and not in_flight.is_reply_lost:
        in_flight.is_reply_lost = faults.is_reply_lost(in_flight)
    if in_flight.is_reply_lost:
        yield LOSE
    else:
        yield Back(in_flight.to_client_ns, in_flight.drip_ns, reply if refusal is None else None, refusal)
    if faults is not None:
        faults.at_c3(in_flight)
    yield END


def copied(in_flight: InFlight, faults: Faults | None, after_ns: int) -> Journey:
    """The journey of the copy that the network made of a request: it is applied, and nobody waits for its answer."""
    refusal = yield Reach(after_ns)
    if refusal is None:
        reply: Any = yield APPLY
        if faults is not None:
            faults.on_duplicate(in_flight, reply)
    yield END
