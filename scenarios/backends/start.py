"""Starting a server, natively or as a container, and measuring what it keeps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.clouds.admission import MEASURED, Admission
from lockref.clouds.dynamodb.facts import LOCAL_REGION
from lockref.clouds.tables import require_table
from lockref.clouds.uri import cloud_of, open_store, parse_store_uri
from lockref.coordination.place import SCHEME, folder_in, hosts_of, no_sessions
from lockref.coordination.session import COORDINATION
from lockref.delta.options import DEFAULT_TABLE_NAME
from lockref.dynamodb.table import TABLE
from lockref.errors import CapabilityMissing, ConfigError, did_you_mean
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.address import StoreAddress
from lockref.stores.client import OBJECT_STORE
from lockref.stores.probe import selftest
from lockref.stores.probe.measured import Measured
from lockref.temporary_folders import owned_folder
from scenarios.backends.docker import started_container
from scenarios.backends.environments import choose_native, ensure_environment
from scenarios.backends.pins import BACKENDS, Backend, Native, NodeNative
from scenarios.backends.readiness import (
    REACH_TIMEOUT_S,
    PortTaken,
    RunningBackend,
    await_ready,
    local_address,
    store_uri,
)
from scenarios.backends.server_process import RestartableServer, free_port
from scenarios.backends.zookeeper import ZOOKEEPERS, ZooKeeperServers, started_zookeeper
from scenarios.backends.zookeeper_container import ContainedZooKeeper, contained_zookeeper

if TYPE_CHECKING:
    from lockref.clouds.dynamodb.client import Naming

READY_TIMEOUT_S: Final = 60  # The very first start of a server also compiles its modules.
BUCKET_DEFAULT: Final = "lockref"
VIA: Final = ("native", "docker")
_PORT_TRIES: Final = 3


def find_backend(name: str) -> Backend:
    """Errors: ConfigError for an unknown name, with the nearest one."""
    backend = BACKENDS.get(name)
    if backend is None:
        raise _unknown(name)
    return backend


def is_started_here(name_or_uri: str) -> bool:
    """Is it the name of a server that we start, and not the address of somebody's?"""
    return name_or_uri in BACKENDS or name_or_uri in ZOOKEEPERS


def _unknown(name: str) -> ConfigError:
    known = [*BACKENDS, *ZOOKEEPERS]
    return ConfigError(
        f"the backend {name!r} is not known; expected a URI or one of {', '.join(known)}."
        f"{did_you_mean(name, [*known, 'memory:'])}"
    )


@contextlib.contextmanager
def start_backend(
    name: str,
    *,
    via: str = "native",
    bucket: str = BUCKET_DEFAULT,
    timeout_s: float = READY_TIMEOUT_S,
    log_folder: Path | None = None,
) -> Iterator[RunningBackend]:
    """Start a server with an empty bucket, and stop it on the way out.

    The first start on a machine installs the server; that is not part of the wait.

    via: `native` for a process, `docker` for a container of the pinned image.
    timeout_s: how long the server may take until it is ready.
    log_folder: where its log stays; without one it goes when the server goes.
    Errors: ConfigError for an unknown name or way; BackendUnavailable if it
        cannot be installed, does not get ready, or listens beyond this machine;
        CapabilityMissing if it ignores preconditions.
    """
    backend = find_backend(name)
    if via not in VIA:
        raise ConfigError(f"a backend cannot be started via {via!r}; expected one of {', '.join(VIA)}")
    with owned_folder(name) as folder:
        if log_folder is not None:
            log_folder.mkdir(parents=True, exist_ok=True)
        log_path = (log_folder or folder) / f"{name}.log"
        if via == "docker":
            starting = started_container(backend, bucket=bucket, timeout_s=timeout_s, log_path=log_path, folder=folder)
        else:
            starting = _started_process(backend, bucket=bucket, timeout_s=timeout_s, log_path=log_path, folder=folder)
        with starting as running:
            has_buckets = not cloud_of(parse_store_uri(running.uri)).is_table
            yield dataclasses.replace(running, bucket_uri=running.uri if has_buckets else "")


@contextlib.contextmanager
def _started_process(
    backend: Backend, *, bucket: str, timeout_s: float, log_path: Path, folder: Path
) -> Iterator[RunningBackend]:
    native, interpreter = choose_native(backend)
    programs = ensure_environment(backend, native, interpreter)
    server, address, ready_s = _started_on_free_port(
        backend, native, programs, bucket=bucket, timeout_s=timeout_s, log_path=log_path, folder=folder
    )
    try:
        server.process.require_loopback()
        yield RunningBackend(
            name=backend.name,
            uri=store_uri(address),
            version=native.version,
            pid=server.process.pid,
            server=server,
            log_path=log_path,
            ready_s=ready_s,
        )
    finally:
        server.stop()


def _started_on_free_port(
    backend: Backend,
    native: Native | NodeNative,
    programs: Path,
    *,
    bucket: str,
    timeout_s: float,
    log_path: Path,
    folder: Path,
) -> tuple[RestartableServer, StoreAddress, float]:
    """A ready server, its address and the seconds it took. A port taken by somebody quicker is given up."""
    for tries_left in reversed(range(_PORT_TRIES)):
        port = free_port()
        data = folder / f"data-{port}"
        data.mkdir()
        address = local_address(backend, port=port, bucket=bucket)
        started_s = time.monotonic()
        launch = native.launch(programs, port, data)
        server = RestartableServer(backend.name, launch, keeps=backend.keeps, log_path=log_path, folder=folder)
        try:
            await_ready(
                server.process,
                address,
                timeout_s=timeout_s,
                tolerated=backend.known_defects,
                is_ours=functools.partial(server.process.owns_port, port),
            )
        except PortTaken:
            server.stop()
            if not tries_left:
                raise
        except BaseException:
            server.stop()
            raise
        else:
            return server, address, time.monotonic() - started_s
    raise AssertionError("the last try returns or raises")


def require_known(name_or_uri: str) -> None:
    """Raise ConfigError for an unknown name or a bad URI, before anything is started."""
    if ":" in name_or_uri:
        parse_store_uri(name_or_uri)
    elif not is_started_here(name_or_uri):
        raise _unknown(name_or_uri)


def require_objects(name_or_uri: str) -> None:
    """Raise as `require_known` does, and CapabilityMissing for what keeps no objects, before anything is started."""
    require_known(name_or_uri)
    if name_or_uri in ZOOKEEPERS or name_or_uri.startswith(f"{SCHEME}:"):
        raise CapabilityMissing(
            f"{name_or_uri} keeps no objects that could be probed; take one of {', '.join(BACKENDS)}, or a store's URI"
        )


def table_uri(running: RunningBackend, *, table: str = DEFAULT_TABLE_NAME, naming: Naming | None = None) -> str:
    """The URI of a table on a server of ours, which is made if it is not there yet.

    naming: what its key is called; default as our locks have it.
    Errors: CapabilityMissing if the server has no tables; BackendUnavailable if it does not make one.
    """
    if not find_backend(running.name).has_tables:
        able = ", ".join(name for name, backend in BACKENDS.items() if backend.has_tables)
        raise CapabilityMissing(
            f"{running.name} has no tables, on which this lock stands; take {able}, dynamodb://TABLE or memory:"
        )
    # Its bucket's address is the table's: servers of this kind have all services on one port.
    uri = f"dynamodb://{table}?endpoint={parse_store_uri(running.uri).endpoint}&region={LOCAL_REGION}"
    require_table(parse_store_uri(uri), request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S, may_create=True, naming=naming)
    return uri


@contextlib.contextmanager
def resolve_backend(
    name_or_uri: str,
    *,
    via: str = "native",
    stands_on: str = OBJECT_STORE.name,
    admission: Admission = MEASURED,
) -> Iterator[RunningBackend]:
    """A backend by name, started and stopped here, or somebody's store or table by its URI.

    Either is measured first: conditions one by one and in races, with small
    objects below `lockref-ready/`, in a few seconds at most. What was found is
    in `measured`; a server of ours is also used with the defects it is known for.

    stands_on: the kind of service that is wanted, `object_store`, `table` or `coordination`. Of the last, the run gets
        a folder of its own, which goes with it, and nothing is measured: a ZooKeeper compares versions.
    admission: whether a fingerprint vouches for the store in the place of a measurement, and whether it may be unsafe.
    Errors: ConfigError for an unknown name, a bad URI, a table with another key; BackendUnavailable
        with one line if nothing answers there; CapabilityMissing if it ignores
        preconditions or has no such service.
    """
    require_known(name_or_uri)
    is_ensemble = name_or_uri in ZOOKEEPERS or name_or_uri.startswith(f"{SCHEME}:")
    if stands_on == COORDINATION.name and not is_ensemble:
        raise no_sessions(name_or_uri)
    if is_ensemble:
        with _resolved_ensemble(name_or_uri, via=via, stands_on=stands_on) as running:
            yield running
        return
    if ":" not in name_or_uri:
        with start_backend(name_or_uri, via=via) as running:
            if stands_on == TABLE.name:
                running = dataclasses.replace(running, uri=table_uri(running))
            defects = find_backend(name_or_uri).known_defects
            measured, notices = admission.measured(running.uri, tolerated=defects)
            yield dataclasses.replace(running, measured=measured, notices=notices)
        return
    address = parse_store_uri(name_or_uri)
    if stands_on == TABLE.name or cloud_of(address).is_table:
        require_table(address, request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S)
    measured, notices = admission.measured(name_or_uri)
    yield RunningBackend(name=str(address), uri=name_or_uri, measured=measured, notices=notices)


@contextlib.contextmanager
def _resolved_ensemble(name_or_uri: str, *, via: str, stands_on: str) -> Iterator[RunningBackend]:
    if stands_on != COORDINATION.name:
        raise CapabilityMissing(
            f"{name_or_uri} is a coordination service, and this lock stands on another kind ({stands_on}); "
            f"take one of {', '.join(BACKENDS)}, or a URI"
        )
    with contextlib.ExitStack() as stack:
        uri, version = name_or_uri, ""
        if name_or_uri in ZOOKEEPERS:
            servers = stack.enter_context(started_ensemble(name_or_uri, via=via))
            uri, version = servers.uri, servers.version
        folder = f"lockref-{ThreadRuntime().token_bytes(6).hex()}"
        timeout_ns = REACH_TIMEOUT_S * NS_PER_S
        own = stack.enter_context(folder_in(parse_store_uri(uri), folder, timeout_ns=timeout_ns))
        yield RunningBackend(name=name_or_uri, uri=f"{SCHEME}://{hosts_of(own)}", version=version)


def started_ensemble(name: str, *, via: str) -> AbstractContextManager[ZooKeeperServers | ContainedZooKeeper]:
    """One of ZOOKEEPERS, stopped on the way out. Errors: CapabilityMissing for several servers in containers."""
    if via == "native":
        return started_zookeeper(servers=ZOOKEEPERS[name])
    if ZOOKEEPERS[name] > 1:
        raise CapabilityMissing(
            f"{name} is started natively only: in containers its servers would listen beyond this machine; leave out "
            f"`--via {via}`, or take zookeeper"
        )
    return contained_zookeeper()


def measure_thoroughly(uri: str, *, progress: Callable[[str], None]) -> Measured:
    """Measure somebody's store, with small objects below `lockref-doctor/`, which are removed. It takes some seconds.

    Errors: ConfigError for a bad URI and for a table with another key; BackendUnavailable if the store does not answer.
    """
    parsed = parse_store_uri(uri)
    address = str(parsed)
    progress(f"measuring {address}")
    if cloud_of(parsed).is_table:
        require_table(parsed, request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S)
    racers = selftest.RACERS_THOROUGH
    with contextlib.closing(open_store(uri, request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S, pool_size=racers)) as store:
        return selftest.measure(
            store,
            "lockref-doctor",
            address=address,
            racers=racers,
            rounds=selftest.ROUNDS_THOROUGH,
            races_ns=selftest.RACES_NS_THOROUGH,
        )
