"""The hosts of services in real runs: the half of `lockref.services.SERVICES` that knows servers.

Their names are those of servers that are started on this machine.

`resolve_backend` takes the name of a server that is started for the run, or somebody's address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from lockref.clouds.admission import MEASURED, Admission
from lockref.clouds.cloud import Cloud
from lockref.clouds.tables import require_table
from lockref.clouds.uri import cloud_of, parse_store_uri
from lockref.coordination.place import SCHEME, folder_in, hosts_of, no_sessions
from lockref.coordination.session import COORDINATION
from lockref.dynamodb.table import TABLE
from lockref.errors import CapabilityMissing, ConfigError, did_you_mean
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.services import DEFAULT_KIND, service_kind
from lockref.stores.client import OBJECT_STORE
from scenarios.backends.pins import BACKENDS
from scenarios.backends.readiness import REACH_TIMEOUT_S, RunningBackend
from scenarios.backends.start import (
    TABLE_SCHEME,
    check_options,
    find_backend,
    not_started_here,
    server_name,
    start_backend,
    table_uri,
)
from scenarios.backends.status import StatusRow, store_statuses
from scenarios.backends.zookeepers import ZOOKEEPERS, started_by_name, zookeeper_statuses

_REACH_TIMEOUT_NS: Final = REACH_TIMEOUT_S * NS_PER_S

Prepared = Callable[[str, str, Admission], AbstractContextManager[RunningBackend]]
"""(name or URI, via, admission) -> the service, ready for one run, and what was made for it is gone on the way out.

Raises what `resolve_backend` raises for a service of this kind.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Servers:
    """A family of servers that can be started on this machine. Several kinds of service may stand on one.

    names: of the servers. started: (name, via) -> the server with that name, stopped on the way out; raises
    BackendUnavailable if it does not get ready, CapabilityMissing if it cannot be started that way. statuses: a row
    for each server and each way to start it.
    """

    names: Collection[str]
    started: Callable[[str, str], AbstractContextManager[RunningBackend]]
    statuses: Callable[[], list[StatusRow]]


def _own_address(running: RunningBackend) -> str:
    return running.uri


def _own_scheme(name: str) -> str:
    return find_backend(name).scheme


def _anywhere(_cloud: Cloud) -> bool:
    return True


def _where_tables_are(cloud: Cloud) -> bool:
    return cloud.is_table or cloud.is_in_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One kind of service on real servers.

    servers: those that can be started here; None where there are none. prepared: see `Prepared`. notice: what a run on
    a server of ours does not show. address: where a started server has this service; raises CapabilityMissing if it
    has none. scheme: of the cloud that a server of ours, by its name, stands in for. is_at: does a cloud have this
    service? is_probed: are there questions that `lockref probe` puts to it?
    """

    servers: Servers | None = None
    prepared: Prepared
    notice: str = ""
    address: Callable[[RunningBackend], str] = _own_address
    scheme: Callable[[str], str] = _own_scheme
    is_at: Callable[[Cloud], bool] = _anywhere
    is_probed: bool = False


@contextlib.contextmanager
def _measured_store(name_or_uri: str, via: str, admission: Admission) -> Iterator[RunningBackend]:
    """An object store. Conditions of a server of ours, and of somebody's store, are measured before a lock opens it."""
    _require_store(name_or_uri, OBJECT_STORE.name)
    if ":" in name_or_uri:
        address = parse_store_uri(name_or_uri)
        if cloud_of(address).is_table:
            require_table(address, request_timeout_ns=_REACH_TIMEOUT_NS)
        yield _measured(RunningBackend(name=str(address), uri=name_or_uri), admission)
        return
    with start_backend(name_or_uri, via=via) as running:
        yield _measured(running, admission)


@contextlib.contextmanager
def _measured_table(name_or_uri: str, via: str, admission: Admission) -> Iterator[RunningBackend]:
    """A table. Its items are written as objects, so its conditions are measured as those of an object store are."""
    _require_store(name_or_uri, TABLE.name)
    if ":" in name_or_uri:
        address = parse_store_uri(name_or_uri)
        require_table(address, request_timeout_ns=_REACH_TIMEOUT_NS)
        yield _measured(RunningBackend(name=str(address), uri=name_or_uri), admission)
        return
    with start_backend(name_or_uri, via=via) as running:
        yield _measured(replace(running, uri=table_uri(running)), admission)


def _measured(running: RunningBackend, admission: Admission) -> RunningBackend:
    defects = find_backend(running.name).known_defects if running.name in BACKENDS else frozenset[str]()
    measured, notices = admission.measure(running.uri, tolerated=defects)
    return replace(running, measured=measured, notices=notices)


@contextlib.contextmanager
def _own_folder(name_or_uri: str, via: str, _admission: Admission) -> Iterator[RunningBackend]:
    """A folder of its own in a ZooKeeper. Nothing is measured: a ZooKeeper compares versions."""
    with contextlib.ExitStack() as stack:
        uri, version = name_or_uri, ""
        pids: tuple[int, ...] = ()
        if _own_kind(name_or_uri) != COORDINATION.name:
            raise no_sessions(name_or_uri)
        if ":" not in name_or_uri:
            running = stack.enter_context(started_by_name(name_or_uri, via))
            uri, version, pids = running.uri, running.version, running.pids
        folder = f"lockref-{ThreadRuntime().token_bytes(6).hex()}"
        own = stack.enter_context(folder_in(parse_store_uri(uri), folder, timeout_ns=_REACH_TIMEOUT_NS))
        yield RunningBackend(name=name_or_uri, uri=f"{SCHEME}://{hosts_of(own)}", version=version, pids=pids)


@contextlib.contextmanager
def _as_it_is(name_or_uri: str, _via: str, _admission: Admission) -> Iterator[RunningBackend]:
    """The service of a stranger, without any preparation."""
    if ":" not in name_or_uri:
        raise CapabilityMissing(f"{name_or_uri} is not of the kind that this lock stands on; give the address of one")
    yield RunningBackend(name=str(parse_store_uri(name_or_uri)), uri=name_or_uri)


EMULATOR_NOTICE: Final = "emulator: this speaks for the lock's client logic, not for a cloud's durability or latency"
ONE_MACHINE_NOTICE: Final = (
    "a real ZooKeeper, on one machine: this says nothing of the latency of a network, or of its disks"
)

STORES: Final = Servers(names=BACKENDS, started=lambda name, via: start_backend(name, via=via), statuses=store_statuses)
ZOOKEEPER_SERVERS: Final = Servers(names=ZOOKEEPERS, started=started_by_name, statuses=zookeeper_statuses)

ELSEWHERE: Final = Host(prepared=_as_it_is)
"""A kind of which no server is started here, and that needs no preparation."""

HOSTS: Final[dict[str, Host]] = {
    OBJECT_STORE.name: Host(servers=STORES, prepared=_measured_store, notice=EMULATOR_NOTICE, is_probed=True),
    TABLE.name: Host(
        servers=STORES,
        prepared=_measured_table,
        notice=EMULATOR_NOTICE,
        address=table_uri,
        scheme=lambda _name: TABLE_SCHEME,
        is_at=_where_tables_are,
        is_probed=True,
    ),
    COORDINATION.name: Host(servers=ZOOKEEPER_SERVERS, prepared=_own_folder, notice=ONE_MACHINE_NOTICE),
}
"""By the name of the kind. A kind that is not here is served by others alone (`ELSEWHERE`)."""


def host_of(kind: str) -> Host:
    """The host from which a run gets a service of this kind."""
    return HOSTS.get(kind, ELSEWHERE)


def is_started_here(name_or_uri: str) -> bool:
    """True for the name of a server that we start, False for the address of a user's service."""
    return any(server_name(name_or_uri) in family.names for family in _families())


def server_statuses() -> list[StatusRow]:
    """For listings: a row for each server that is started here and each way to start it. Nothing is started."""
    return [row for family in _families() for row in family.statuses()]


def started_server(name: str, *, via: str) -> AbstractContextManager[RunningBackend]:
    """A server by its name, whatever its kind, stopped on the way out.

    via: `native` for a process, `docker` for a container.
    Errors: ConfigError for an unknown name; BackendUnavailable and CapabilityMissing as `Servers.started` has them.
    """
    for family in _families():
        if server_name(name) in family.names:
            return family.started(name, via)
    raise not_started_here(name, known_servers())


def _families() -> list[Servers]:
    """Each once, also where two kinds stand on it."""
    return list(dict.fromkeys(host.servers for host in HOSTS.values() if host.servers is not None))


def known_servers() -> list[str]:
    """The names of all servers that can be started here."""
    return [name for family in _families() for name in family.names]


def require_known(name_or_uri: str) -> None:
    """Raise ConfigError for an unknown name or a bad URI, before anything is started."""
    if ":" in name_or_uri:
        parse_store_uri(name_or_uri)
    elif not is_started_here(name_or_uri):
        known = known_servers()
        raise ConfigError(
            f"the backend {name_or_uri!r} is not known; expected a URI or one of {', '.join(known)}."
            f"{did_you_mean(server_name(name_or_uri), [*known, 'memory:'])}"
        )
    else:
        check_options(name_or_uri)


def require_objects(name_or_uri: str) -> None:
    """Raise as `require_known` does, and CapabilityMissing for what keeps no objects, before anything is started."""
    require_known(name_or_uri)
    if not _is_store(name_or_uri):
        raise CapabilityMissing(
            f"{name_or_uri} keeps no objects that could be probed; take one of {', '.join(BACKENDS)}, or a store's URI"
        )


def _require_store(name_or_uri: str, kind: str) -> None:
    if not _is_store(name_or_uri):
        raise CapabilityMissing(
            f"{name_or_uri} is {service_kind(_own_kind(name_or_uri)).title}, and this lock stands on another kind "
            f"({kind}); take one of {', '.join(BACKENDS)}, or a URI"
        )


def _is_store(name_or_uri: str) -> bool:
    """Can objects be kept there? A table keeps each as an item."""
    if ":" not in name_or_uri:
        return server_name(name_or_uri) in BACKENDS
    cloud = cloud_of(parse_store_uri(name_or_uri))
    return cloud.holds_objects or cloud.is_table


def _own_kind(name_or_uri: str) -> str:
    """The kind of service at an address, or the first kind that a server of ours is started for."""
    if ":" in name_or_uri:
        return cloud_of(parse_store_uri(name_or_uri)).service
    return next(kind for kind, host in HOSTS.items() if host.servers and server_name(name_or_uri) in host.servers.names)


@contextlib.contextmanager
def resolve_backend(
    name_or_uri: str,
    *,
    via: str = "native",
    stands_on: str = DEFAULT_KIND,
    admission: Admission = MEASURED,
) -> Iterator[RunningBackend]:
    """A backend by name, started and stopped here, or somebody's service by its URI, ready for one run.

    A store or a table is measured first: conditions one by one and in races, with small
    objects below `lockref-ready/`, in a few seconds at most. What was found is
    in `measured`; a server of ours is also used with the defects it is known for. In a ZooKeeper the run gets a folder
    of its own, which goes with it.

    stands_on: the kind of service that is wanted. via: how a server of ours is started.
    admission: whether a fingerprint vouches for the store in the place of a measurement, and whether it may be unsafe.
    Errors: ConfigError for an unknown name or kind, a bad URI, a table with another key; BackendUnavailable
        with one line if nothing answers there; CapabilityMissing if it ignores
        preconditions or has no such service.
    """
    require_known(name_or_uri)
    service_kind(stands_on)
    with host_of(stands_on).prepared(name_or_uri, via, admission) as running:
        yield running
