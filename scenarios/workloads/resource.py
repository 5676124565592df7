"""Protected resources: what a lock is there for, and where its failures become harm.

A resource is a small state machine that takes requests as data, so that it can
live wherever a world puts it: behind the simulated network, behind a mutex of
one process, or at the end of a pipe from another process. A client reaches it
over a `Channel` in each case. Its host writes the EFFECT row at the instant of
application.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self

from lockref.errors import LockError, OutcomeUnknown
from lockref.history import Recorder
from lockref.ports import TIMED_OUT, Channel, PortKind, Reply, Request, of_fields
from lockref.runtime import NS_PER_S, Mutex
from lockref.words import ABSENT, Kind, Op, Outcome

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_KIND_EFFECT = Kind.EFFECT
_OP_NONE = Op.NONE
_OP_WRITE = Op.WRITE
_OUTCOME_APPLIED = Outcome.APPLIED

STATE, WRITE = "state", "write"
"""The verbs of a protected resource."""


class Write(str):
    """One protected write, as the condition of its request: as a string it is the state that the writer had read.

    node, task, tenure, attempt: whose, under which grant (None: no lock was asked), and its number there.
    based_on: the state that the writer had read; "" where it wrote blindly.
    token: the fencing token; None where the lock has none.
    """

    __slots__ = ("attempt", "based_on", "node", "owner", "task", "tenure", "token")

    node: str
    task: str
    tenure: int | None
    attempt: int
    based_on: str
    token: int | None
    owner: str

    def __new__(
        cls, node: str, task: str, tenure: int | None, attempt: int, based_on: str, token: int | None, owner: str
    ) -> Self:
        write = str.__new__(cls, based_on)
        write.node = node
        write.task = task
        write.tenure = tenure
        write.attempt = attempt
        write.based_on = based_on
        write.token = token
        write.owner = owner
        return write

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        # To another process it goes by its parts: a string alone would arrive without them.
        parts = (self.node, self.task, self.tenure, self.attempt, self.based_on, self.token, self.owner)
        return type(self), parts


class Effect(NamedTuple):
    """The effect of a write: applied or refused, the state it met and the state it made."""

    outcome: Outcome
    if_version: str
    version: str


class Resource(Protocol):
    """The state machine. `reads_first`: a client reads `state` and bases its write on it."""

    op: Op
    reads_first: bool

    def state(self) -> str: ...

    def apply(self, write: Write) -> Effect: ...


class ResourceHost:
    """The place where the resource lives: applies writes and records them."""

    __slots__ = ("_lock", "_record", "_resource", "_true_ns")

    def __init__(self, resource: Resource, *, recorder: Recorder, true_ns: Callable[[], int], lock: str) -> None:
        self._resource = resource
        self._record = recorder.event
        self._true_ns = true_ns
        self._lock = lock

    def handle(self, request: Request) -> Reply:
        """Do what a `ResourceClient` asks, and tell the state, or what a write has left as the state.

        A write that the resource turns down is answered, too. Its effect is in the record alone: a client is not told.
        """
        if request.verb == STATE:
            return of_fields(Reply, (_OUTCOME_APPLIED, self._resource.state(), None, False, None, ""))
        assert request.verb == WRITE, f"a resource knows no {request.verb!r}"
        write = request.condition
        assert isinstance(write, Write), "a resource is asked for a Write"
        outcome, if_version, version = self._resource.apply(write)
        tenure = ABSENT if write.tenure is None else write.tenure
        self._record(
            _KIND_EFFECT, (self._true_ns(), ABSENT, ABSENT, write.task), write.node, self._lock, self._resource.op,
            outcome, tenure, write.attempt, if_version, version, "",
            ABSENT if write.token is None else write.token, write.owner,
        )  # fmt: skip
        return of_fields(Reply, (_OUTCOME_APPLIED, version, None, False, None, ""))


class ProtectedResource(Protocol):
    """The protected resource, as a client writes to it under its lock."""

    def write(self, write: Write, may_write: Callable[[], bool], /) -> object:
        """One protected write. may_write: asks the lock once more, for a write that takes several requests.

        Raises LockError for a refusal, and where nobody knows what became of it.
        """
        ...

    @property
    def keeps_lock(self) -> bool:
        """True after a write whose writer goes away without giving its lock back."""
        ...

    def prepare(self, node: str, task: str, lock: object) -> None:
        """Before the lock is asked: what can be done without it. lock: the provider."""
        ...

    def conclude(self, *, is_released: bool) -> None:
        """After the unlock. is_released: it raised nothing."""
        ...


class ResourceClient:
    """One client's port to the resource.

    Both calls raise OutcomeUnknown when no answer came in time, or when the
    answer leaves open whether the request was applied; LockError for a refusal.
    """

    __slots__ = ("_channel", "_timeout_ns")
    keeps_lock = False

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel = channel
        self._timeout_ns = timeout_ns

    def prepare(self, node: str, task: str, lock: object) -> None:
        """Nothing: a write is one request under the lock."""

    def conclude(self, *, is_released: bool) -> None:
        """Nothing: its answer came with the request."""

    def state(self) -> str:
        """The content of the resource, as text."""
        return self._ask(STATE, "", ABSENT)

    def write(self, write: Write, _may_write: Callable[[], bool] | None = None) -> str:
        """Let the resource apply a write; its state afterwards.

        It is one request: whoever calls has asked the lock just before.
        """
        return self._ask(WRITE, write, ABSENT if write.tenure is None else write.tenure)

    def _ask(self, verb: str, condition: str, number: int) -> str:
        channel = self._channel
        # To read the state is a part of writing: a client that writes blindly does not ask, so faults on writes
        # strike both.
        request = of_fields(
            Request,
            (channel.client, channel.service, verb, "", condition, None, _OP_WRITE, number, (), False, _OP_NONE),
        )
        reply = channel.send(request, self._timeout_ns)
        if reply.outcome is _OUTCOME_APPLIED:
            assert reply.version is not None, "a resource answers with its state"
            return reply.version
        if reply is TIMED_OUT:
            raise OutcomeUnknown(
                f"{channel.service} did not answer request {number} within {self._timeout_ns / NS_PER_S:g} s: "
                "read before deciding"
            )
        if reply.outcome is Outcome.AMBIGUOUS:
            raise OutcomeUnknown(f"{channel.service} answered {reply.reason}: it may have applied the request")
        raise LockError(f"{channel.service} refused the request with status {reply.status} ({reply.reason})")


RESOURCE: Final = PortKind("resource", ResourceClient)
RESOURCE_TIMEOUT_NS = 2 * NS_PER_S


def resource_services(locks: Sequence[str]) -> dict[str, str]:
    """By lock, the name of the service that it protects. locks: of one process; what each protects is its own."""
    return {lock: f"{RESOURCE.name}-{number}" if number > 1 else RESOURCE.name for number, lock in enumerate(locks, 1)}


class ByService:
    """The services that the clients of a run reach by the process that started it, each over a channel of its own."""

    __slots__ = ("_channels", "client", "service")

    capabilities = None

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._channels = channels
        self.client = ""
        self.service = RESOURCE.name

    def send(self, request: Request, timeout_ns: int) -> Reply:
        assert request.service in self._channels, f"{request.verb} of {request.service}, and this run has none"
        return self._channels[request.service].send(request, timeout_ns)

    def close(self) -> None:
        """Give all of them back."""
        for channel in self._channels.values():
            channel.close()


class Host(Protocol):
    """The place where something lives that takes requests, one at a time."""

    def handle(self, request: Request, /) -> Reply: ...


class LocalChannel:
    """The resources of a run in the same process, for real threads. hosts: by service.

    Each request is atomic, as at a server. What the list and the counter leave
    open is the gap between a read and the write based on it; that gap is the
    lock's to protect.
    """

    __slots__ = ("_hosts", "_mutex", "client", "service")

    capabilities = None

    def __init__(self, hosts: Mapping[str, Host], mutex: Mutex) -> None:
        self._hosts = hosts
        self._mutex = mutex
        self.client = ""
        self.service = RESOURCE.name

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        with self._mutex:
            return self._hosts[request.service].handle(request)

    def close(self) -> None:
        """Nothing to give back."""


class OfOneLock:
    """The way of a process to all its resources, as the client of one lock has it. service: what the lock protects."""

    __slots__ = ("_shared", "client", "service")

    capabilities = None

    def __init__(self, shared: Channel, service: str) -> None:
        self._shared = shared
        self.client = shared.client
        self.service = service

    def send(self, request: Request, timeout_ns: int) -> Reply:
        return self._shared.send(request, timeout_ns)

    def close(self) -> None:
        """Nothing: the way is shared."""
