"""Real servers for real locks: which there are, whether they run here, and running them."""

from __future__ import annotations

from scenarios.backends.docker import docker_engine
from scenarios.backends.hosts import is_started_here, require_known, require_objects, resolve_backend
from scenarios.backends.pins import BACKENDS, Backend
from scenarios.backends.readiness import RunningBackend
from scenarios.backends.start import start_backend, table_uri
from scenarios.backends.status import BackendStatus, backend_status

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendStatus",
    "RunningBackend",
    "backend_status",
    "docker_engine",
    "is_started_here",
    "require_known",
    "require_objects",
    "resolve_backend",
    "start_backend",
    "table_uri",
]
