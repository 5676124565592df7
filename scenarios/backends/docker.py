"""The same servers as containers, where a Docker engine answers.

testcontainers starts the pinned image and publishes its port on loopback
alone. Its reaper is switched off: that is one more image to fetch, and a
container that we started we also stop.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lockref.errors import BackendUnavailable
from scenarios.backends.pins import LOOPBACK, Backend, Image
from scenarios.backends.readiness import RunningBackend, await_ready, local_address, store_uri
from scenarios.backends.server_process import LOG_LINES, free_port, is_loopback_address

_ENGINE_TIMEOUT_S: Final = 3
_SOCKET_DEFAULT: Final = "unix:///var/run/docker.sock"


def docker_engine() -> str | None:
    """The version of the Docker engine that answers, or None."""
    if not _something_listens(os.environ.get("DOCKER_HOST") or _SOCKET_DEFAULT):
        return None
    try:
        import docker
        from docker.errors import DockerException
    except ModuleNotFoundError:
        return None
    try:
        client = docker.from_env(timeout=_ENGINE_TIMEOUT_S)
    except DockerException:
        return None
    try:
        return str(client.version()["Version"])
    except DockerException:
        return None
    finally:
        client.close()


def _something_listens(host: str) -> bool:
    """Asked first because the client leaves sockets open when nobody answers it."""
    parts = urlsplit(host)
    try:
        if parts.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_ENGINE_TIMEOUT_S)
                probe.connect(parts.path)
        elif parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), timeout=_ENGINE_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _require_loopback(name: str, ports: dict[str, list[dict[str, str]] | None]) -> None:
    """Errors: BackendUnavailable if the engine published a port beyond this machine."""
    public = [
        f"{place['HostIp']}:{place['HostPort']}"
        for places in ports.values()
        for place in places or []
        if not is_loopback_address(place["HostIp"])
    ]
    if public:
        raise BackendUnavailable(f"the container of {name} is published on {', '.join(public)}: stopped")


class RunningContainer:
    """A container of ours, as its readiness loop sees it. port: on this machine's loopback."""

    def __init__(self, container: Any, port: int) -> None:
        self._container = container
        self.port = port

    @property
    def has_ended(self) -> bool:
        return self._reloaded().status in ("exited", "dead")

    @property
    def pid(self) -> int | None:
        return int(self._reloaded().attrs["State"]["Pid"]) or None

    def require_loopback(self, name: str) -> None:
        """Errors: BackendUnavailable if the engine published a port beyond this machine."""
        _require_loopback(name, self._reloaded().attrs["NetworkSettings"]["Ports"])

    def log_tail(self) -> str:
        raw = self._container.get_wrapped_container().logs(tail=LOG_LINES)
        return str(raw.decode("utf-8", errors="replace")) or "(its log is empty)"

    def _reloaded(self) -> Any:
        wrapped = self._container.get_wrapped_container()
        wrapped.reload()
        return wrapped


@contextlib.contextmanager
def container_of(name: str, image: Image, *, log_path: Path) -> Iterator[RunningContainer]:
    """Start an image with its port on loopback; it ends on the way out, and its log is kept.

    Errors: BackendUnavailable if no engine answers, or the image cannot be had.
    """
    if docker_engine() is None:
        raise BackendUnavailable(f"{name} via docker: no Docker engine answers; start one or run it natively")
    from docker.errors import DockerException

    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    port = free_port()
    launch = image.launch(port)
    container = DockerContainer(image.reference)
    # Not `with_bind_ports`: it publishes on every interface.
    published: dict[str, Any] = container.ports
    published[f"{image.port}/tcp"] = (LOOPBACK, port)
    if launch.argv:
        container.with_command(list(launch.argv))
    for variable, value in launch.env.items():
        container.with_env(variable, value)
    try:
        container.start()
    except DockerException as error:
        raise BackendUnavailable(f"the image {image.reference} of {name} did not start: {error}") from error
    try:
        yield RunningContainer(container, port)
    finally:
        try:
            log_path.write_bytes(container.get_wrapped_container().logs())
        finally:
            container.stop()


@contextlib.contextmanager
def started_container(backend: Backend, *, bucket: str, timeout_s: float, log_path: Path) -> Iterator[RunningBackend]:
    """Start the pinned image, wait until it is ready, stop it on the way out.

    Errors: BackendUnavailable if no engine answers, the image cannot be had, or
        the server does not get ready.
    """
    image = backend.image
    if image is None:
        raise BackendUnavailable(f"{backend.name} via docker: no image of it is pinned; run it natively")
    started_s = time.monotonic()
    with container_of(backend.name, image, log_path=log_path) as container:
        address = local_address(backend, port=container.port, bucket=bucket)
        await_ready(container, address, timeout_s=timeout_s, tolerated=backend.known_defects)
        ready_s = time.monotonic() - started_s
        container.require_loopback(backend.name)
        yield RunningBackend(
            name=backend.name,
            uri=store_uri(address),
            version=image.version,
            pid=container.pid,
            log_path=log_path,
            ready_s=ready_s,
        )
