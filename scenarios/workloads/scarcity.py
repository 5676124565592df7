"""A machine that has run out of threads: the one shortage that a lock meets while it locks (U8, H10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockref.errors import LockError
from lockref.runtime import Runtime, Task
from scenarios.definition.client_profile import ClientProfile


class NoThread(LockError, RuntimeError):
    """The system had no thread to give.

    A RuntimeError, as Python raises it; a LockError, because a lock that lets it
    through has answered its caller honestly.
    """


class _ScarceRuntime:
    """Another runtime, except that its first `refusals` spawns fail."""

    def __init__(self, runtime: Runtime, refusals: int) -> None:
        self._runtime = runtime
        self._refusals = refusals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        if self._refusals:
            self._refusals -= 1
            raise NoThread(f"can't start new thread {name!r}")
        return self._runtime.spawn(work, name=name)


def runtime_for(runtime: Runtime, profile: ClientProfile) -> Runtime:
    """The runtime that a lock gets: the machine's own, or one with too few threads."""
    if not profile.refused_threads:
        return runtime
    scarce: Any = _ScarceRuntime(runtime, profile.refused_threads)
    found: Runtime = scarce
    return found
