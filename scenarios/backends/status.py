"""Can a backend be started here? For listings and for skipping with a reason; nothing is started."""

from __future__ import annotations

from dataclasses import dataclass

from lockref.errors import BackendUnavailable
from lockref.java import find_java
from scenarios.backends.docker import docker_engine, image_is_there, image_reference, why_no_engine
from scenarios.backends.environments import choose_native, find_uv, is_built
from scenarios.backends.pins import BACKENDS, Image, NodeNative
from scenarios.backends.start import find_backend
from scenarios.backends.zookeeper import ZOOKEEPERS, jars_version, unavailable
from scenarios.backends.zookeeper_container import IMAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendStatus:
    """Whether a backend can be started, and why or why not, in one line.

    version: the one that would run; "" if none would. is_installed: no download is needed.
    """

    available: bool
    reason: str
    version: str = ""
    is_installed: bool = False


def all_statuses() -> list[dict[str, object]]:
    """One row for each server and each way to start it."""
    problem, version = unavailable(), jars_version()
    coordination: list[dict[str, object]] = [
        {
            "name": name,
            "via": "native",
            "available": not problem,
            "version": version,
            "reason": problem or f"from PySpark's jars, {find_java()}",
            "about": f"Apache ZooKeeper, {count} server{'s' if count > 1 else ''}: for `lockref cluster` and `bench`",
        }
        for name, count in ZOOKEEPERS.items()
    ]
    contained = _image_status("zookeeper", IMAGE)
    coordination.insert(
        1,
        {
            "name": "zookeeper",
            "via": "docker",
            "available": contained.available,
            "version": contained.version,
            "reason": contained.reason,
            "about": "Apache ZooKeeper, 1 server, as a container",
        },
    )
    stores: list[dict[str, object]] = [
        {
            "name": name,
            "via": via,
            "available": status.available,
            "version": status.version,
            "reason": status.reason,
            "about": backend.description,
        }
        for name, backend in BACKENDS.items()
        for via in ("native", "docker")
        for status in [backend_status(name, via=via)]
    ]
    return [*stores, *coordination]


def backend_status(name: str, *, via: str = "native") -> BackendStatus:
    """Errors: ConfigError for an unknown name."""
    backend = find_backend(name)
    if via == "docker":
        if backend.image is None:
            return BackendStatus(available=False, reason="no image of it is pinned")
        return _image_status(name, backend.image)
    try:
        native, interpreter = choose_native(backend)
    except BackendUnavailable as error:
        return BackendStatus(available=False, reason=str(error))
    if is_built(backend, native, interpreter):
        return BackendStatus(
            available=True, reason=f"installed, {interpreter}", version=native.version, is_installed=True
        )
    installer = "npm" if isinstance(native, NodeNative) else "uv" if find_uv() else "pip"
    return BackendStatus(
        available=True, reason=f"{installer} installs it on first use, {interpreter}", version=native.version
    )


def _image_status(name: str, image: Image) -> BackendStatus:
    engine = docker_engine()
    if engine is None:
        return BackendStatus(available=False, reason=why_no_engine())
    reference = image_reference(name, image)
    is_there = image_is_there(reference)
    fetched = "" if is_there else ", which fetches it on first use"
    return BackendStatus(
        available=True,
        reason=f"{reference} on engine {engine}{fetched}",
        version=image.version if reference == image.reference else "",
        is_installed=is_there,
    )
