"""Can a backend be started here? For listings and for skipping with a reason; nothing is started."""

from __future__ import annotations

from dataclasses import dataclass

from lockref.errors import BackendUnavailable
from scenarios.backends.docker import docker_engine, image_is_there, image_reference, why_no_engine
from scenarios.backends.environments import choose_native, find_uv, is_built
from scenarios.backends.pins import BACKENDS, Image, NodeNative
from scenarios.backends.start import VIA, find_backend


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendStatus:
    """Whether a backend can be started, and why or why not, in one line.

    version: the one that would run; "" if none would. is_installed: no download is needed.
    """

    available: bool
    reason: str
    version: str = ""
    is_installed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """A row of the listing: one server and one way to start it.

    version: the one that would run; "" if none would. reason: why it can be started, or why not. about: what it is.
    """

    name: str
    via: str
    available: bool
    version: str
    reason: str
    about: str


def store_statuses() -> list[StatusRow]:
    """Rows for each server of BACKENDS."""
    return [
        StatusRow(
            name=name,
            via=via,
            available=status.available,
            version=status.version,
            reason=status.reason,
            about=backend.description,
        )
        for name, backend in BACKENDS.items()
        for via in VIA
        for status in [backend_status(name, via=via)]
    ]


def backend_status(name: str, *, via: str = "native") -> BackendStatus:
    """Errors: ConfigError for an unknown name."""
    backend = find_backend(name)
    if via == "docker":
        if backend.image is None:
            return BackendStatus(available=False, reason="no image of it is pinned")
        return image_status(name, backend.image)
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


def image_status(name: str, image: Image) -> BackendStatus:
    """Whether a container of an image can be started."""
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
