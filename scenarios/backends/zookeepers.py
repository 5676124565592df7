"""The ZooKeepers that are started by name: a server, and an ensemble of three."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

from lockref.errors import CapabilityMissing
from lockref.java import find_java
from scenarios.backends.readiness import RunningBackend
from scenarios.backends.status import StatusRow, image_status
from scenarios.backends.zookeeper import ZooKeeperServers, jars_version, started_zookeeper, unavailable
from scenarios.backends.zookeeper_container import IMAGE, ContainedZooKeeper, contained_zookeeper

ZOOKEEPERS: Final = {"zookeeper": 1, "zookeeper-ensemble": 3}
"""The names that may be started, and how many servers each is."""


@contextlib.contextmanager
def started_by_name(name: str, via: str) -> Iterator[RunningBackend]:
    """One of ZOOKEEPERS, stopped on the way out.

    Errors: CapabilityMissing for several servers in containers; BackendUnavailable if it does not get ready.
    """
    with _starting(name, via) as servers:
        pids = tuple(servers.pids) if isinstance(servers, ZooKeeperServers) else ()
        yield RunningBackend(name=name, uri=servers.uri, version=servers.version, pids=pids)


def _starting(name: str, via: str) -> AbstractContextManager[ZooKeeperServers | ContainedZooKeeper]:
    if via == "native":
        return started_zookeeper(servers=ZOOKEEPERS[name])
    if ZOOKEEPERS[name] > 1:
        raise CapabilityMissing(
            f"{name} is started natively only: in containers its servers would listen beyond this machine; leave out "
            f"`--via {via}`, or take zookeeper"
        )
    return contained_zookeeper()


def zookeeper_statuses() -> list[StatusRow]:
    """Rows for each of ZOOKEEPERS. Only a single server has a row as a container."""
    rows = []
    for name, count in ZOOKEEPERS.items():
        rows.append(_native_status(name, count))
        if count == 1:
            rows.append(_contained_status(name))
    return rows


def _native_status(name: str, count: int) -> StatusRow:
    problem = unavailable()
    return StatusRow(
        name=name,
        via="native",
        available=not problem,
        version=jars_version(),
        reason=problem or f"from PySpark's jars, {find_java()}",
        about=f"Apache ZooKeeper, {count} server{'s' if count > 1 else ''}: for `lockref cluster` and `bench`",
    )


def _contained_status(name: str) -> StatusRow:
    contained = image_status(name, IMAGE)
    return StatusRow(
        name=name,
        via="docker",
        available=contained.available,
        version=contained.version,
        reason=contained.reason,
        about="Apache ZooKeeper, 1 server, as a container",
    )
