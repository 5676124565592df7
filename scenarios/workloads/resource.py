"""Protected resources: what a lock is there for, and where its failures become harm.

A resource is a small state machine that takes requests as data, so that it can
live wherever a world puts it: behind the simulated network, behind a mutex of
one process, or at the end of a pipe from another process. Its host writes the
EFFECT row at the instant of application. Requests are data and not closures
for that reason alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lockref.history import ABSENT, Kind, Op, Recorder
from lockref.runtime import Mutex
from lockref.stores.port import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One protected write.

    node, task, tenure, attempt: whose, under which grant, and its number there.
    based_on: the state that the writer had read; "" where it wrote blindly.
    token: the fencing token; None where the lock has none.
    """

    node: str
    task: str
    tenure: int
    attempt: int
    based_on: str
    token: int | None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What became of a write: applied or refused, the state it met and the state it made."""

    outcome: Outcome
    if_version: str
    version: str


class Resource(Protocol):
    """The state machine. `reads_first`: a client reads `state` and bases its write on it."""

    op: Op
    reads_first: bool

    def state(self) -> str: ...

    def apply(self, write: Write) -> Effect: ...


class ResourceLink(Protocol):
    """One client's way to the resource; both calls raise OutcomeUnknown when no answer came in time."""

    def state(self) -> str: ...

    def write(self, write: Write) -> Effect: ...


class ResourceHost:
    """The place where the resource lives: applies writes and records them."""

    __slots__ = ("_lock", "_record", "_resource", "_true_ns")

    def __init__(self, resource: Resource, *, recorder: Recorder, true_ns: Callable[[], int], lock: str) -> None:
        self._resource = resource
        self._record = recorder.event
        self._true_ns = true_ns
        self._lock = lock

    def state(self) -> str:
        return self._resource.state()

    def write(self, write: Write) -> Effect:
        effect = self._resource.apply(write)
        self._record(
            Kind.EFFECT, self._true_ns(), ABSENT, ABSENT, write.node, write.task, self._lock, self._resource.op,
            effect.outcome, write.tenure, write.attempt, effect.if_version, effect.version, "",
            ABSENT if write.token is None else write.token, write.owner,
        )  # fmt: skip
        return effect


class LocalLink:
    """The resource in the same process, for real threads.

    Each request is atomic, as at a server. What the list and the counter leave
    open is the gap between a read and the write based on it; that gap is the
    lock's to protect.
    """

    __slots__ = ("_host", "_mutex")

    def __init__(self, host: ResourceHost, mutex: Mutex) -> None:
        self._host = host
        self._mutex = mutex

    def state(self) -> str:
        with self._mutex:
            return self._host.state()

    def write(self, write: Write) -> Effect:
        with self._mutex:
            return self._host.write(write)
