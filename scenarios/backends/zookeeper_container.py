"""ZooKeeper as a container, where a Docker engine answers: one server, with the settings of those that run natively.

An ensemble is native only. In containers it needs a network of its own, on which servers listen beyond this machine.

Source of the variables: the entry point of the image `zookeeper` (github.com/31z4/zookeeper-docker).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.temporary_folders import owned_folder
from scenarios.backends.docker import RunningContainer, container_of
from scenarios.backends.pins import LOOPBACK, Image, Launch
from scenarios.backends.zookeeper import FOUR_LETTER_WORDS, READY_TIMEOUT_S, SESSION_MS_MAX, TICK_MS, ask, require_write

_PAUSE_S: Final = 0.1


def _launch(_port: int) -> Launch:
    bounds = f"minSessionTimeout={2 * TICK_MS} maxSessionTimeout={SESSION_MS_MAX}"
    env = {
        "ZOO_TICK_TIME": str(TICK_MS),
        "ZOO_MAX_CLIENT_CNXNS": "0",
        "ZOO_ADMINSERVER_ENABLED": "false",
        "ZOO_4LW_COMMANDS_WHITELIST": FOUR_LETTER_WORDS,
        "ZOO_CFG_EXTRA": bounds,
        "JVMFLAGS": "-Xmx256m",
    }
    return Launch(argv=(), env=env)


IMAGE: Final = Image(version="3.9.4", reference="zookeeper:3.9.4", port=2181, launch=_launch)
"""The version that is in PySpark's jars, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainedZooKeeper:
    """A server that is ready. hosts: what a client connects to. ready_s: from the start of the container."""

    hosts: str
    ready_s: float
    version: str

    @property
    def uri(self) -> str:
        """For `--backend` and `--zookeeper`."""
        return f"zookeeper://{self.hosts}"


@contextlib.contextmanager
def contained_zookeeper(
    *, timeout_s: float = READY_TIMEOUT_S, log_path: Path | None = None
) -> Iterator[ContainedZooKeeper]:
    """Start the pinned image, wait until it says `rw` to `isro` and has taken a write, stop it on the way out.

    log_path: where its log stays; without one it goes.
    Errors: BackendUnavailable if no engine answers, the image cannot be had, or the server does not get ready.
    """
    with owned_folder("zookeeper") as folder:
        kept = folder / "zookeeper.log" if log_path is None else log_path
        started_s = time.monotonic()
        with container_of("zookeeper", IMAGE, log_path=kept, folder=folder) as container:
            _await_ready(container, timeout_s)
            hosts = f"{LOOPBACK}:{container.port}"
            require_write(hosts)
            yield ContainedZooKeeper(hosts=hosts, ready_s=time.monotonic() - started_s, version=container.version)


def _await_ready(container: RunningContainer, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while ask(container.port, "isro").strip() != "rw":
        if container.has_ended:
            raise BackendUnavailable(f"zookeeper ended while starting; its last lines:\n{container.log_tail()}")
        if time.monotonic() > deadline_s:
            raise BackendUnavailable(
                f"zookeeper was not ready after {timeout_s:g} s; its last lines:\n{container.log_tail()}"
            )
        time.sleep(_PAUSE_S)
