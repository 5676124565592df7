"""A lock as the laboratory sees it: the provider protocol, its grant, its surroundings.

The laboratory drives any lock through `LockProvider` and knows nothing of its
algorithm. A provider is made from a `LockContext`, once per client process,
in both worlds: `Provider(context)`, or `Provider.from_context(context)` where
the constructor is meant for application code. docs/bring-your-own-lock.md
shows a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar, runtime_checkable

from lockref.errors import CapabilityMissing
from lockref.frozen import filled_by_slots
from lockref.ports import OpenPort, PortKind
from lockref.runtime import MonoNs, Runtime, WallNs
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.port import ObjectStore, Version

P = TypeVar("P")

DEFAULT_STORE = "store"
"""The name of the object store where nobody says otherwise."""

INTERFACE_VERSION = 1
"""Raised when a change to `LockProvider` or `LockContext` would break an existing lock."""


# Grants, record views and reports are frozen dataclasses, because locks copy them with `dataclasses.replace`. Hot
# places give the fields by position, because each call with names makes a dictionary.


@filled_by_slots
@dataclass(frozen=True, slots=True)
class Grant:
    """A lock that was given: to whom, under which number, believed until when.

    owner: the identity written to the store.
    token: the fencing token; None where the lock has none.
    version: the version that the granting (or last renewing) write made.
    deadline_ns: the holder's own limit on its monotonic clock; None where the
        lock never fences itself.
    """

    owner: str
    token: int | None = None
    version: Version | None = None
    deadline_ns: MonoNs | None = None


@filled_by_slots
@dataclass(frozen=True, slots=True)
class RecordView:
    """A stored lock record as the checks see it, whatever its wire format.

    valid_until_ns: wall time up to which the protocol promises that nobody
        takes over; None where records carry no time.
    is_released: the record names a former owner only.
    nonce: what tells two writes of one owner apart.
    """

    owner: str
    token: int | None = None
    valid_until_ns: WallNs | None = None
    is_released: bool = False
    nonce: str | None = None


@runtime_checkable
class CarriesData(Protocol):
    """A further offer of a lock beside `LockProvider`: its record tells what the holder is about to do.

    So whoever takes over from a dead holder can finish that first. The text is the holder's own; the lock reads none.

    intent: what the next acquiring write tells, unless it takes over from somebody who left something to finish.
    data: what the record of the present grant tells. took_over: that is a dead holder's, and is to be finished first.
    Source: dynamodb_lock, `data`, `acquired_expired_lock`, `update_data`.
    """

    intent: str | None

    @property
    def data(self) -> str | None: ...

    @property
    def took_over(self) -> bool: ...

    def update_data(self, data: str) -> None:
        """The dead holder's work is done: from now on the record tells `data`. Raises LockError."""
        ...


RecordDecoder = Callable[[bytes], RecordView | None]
"""Bytes of a lock object to its view; None where they are no lock record. Never raises."""


# Not frozen: a lock does not get it, but the recorder, which makes one for each body that it sees.
@dataclass(slots=True, unsafe_hash=True)
class LockView:
    """One lock in a stored state, as the checks see it. A state may hold several locks.

    lock: the lock's name; "" where the key of the object is its name, as for every state with one lock.
    owner, token, is_released, nonce: as in `RecordView`.
    valid_until_ns: wall time up to which the protocol promises that nobody
        takes over; None where records carry no time.
    duration_ns: how long the record is good for, counted by each reader from when it first saw it, as in the lease
        that Delta Lake keeps in DynamoDB; None where records carry no duration.
    """

    owner: str
    token: int | None = None
    lock: str = ""
    valid_until_ns: WallNs | None = None
    duration_ns: int | None = None
    is_released: bool = False
    nonce: str | None = None


StateDecoder = Callable[[str, bytes], Sequence[LockView]]
"""Key and stored bytes to what they say about locks; nothing where they say nothing. Never raises.

It belongs to the object and not to the writer: whoever wrote, all are read alike. Rejected: reading each
client's bytes by that client's own lock. Two locks that differ about one state would then both be right.
"""


DEFAULT_LOCK_KEY: Final = "table/lock"
"""The key of a lock whose class declares no `default_lock_key`, and whose records are not RFC-91's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """The settings that every lock in the laboratory gets. Durations in nanoseconds.

    key: of the lock's object, row or znode, or its name; a kind of lock has its own default (`default_lock_key`).
    renew_interval_ns: how often a holder renews. poll_interval_ns: how often a
    waiter looks. drift_bound_ns: the largest wall offset between two processes
    that the lock must survive (β of RFC-91, 500 ms). options: provider's own.
    unsafe: the scenario asks for a timing that RFC-91 forbids, to show what comes of it.
    """

    key: str = DEFAULT_LOCK_KEY
    validity_ns: int = 10_000_000_000
    renew_interval_ns: int = 1_000_000_000
    poll_interval_ns: int = 1_000_000_000
    drift_bound_ns: int = 500_000_000
    options: dict[str, str] = field(default_factory=dict)
    unsafe: bool = False


class LockEventKind(StrEnum):
    """The kinds of event that a provider reports to its listener.

    LOST: a grant that was given has ended without its unlock. A provider whose class has "L4" in `claims` reports
    every loss, no later than the holder's deadline; for others that is optional.
    """

    GRANTED = "granted"
    RENEWED = "renewed"
    LOST = "lost"
    RELEASED = "released"
    METRIC = "metric"


@filled_by_slots
@dataclass(frozen=True, slots=True)
class LockEvent:
    """One report: a change of the grant, or a metric (`name`, `value`; counters count up by `value`)."""

    kind: LockEventKind
    name: str = ""
    value: float = 1.0
    grant: Grant | None = None
    reason: str = ""


LockListener = Callable[[LockEvent], None]
"""Told of every event. One that has an attribute `hears_metrics` which is false is not told of metrics."""


def hears_metrics(listener: LockListener) -> bool:
    """False for a listener that says so: then no metric need be made. Asked at each metric, so it may change."""
    return getattr(listener, "hears_metrics", True)


@filled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class LockContext:
    """The surroundings of one client process.

    open_store: the object store, as seen from this process, with the request
        timeout (nanoseconds) that the lock wants; equal timeouts share a client.
    open_port: what `open` asks, with kind, timeout and service; None where the
        object store is the only service. Locks call `open`.
    """

    runtime: Runtime
    open_store: Callable[[int], ObjectStore]
    settings: LockSettings
    listener: LockListener = lambda _event: None
    open_port: OpenPort | None = None

    def open(self, kind: PortKind[P], *, timeout_ns: int, service: str = "") -> P:
        """A client of a service, as seen from this process: `open(OBJECT_STORE, timeout_ns=t)` asks `open_store(t)`.

        timeout_ns: how long each request may take. service: its name in the
        scenario; "" is the first one of this kind.
        Errors: CapabilityMissing if there is no such service; ConfigError if
        the named one is of another kind, or the timeout is no positive number.
        """
        if self.open_port is not None:
            return self.open_port(kind, timeout_ns, service)
        if kind.name == OBJECT_STORE.name and service in ("", DEFAULT_STORE):
            return kind.over(StoreChannel(self.open_store(timeout_ns)), timeout_ns)
        raise CapabilityMissing(f"there is no service {service or kind.name!r} here, only one object store")


class LockProvider(Protocol):
    """One client's handle on one lock.

    The laboratory calls `try_lock`, `lock` and `unlock` from the client's main
    task, and `close` at the end. It calls `holds` at any time and from any task:
    an observer outside all processes asks even a paused client.
    """

    @property
    def grant(self) -> Grant | None:
        """The grant that this client believes in; None when it believes in none."""
        ...

    def try_lock(self) -> bool:
        """One attempt. True: granted. False: somebody else has it, or it is not known to be ours."""
        ...

    def lock(self, timeout_s: float) -> bool:
        """Wait for a grant, at most `timeout_s` local seconds."""
        ...

    def unlock(self) -> None:
        """Give the lock back. Raises ReleaseFailed, LockLost or LockNotHeld; never blocks for ever."""
        ...

    def holds(self) -> bool:
        """The guard before each protected write: may I still? Local: no request, no waiting."""
        ...

    def close(self) -> None:
        """End the heartbeat and give back what is held. Idempotent."""
        ...


class NodeProgram(Protocol):
    """A program of a node that is no client: a controller that assigns locks, a proxy. It is made from a context.

    Its `context.settings` are those of the scenario's locks, with options of its own.
    """

    def run(self) -> None:
        """Work in the node's main task. The run does not wait for it, and ends it with the last client."""
        ...


@runtime_checkable
class ClosableProgram(NodeProgram, Protocol):
    """A program that can live in a real run, too."""

    def close(self) -> None:
        """Make `run` return, from another task, and give back what was opened. Idempotent."""
        ...


ProviderFactory = Callable[[LockContext], LockProvider]
