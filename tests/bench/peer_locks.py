"""Locks on object stores, tables, ZooKeeper and PostgreSQL behind one handle, each with its requests counted."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from lockref.clouds.tables import table_channel
from lockref.clouds.uri import client_library, open_store, parse_store_uri
from lockref.dynamodb.table import TABLE
from lockref.errors import BackendUnavailable, OutcomeUnknown
from lockref.lab.loading import load_provider
from lockref.ports import Channel, Reply, Request
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.client import StoreChannel
from lockref.stores.port import ObjectStore
from lockref.temporary_folders import owned_folder
from lockref.words import Outcome
from scenarios.backends import start_backend, table_uri
from scenarios.backends.server_process import free_port
from scenarios.backends.zookeeper import jars_version, started_zookeeper

TIMEOUT_NS: Final = 20 * NS_PER_S
KEY: Final = "frontier/lock"
_POLL_S: Final = 0.05
"""The pause of the naive loop: many scripts have one like it."""


class Handle(Protocol):
    """One contender's hold on the lock."""

    def acquire(self, timeout_s: float) -> bool: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class Tally:
    """Requests of all contenders. One step of a counter in C, so that threads lose none."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self.add: Callable[[], int] = self._count.__next__

    def take(self) -> int:
        """The number of requests so far. Asking is no request."""
        return int(repr(self._count)[len("count(") : -1])


@dataclass
class Peer:
    """A lock to measure. where: its server. client: the library that sends its requests."""

    name: str
    where: str
    client: str
    open: Callable[[], Handle]
    tally: Tally = field(default_factory=Tally)


class _Counted:
    """A channel whose requests are counted."""

    def __init__(self, channel: Channel, tally: Tally) -> None:
        self._channel, self._tally = channel, tally

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, request: Request, timeout_ns: int) -> Reply:
        self._tally.add()
        return self._channel.send(request, timeout_ns)


class _CountedStore:
    """A store whose requests are counted."""

    def __init__(self, store: ObjectStore, tally: Tally) -> None:
        self._store, self._tally = store, tally

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("read", "put_if_absent", "put_if_version", "put", "delete"):
            self._tally.add()
        return found


@dataclass
class _Provided:
    """A lock of the laboratory."""

    lock: Any

    def acquire(self, timeout_s: float) -> bool:
        """False also where the time was over before the answer was known."""
        try:
            return bool(self.lock.lock(timeout_s))
        except OutcomeUnknown:
            return False

    def release(self) -> None:
        self.lock.unlock()

    def close(self) -> None:
        self.lock.close()


@dataclass
class _Naive:
    """Creates an object, or asks again after a fixed pause; deletes it. A dead holder keeps it for ever."""

    store: Any

    def acquire(self, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        while self.store.put_if_absent(f"{KEY}-naive", b"mine").outcome is not Outcome.APPLIED:
            if time.monotonic() + _POLL_S > until:
                return False
            time.sleep(_POLL_S)
        return True

    def release(self) -> None:
        self.store.delete(f"{KEY}-naive")

    def close(self) -> None: ...


class _Kazoo:
    """kazoo's Lock recipe, a session for each contender."""

    def __init__(self, hosts: str, tally: Tally) -> None:
        self._client = KazooClient(hosts=hosts, timeout=30)
        self._client.start(timeout=60)
        send = self._client._call

        def counted(request: object, answer: object) -> object:
            tally.add()
            return send(request, answer)

        self._client._call = counted
        self._lock = self._client.Lock(f"/{KEY}", "contender")

    def acquire(self, timeout_s: float) -> bool:
        try:
            return bool(self._lock.acquire(timeout=timeout_s))
        except LockTimeout:
            return False

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.stop()
        self._client.close()


class _Advisory:
    """PostgreSQL's session-level advisory lock, a connection for each contender. The server wakes the next waiter."""

    def __init__(self, address: str, tally: Tally) -> None:
        import psycopg

        self._connection = psycopg.connect(address, autocommit=True)
        self._refused = psycopg.errors.LockNotAvailable
        self._tally = tally

    def acquire(self, timeout_s: float) -> bool:
        self._tally.add()
        try:
            self._connection.execute(
                f"SET lock_timeout = {max(1, round(timeout_s * 1000))}; SELECT pg_advisory_lock(7)"
            )
        except self._refused:
            return False
        return True

    def release(self) -> None:
        self._tally.add()
        self._connection.execute("SELECT pg_advisory_unlock(7)")

    def close(self) -> None:
        self._connection.close()


def _provided(build: str, key: str, *, store: ObjectStore | None, channel: Channel | None) -> Handle:
    settings = LockSettings(
        key=key, validity_ns=300 * NS_PER_S, renew_interval_ns=30 * NS_PER_S, poll_interval_ns=NS_PER_S
    )
    on_store = StoreChannel(store) if store is not None else None
    context = LockContext(
        runtime=ThreadRuntime(),
        open_store=lambda _timeout: store,
        open_port=lambda kind, timeout_ns, _service: kind.over(channel if kind is TABLE else on_store, timeout_ns),
        settings=settings,
    )
    return _Provided(load_provider(build).factory(context))


@contextlib.contextmanager
def on_a_store(build: str, server: str, pool: int) -> Iterator[Peer]:
    """A lock of the laboratory, or `naive`, on a server with objects; all contenders share a pool of connections."""
    with start_backend(server) as running:
        store = open_store(running.uri, request_timeout_ns=TIMEOUT_NS, pool_size=pool)
        with contextlib.closing(store):
            client = client_library(parse_store_uri(running.uri))
            peer = Peer(build, f"{running.name} {running.version}", client, open=lambda: _Naive(counted))
            counted: Any = _CountedStore(store, peer.tally)
            if build != "naive":
                peer.open = lambda: _provided(build, KEY, store=counted, channel=None)
            yield peer


@contextlib.contextmanager
def on_a_table(build: str, server: str, pool: int) -> Iterator[Peer]:
    """A lease in a row of a table."""
    with start_backend(server) as running:
        address = parse_store_uri(table_uri(running))
        channel = table_channel(address, request_timeout_ns=TIMEOUT_NS, pool_size=pool)
        with contextlib.closing(channel):
            peer = Peer(build, f"{running.name} {running.version}", client_library(address), open=lambda: made())
            counted: Any = _Counted(channel, peer.tally)

            def made() -> Handle:
                return _provided(build, KEY, store=None, channel=counted)

            yield peer


@contextlib.contextmanager
def kazoo_lock(_pool: int) -> Iterator[Peer]:
    """kazoo's Lock on one ZooKeeper."""
    with started_zookeeper() as servers:
        client = client_library(parse_store_uri(f"zookeeper://{servers.hosts}"))
        peer = Peer("kazoo Lock", f"ZooKeeper {jars_version()}", client, open=lambda: _Kazoo(servers.hosts, peer.tally))
        yield peer


@contextlib.contextmanager
def advisory_lock(pool: int) -> Iterator[Peer]:
    """PostgreSQL's advisory lock. Errors: BackendUnavailable without a server or its client."""
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise BackendUnavailable("psycopg is not installed") from error
    if which("initdb") is None or which("postgres") is None:
        raise BackendUnavailable("initdb and postgres are not on the path")
    # PostgreSQL refuses to be run by root.
    by = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with owned_folder("postgres") as folder:
        if by:
            subprocess.run(["chown", "-R", "postgres", str(folder)], check=True)
        data, port = folder / "data", free_port()
        subprocess.run(
            [*by, "initdb", "-D", str(data), "-A", "trust", "-U", "postgres"], check=True, capture_output=True, cwd="/"
        )
        options = ("-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", f"max_connections={pool + 10}")
        log = (folder / "log").open("wb")
        server = subprocess.Popen([*by, "postgres", "-D", str(data), *options], stdout=log, stderr=log, cwd="/")
        try:
            address = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
            version = _ready(address)
            yield (
                peer := Peer(
                    "advisory lock",
                    f"PostgreSQL {version}",
                    f"psycopg {psycopg.__version__}",
                    open=lambda: _Advisory(address, peer.tally),
                )
            )
        finally:
            _postmaster_ended(data)
            server.wait(30)
            log.close()


def _ready(address: str, patience_s: float = 60) -> str:
    """The version of a server, once it answers."""
    import psycopg

    until = time.monotonic() + patience_s
    while True:
        try:
            with psycopg.connect(address) as connection:
                return str(connection.info.server_version // 10_000)
        except psycopg.OperationalError as error:
            if time.monotonic() > until:
                raise BackendUnavailable(f"PostgreSQL did not get ready: {error}") from error
            time.sleep(0.1)


def _postmaster_ended(data: Path) -> None:
    """Ask the server to end at once: the process that was started may be its user's shell."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((data / "postmaster.pid").read_text(encoding="ascii").split()[0]), 3)
