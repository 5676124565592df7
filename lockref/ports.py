"""Requests as data: what every service is asked, what it answers, and the way between.

A client of a port (an object store, a table, a protected resource) makes a
`Request` and hands it to a `Channel`, which answers with a `Reply`. Whoever
records, delays, loses or refuses requests does it on a channel, once for all
services. A real SDK stands behind a channel as well as a simulated service
does, so a lock cannot tell them apart.

Maelstrom's services (`service.clj`) have this shape: a service is a function
from a state and a request to a state and a reply. Rejected: one Python method
per request all the way down. Each layer between the lock and the service then
repeats every method of every service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from lockref.words import ABSENT, Op, Outcome

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)

of_fields: Final = tuple.__new__
"""`of_fields(Reply, (…))`: a named tuple of all its fields, in their order, where one is made with every request.

The constructor of a named tuple is a function in Python: to call the class takes twice as long, by names three times.
"""


class Request(NamedTuple):
    """One request, as it goes to a service.

    client: the node that sends it. service: the name of who shall answer.
    verb: what the service shall do, in its own words. key: the object or item.
    condition: "" for none, `words.IF_ABSENT`, a version, or what else this
        service compares before it acts.
    body: bytes that are written; None where there is none. What else a kind of service is told travels in a kind of
        bytes of its own, such as `coordination.port.Call`, so that all between client and service knows bytes only.
    op: READ, WRITE or DELETE, as the client of the port knows it. The recorder
        makes ACQUIRE, RENEW or RELEASE of a WRITE that carries a lock record.
    number: unique in its run, given when the request is recorded; ABSENT before.
    ops: where the body tells of several locks, what the request does to each; given with the number.
    gives_back: a DELETE by which the client gives its own lock back; given with the number. To plans it is a release,
        too.
    serves: ACQUIRE, RENEW or RELEASE of a write, by the call that it serves, where that is not what its record looks
        like; given with the number. Plans go by it. NONE: as `op` says.
    """

    client: str
    service: str
    verb: str
    key: str
    condition: str = ""
    body: bytes | None = None
    op: Op = Op.NONE
    number: int = ABSENT
    ops: tuple[Op, ...] = ()
    gives_back: bool = False
    serves: Op = Op.NONE


class Reply(NamedTuple):
    """The answer to one request.

    outcome: may the request have taken effect? See `lockref.stores.port`.
    version: what an applied write made, or what a read found.
    body: the bytes that a read found, or another answer as bytes; None for nothing. The client of a port reads them.
    missing: the condition failed, or there was nothing to remove, because the object is absent.
    status: the HTTP status; None where no response arrived. reason: for people and logs.
    """

    outcome: Outcome
    version: str | None = None
    body: bytes | None = None
    missing: bool = False
    status: int | None = None
    reason: str = ""


TIMED_OUT = Reply(Outcome.AMBIGUOUS, reason="timeout")
"""No answer came in time: the request may have been applied, or may still be."""


class Channel(Protocol):
    """The way from one client process to one service."""

    @property
    def client(self) -> str:
        """The node at this end."""
        ...

    @property
    def service(self) -> str:
        """The name of the service at the other end."""
        ...

    @property
    def capabilities(self) -> object:
        """The promises of the service, in the type of its port, such as `StoreCapabilities`; None for none.

        The client of the port knows which type that is, and looks.
        """
        ...

    def send(self, request: Request, timeout_ns: int) -> Reply:
        """Send once and wait, at most `timeout_ns` on the client's clock.

        Raises nothing for what a service can answer; `TIMED_OUT` stands for no answer.
        """
        ...

    def close(self) -> None:
        """Give back sockets and threads. Idempotent."""
        ...


class Reconnected(NamedTuple):
    """The message that stands in for lost messages of a push channel: the connection broke, and is made anew."""


@runtime_checkable
class PushChannel(Channel, Protocol):
    """A channel on which the service speaks, too: watch events, the end of a session."""

    def receive(self, timeout_ns: int | None) -> object | None:
        """The next message that the service pushed to this process; None if none came within `timeout_ns`.

        The messages of one service come in the order in which it pushed them. `Reconnected` stands for lost ones,
        where the service is one whose clients keep a connection.
        """
        ...


@runtime_checkable
class PipeliningChannel(Channel, Protocol):
    """A channel that has many requests under way at a time, and whose service takes them in the order of sending."""

    def send_all(self, requests: Sequence[Request], timeout_ns: int) -> list[Reply]:
        """As `send` for each of them, in this order. `timeout_ns` bounds the wait for each next answer; once one did
        not come, those behind it are not waited for.
        """
        ...


@dataclass(frozen=True, slots=True)
class PortKind(Generic[P_co]):
    """A kind of service, such as OBJECT_STORE, and how its client is made.

    name: of the kind, as scenario files know it. over: makes a client that speaks this port over the given channel; the
    number is the time in nanoseconds that each of its requests takes at most.
    """

    name: str
    over: Callable[[Channel, int], P_co]


class OpenPort(Protocol):
    """The way a process opens a service. A world gives it to a lock's context; locks call `LockContext.open`."""

    def __call__(self, kind: PortKind[P], timeout_ns: int, service: str, /) -> P:
        """A client of this kind, each of whose requests takes `timeout_ns` nanoseconds at most.

        service: its name in the scenario; "" is the first one of this kind.
        Errors: CapabilityMissing if there is no such service; ConfigError if the named one is of another kind.
        """
        ...
