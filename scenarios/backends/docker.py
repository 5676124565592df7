"""The same servers as containers, where a Docker engine answers.

testcontainers starts the pinned image, or another one that the user names, and publishes its port on loopback alone.
testcontainers' own reaper is switched off: that is one more image to fetch. A process of ours (`container_guard.py`)
removes each container instead, whatever ends us.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lockref.errors import BackendUnavailable
from lockref.runtime import ThreadRuntime
from scenarios.backends.container_guard import CONTAINER_GUARD, STOP
from scenarios.backends.pins import LOOPBACK, Backend, Image
from scenarios.backends.readiness import PortTaken, RunningBackend, await_ready, local_address, store_uri
from scenarios.backends.server_process import LOG_LINES, free_port, is_loopback_address

LABEL: Final = "lockref"
"""Every container of ours has it; its value is the server's name: `docker ps --all --filter label=lockref`."""

_ENGINE_TIMEOUT_S: Final = 3
_SOCKET_DEFAULT: Final = "unix:///var/run/docker.sock"
_PORT_TRIES: Final = 3
_GUARD_TIMEOUT_S: Final = 60
_CLIENT_PACKAGES: Final = ("docker", "testcontainers")


class ImageMissing(BackendUnavailable):
    """The engine does not have an image, and cannot fetch it."""


def docker_engine() -> str | None:
    """The version of the Docker engine that answers; None if none does, or if we have no client for it."""
    if _missing_packages() or not _something_listens(engine_address()):
        return None
    try:
        with _engine() as client:
            return str(client.version()["Version"])
    except BackendUnavailable:
        return None


def why_no_engine() -> str:
    """Why `docker_engine` is None, and what would change that."""
    missing = _missing_packages()
    if missing:
        return f"{' and '.join(missing)} not installed: pip install 'lockref[containers]'"
    return f"no Docker engine answers at {engine_address()}"


def _missing_packages() -> list[str]:
    """The packages of the engine's client that are not installed. They are the extra `containers` of this package."""
    return [name for name in _CLIENT_PACKAGES if importlib.util.find_spec(name) is None]


def engine_address() -> str:
    """The address of the Docker engine: DOCKER_HOST, the context of `docker context use`, or the usual socket."""
    try:
        from testcontainers.core.docker_client import get_docker_host
    except ModuleNotFoundError:
        return _SOCKET_DEFAULT
    return str(get_docker_host() or _SOCKET_DEFAULT)


def _engine_environment() -> dict[str, str]:
    """Our environment, with the address that testcontainers has found."""
    return {**os.environ, "DOCKER_HOST": engine_address()}


def image_variable(name: str) -> str:
    """The environment variable that names another image of a server."""
    return f"LOCKREF_IMAGE_{name.upper().replace('-', '_')}"


def image_reference(name: str, image: Image) -> str:
    """The image that is started: the pinned one, unless the environment names another."""
    return os.environ.get(image_variable(name)) or image.reference


def image_is_there(reference: str) -> bool:
    """Does the engine have it, so that nothing has to be fetched? Errors: BackendUnavailable if no engine answers."""
    from docker.errors import ImageNotFound

    with _engine() as client:
        try:
            client.images.get(reference)
        except ImageNotFound:
            return False
        return True


@contextlib.contextmanager
def _engine() -> Iterator[Any]:
    """A client of the engine that answers soon. Errors: as `_engine_errors`."""
    import docker

    with _engine_errors():
        client = docker.from_env(timeout=_ENGINE_TIMEOUT_S, environment=_engine_environment())
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Errors: BackendUnavailable in the place of what the engine's client raises."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise BackendUnavailable(f"the Docker engine at {engine_address()} does not answer: {error}") from error


def _something_listens(host: str) -> bool:
    """True if an engine listens. This is asked first because the client leaves sockets open when nothing answers."""
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


def _require_local_engine(name: str) -> None:
    """Errors: BackendUnavailable if the engine is on another machine, whose loopback is not ours."""
    host = urlsplit(engine_address()).hostname
    if host is None or host == "localhost":
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    raise BackendUnavailable(
        f"{name} via docker: the engine at {engine_address()} is on another machine, and a container is published on "
        f"the loopback of its own; start {name} there, and name its URI here"
    )


def _require_published(name: str, ports: dict[str, list[dict[str, str]] | None], *, inside: int) -> None:
    """Errors: BackendUnavailable if the engine published a port beyond this machine, or not the one inside at all."""
    public = [
        f"{place['HostIp']}:{place['HostPort']}"
        for places in ports.values()
        for place in places or []
        if not is_loopback_address(place["HostIp"])
    ]
    if public:
        raise BackendUnavailable(f"the container of {name} is published on {', '.join(public)}: stopped")
    if not ports.get(f"{inside}/tcp"):
        raise BackendUnavailable(
            f"the engine published no port of the container of {name}: containers need the engine's bridge network "
            "(dockerd without `--bridge=none`)"
        )


class RunningContainer:
    """A container of ours, as its readiness loop sees it. port: on this machine's loopback.

    version: of the server, if this is the pinned image; else the name of the image and its id.
    Errors: BackendUnavailable from everything that asks the engine, if the engine does not answer.
    """

    def __init__(self, container: Any, *, port: int, version: str) -> None:
        self._container = container
        self.port = port
        self.version = version

    @property
    def has_ended(self) -> bool:
        return self._reloaded().status in ("exited", "dead")

    @property
    def pid(self) -> int | None:
        return int(self._reloaded().attrs["State"]["Pid"]) or None

    def require_published(self, name: str, *, inside: int) -> None:
        """Errors: BackendUnavailable if the port inside is not published, or anything beyond this machine."""
        reloaded = self._reloaded()
        # A container that has ended has no ports. Its readiness loop tells why it ended.
        if reloaded.status == "running":
            _require_published(name, reloaded.attrs["NetworkSettings"]["Ports"], inside=inside)

    def log_tail(self) -> str:
        with _engine_errors():
            raw = self._container.get_wrapped_container().logs(tail=LOG_LINES)
        return str(raw.decode("utf-8", errors="replace")) or "(its log is empty)"

    def _reloaded(self) -> Any:
        wrapped = self._container.get_wrapped_container()
        with _engine_errors():
            wrapped.reload()
        return wrapped


@contextlib.contextmanager
def container_of(name: str, image: Image, *, log_path: Path, folder: Path) -> Iterator[RunningContainer]:
    """Start an image with its port on loopback; it ends on the way out, and its log is kept.

    folder: removed if our process dies without stopping the container.
    Errors: BackendUnavailable if no engine answers, or the container cannot be started; ImageMissing if the image
        cannot be had.
    """
    if _missing_packages():
        raise BackendUnavailable(f"{name} via docker: {why_no_engine()}, or run it natively")
    if docker_engine() is None:
        raise BackendUnavailable(
            f"{name} via docker: {why_no_engine()}; start one, name its address by DOCKER_HOST, or run it natively"
        )
    _require_local_engine(name)
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    for tries_left in reversed(range(_PORT_TRIES)):
        with contextlib.ExitStack() as stack:
            try:
                container = stack.enter_context(_started(name, image, log_path=log_path, folder=folder))
            except PortTaken:
                # Somebody was quicker than the engine: another port.
                if not tries_left:
                    raise
                continue
            yield container
            return


@contextlib.contextmanager
def _started(name: str, image: Image, *, log_path: Path, folder: Path) -> Iterator[RunningContainer]:
    from testcontainers.core.container import DockerContainer

    port = free_port()
    launch = image.launch(port)
    own_name = f"{LABEL}-{name}-{ThreadRuntime().token_bytes(4).hex()}"
    with _engine_errors():
        container = DockerContainer(image_reference(name, image))
    container.with_kwargs(labels={LABEL: name}).with_name(own_name)
    # Not `with_bind_ports`: it publishes on every interface.
    published: dict[str, Any] = container.ports
    published[f"{image.port}/tcp"] = (LOOPBACK, port)
    if launch.argv:
        container.with_command(list(launch.argv))
    for variable, value in launch.env.items():
        container.with_env(variable, value)
    client = container.get_docker_client().client
    with contextlib.closing(client), _guarded(own_name, log_path=log_path, folder=folder):
        image_id = _fetched(name, client, container.image)
        try:
            with _engine_errors():
                container.start()
        except BackendUnavailable as error:
            is_taken = any(words in str(error) for words in ("port is already allocated", "address already in use"))
            kind = PortTaken if is_taken else BackendUnavailable
            raise kind(f"the container of {name} ({container.image}) did not start: {error.__cause__}") from error
        is_pinned = container.image == image.reference
        version = image.version if is_pinned else f"{container.image} ({image_id})"
        running = RunningContainer(container, port=port, version=version)
        running.require_published(name, inside=image.port)
        yield running


def _fetched(name: str, client: Any, reference: str) -> str:
    """The short id of an image, which is fetched if the engine does not have it yet. Errors: ImageMissing."""
    from docker.errors import ImageNotFound

    try:
        with _engine_errors():
            try:
                image = client.images.get(reference)
            except ImageNotFound:
                image = client.images.pull(reference)
    except BackendUnavailable as error:
        why = getattr(error.__cause__, "explanation", None) or error.__cause__
        raise ImageMissing(
            f"{name} via docker: the engine does not have the image {reference} and cannot fetch it ({why}); bring it "
            f"there with `docker load`, or name one that is there by {image_variable(name)}=IMAGE"
        ) from error
    return str(image.id).removeprefix("sha256:")[:12]


@contextlib.contextmanager
def _guarded(container: str, *, log_path: Path, folder: Path) -> Iterator[None]:
    """For the length of the block, a process of its own waits to remove the container of that name. At the end it does.

    It begins before the container does, so that there is no moment in which our death would leave one behind. It has a
    session of its own: a Ctrl-C at the terminal does not reach it.
    """
    guard = subprocess.Popen(
        [sys.executable, "-I", str(CONTAINER_GUARD), container, str(log_path), str(folder)],
        stdin=subprocess.PIPE,
        env=_engine_environment(),
        start_new_session=True,
    )
    assert guard.stdin is not None
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError), guard.stdin as pipe:
            pipe.write(STOP)
        guard.wait(_GUARD_TIMEOUT_S)


@contextlib.contextmanager
def started_container(
    backend: Backend, *, bucket: str, timeout_s: float, log_path: Path, folder: Path
) -> Iterator[RunningBackend]:
    """Start the image, wait until the server is ready, remove the container on the way out.

    Errors: BackendUnavailable if no engine answers, the image cannot be had, or
        the server does not get ready.
    """
    image = backend.image
    if image is None:
        raise BackendUnavailable(f"{backend.name} via docker: no image of it is pinned; run it natively")
    started_s = time.monotonic()
    with container_of(backend.name, image, log_path=log_path, folder=folder) as container:
        address = local_address(backend, port=container.port, bucket=bucket)
        await_ready(container, address, timeout_s=timeout_s, tolerated=backend.known_defects)
        yield RunningBackend(
            name=backend.name,
            uri=store_uri(address),
            version=container.version,
            pid=container.pid,
            log_path=log_path,
            ready_s=time.monotonic() - started_s,
        )
