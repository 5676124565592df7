"""Every kind of service that a lock may stand on: `SERVICES[kind]` is the one lookup by its name.

An entry is what a real run needs of a kind: the port, the channel to the service at an address, and how the service is
asked once whether it is there. What the simulator and the servers of this machine need beside it stands in one table
each, with the same names: `sim.services.kinds.SIMULATED` and `scenarios.backends.hosts.HOSTS`. Rejected: one entry for
all three. The reference would then import the simulator, and the simulator the servers.

The protected resource is no kind of this table, because no lock can open it; see `scenarios.workloads`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from lockref.clouds.tables import require_table, table_channel
from lockref.clouds.uri import open_address
from lockref.coordination.place import coordination_channel
from lockref.coordination.session import COORDINATION
from lockref.dynamodb.table import TABLE
from lockref.errors import BackendUnavailable, ConfigError, did_you_mean
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.words import Outcome

if TYPE_CHECKING:
    from lockref.ports import Channel, PortKind
    from lockref.stores.address import StoreAddress

E = TypeVar("E")


Connect = Callable[["StoreAddress", str, int, int], "Channel"]
"""(address, client, request time-out in nanoseconds, pool size) -> a channel to the service; no request is sent.

The client is "" where the service has no sessions. Raises ConfigError or CapabilityMissing for an address of another
kind of service.
"""

Require = Callable[["StoreAddress", str, int], None]
"""(address, key, time-out in nanoseconds) -> nothing: the service is asked once, by a read of the key if it has any.

Raises BackendUnavailable if it does not answer in time; ConfigError or CapabilityMissing if it is of another kind.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKind:
    """One kind of service.

    port: its name, and its client over a channel. title: for messages. channel, require: see `Connect` and `Require`.
    has_sessions: a connection is a session of one client, and is not shared. In a real run such a service also carries
        nodes that are no clients, because it tells them apart.
    bounds_requests: its channel keeps the time of each request, as an SDK does; a client of it need not.
    reference: the lock whose expectation says what can be asked of every lock on such a service.
    """

    port: PortKind[object]
    title: str
    channel: Connect
    require: Require
    has_sessions: bool = False
    bounds_requests: bool = False
    reference: str = "hardened"


def _objects(address: StoreAddress, client: str, request_timeout_ns: int, pool_size: int) -> Channel:
    store = open_address(address, request_timeout_ns=request_timeout_ns, pool_size=pool_size)
    return StoreChannel(store, client=client)


def _require_objects(address: StoreAddress, key: str, timeout_ns: int) -> None:
    with closing(open_address(address, request_timeout_ns=timeout_ns)) as store:
        reply = store.read(key)
    if reply.outcome is not Outcome.APPLIED:
        status = f"status {reply.status}, " if reply.status is not None else ""
        raise BackendUnavailable(
            f"{address} does not serve reads ({status}{reply.outcome.name.lower()}: "
            f"{reply.reason or 'no reason given'}) within {timeout_ns // NS_PER_S} s"
        )


def _rows(address: StoreAddress, _client: str, request_timeout_ns: int, pool_size: int) -> Channel:
    return table_channel(address, request_timeout_ns=request_timeout_ns, pool_size=pool_size)


def _require_rows(address: StoreAddress, key: str, timeout_ns: int) -> None:
    require_table(address, request_timeout_ns=timeout_ns)
    _require_objects(address, key, timeout_ns)


def _session(address: StoreAddress, client: str, _request_timeout_ns: int, _pool_size: int) -> Channel:
    return coordination_channel(address, client=client)


def _require_session(address: StoreAddress, _key: str, timeout_ns: int) -> None:
    with closing(COORDINATION.over(coordination_channel(address, client="probe"), timeout_ns)) as session:
        session.start(ThreadRuntime(), timeout_ns=timeout_ns)


DEFAULT_KIND: Final = OBJECT_STORE.name
"""The service that a lock stands on unless it says otherwise."""

SERVICES: Final[dict[str, ServiceKind]] = {
    each.port.name: each
    for each in (
        ServiceKind(
            port=OBJECT_STORE,
            title="an object store",
            channel=_objects,
            require=_require_objects,
            bounds_requests=True,
        ),
        ServiceKind(port=TABLE, title="a table", channel=_rows, require=_require_rows, reference="dynamodb"),
        ServiceKind(
            port=COORDINATION,
            title="a coordination service",
            channel=_session,
            require=_require_session,
            has_sessions=True,
            reference="helix",
        ),
    )
}
"""Every kind, by the name of its port."""


def service_kind(name: str) -> ServiceKind:
    """The kind of that name. Raises ConfigError for an unknown one."""
    return entry_of(name, SERVICES)


def entry_of(name: str, table: Mapping[str, E]) -> E:
    """The entry of a kind in one of the tables. Raises ConfigError for an unknown kind."""
    if name not in table:
        raise ConfigError(f"service kind is {name!r}; expected one of {', '.join(table)}.{did_you_mean(name, table)}")
    return table[name]
