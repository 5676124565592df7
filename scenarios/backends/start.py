"""Starting a server, natively or as a container, and measuring what it keeps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from lockref.clouds.dynamodb.facts import LOCAL_REGION
from lockref.clouds.tables import require_table
from lockref.clouds.uri import CLOUDS, cloud_of, open_store, parse_store_uri
from lockref.delta.options import DEFAULT_TABLE_NAME
from lockref.errors import CapabilityMissing, ConfigError, did_you_mean
from lockref.extras import EXTRAS, require
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from lockref.stores.probe import selftest
from lockref.stores.probe.measured import Measurements
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

if TYPE_CHECKING:
    from lockref.clouds.dynamodb.client import Naming

READY_TIMEOUT_S: Final = 60  # The very first start of a server also compiles its modules.
BUCKET_DEFAULT: Final = "lockref"
VIA: Final = ("native", "docker")
_PORT_TRIES: Final = 3


def server_name(named: str) -> str:
    """The name of a server without the options behind it: `ministack` of `ministack?client=obstore`."""
    return named.partition("?")[0]


def with_options(uri: str, named: str) -> str:
    """The URI of a store with the options that a user put behind the name of its server, see `check_options`."""
    _, asked, options = named.partition("?")
    return f"{uri}&{options}" if asked else uri


def check_options(named: str) -> None:
    """Raise ConfigError for an option behind the name of a server that its stores do not take.

    The library that sends the requests is the only one: where the server listens is not the user's to say.
    """
    name, asked, options = named.partition("?")
    if not asked:
        return
    backend = find_backend(name)
    if [option for option, _ in parse_qsl(options, keep_blank_values=True)] != ["client"]:
        raise ConfigError(f"the server {name} has other options than one client; expected {name}?client=NAME")
    parse_store_uri(f"{backend.scheme}://{BUCKET_DEFAULT}?{options}")


def find_backend(named: str) -> Backend:
    """Errors: ConfigError for an unknown name, with the nearest one."""
    name = server_name(named)
    backend = BACKENDS.get(name)
    if backend is None:
        raise not_started_here(name, BACKENDS)
    return backend


def not_started_here(name: str, names: Iterable[str]) -> ConfigError:
    """The error for a name that is not among those of the servers that can be started."""
    known = list(names)
    return ConfigError(
        f"no server {name!r} is started here; expected one of {', '.join(known)}.{did_you_mean(name, known)}"
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
    name: of the server; with the library that shall send the requests behind it, as in `ministack?client=obstore`.
    timeout_s: how long the server may take until it is ready.
    log_folder: where its log stays; without one it goes when the server goes.
    Errors: ConfigError for an unknown name, option or way; BackendUnavailable if it
        cannot be installed, does not get ready, or listens beyond this machine;
        CapabilityMissing if it ignores preconditions, or if the package of its client is not installed.
    """
    backend = find_backend(name)
    check_options(name)
    if via not in VIA:
        raise ConfigError(f"a backend cannot be started via {via!r}; expected one of {', '.join(VIA)}")
    # A server is ready when a client of ours has written to it. So the client comes before an installation of minutes.
    if (client := CLOUDS[backend.scheme].name) in EXTRAS:
        require(client)
    with owned_folder(backend.name) as folder:
        if log_folder is not None:
            log_folder.mkdir(parents=True, exist_ok=True)
        log_path = (log_folder or folder) / f"{backend.name}.log"
        if via == "docker":
            starting = started_container(backend, bucket=bucket, timeout_s=timeout_s, log_path=log_path, folder=folder)
        else:
            starting = _started_process(backend, bucket=bucket, timeout_s=timeout_s, log_path=log_path, folder=folder)
        with starting as running:
            has_buckets = not cloud_of(parse_store_uri(running.uri)).is_table
            uri = with_options(running.uri, name)
            yield dataclasses.replace(running, uri=uri, bucket_uri=uri if has_buckets else "")


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


TABLE_SCHEME: Final = "dynamodb"


def table_uri(running: RunningBackend, *, table: str = DEFAULT_TABLE_NAME, naming: Naming | None = None) -> str:
    """The URI of a table on a server of ours, which is made if it is not there yet.

    naming: what its key is called; default as our locks have it.
    Errors: CapabilityMissing if the server has no tables, or is named with a client; BackendUnavailable if it does not
        make one.
    """
    if not find_backend(running.name).has_tables:
        able = ", ".join(name for name, backend in BACKENDS.items() if backend.has_tables)
        raise CapabilityMissing(
            f"{running.name} has no tables, on which this lock stands; take {able}, dynamodb://TABLE or memory:"
        )
    if client := parse_store_uri(running.uri).client:
        raise CapabilityMissing(f"a table is not reached through {client}; leave the client out")
    # Its bucket's address is the table's: servers of this kind have all services on one port.
    uri = f"{TABLE_SCHEME}://{table}?endpoint={parse_store_uri(running.uri).endpoint}&region={LOCAL_REGION}"
    require_table(parse_store_uri(uri), request_timeout_ns=REACH_TIMEOUT_S * NS_PER_S, may_create=True, naming=naming)
    return uri


def measure_thoroughly(uri: str, *, progress: Callable[[str], None]) -> Measurements:
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
