"""Is the server of a soak still there? A soak whose server has gone ends, and does not fill hours with failed calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

import psutil

from lockref.clouds.uri import parse_store_uri
from lockref.errors import BackendUnavailable, LockrefError
from lockref.runtime import NS_PER_S, Event, Task, ThreadRuntime
from lockref.services import service_kind
from scenarios.backends import RunningBackend

LOOK_NS: Final = NS_PER_S
ASK_EVERY_NS: Final = 5 * NS_PER_S
ASK_TIMEOUT_NS: Final = 5 * NS_PER_S
SILENCES: Final = 3
"""A server that did not answer so many times in a row is gone; one alone may be a fault, or a restart."""


@final
class ServerWatch:
    """Looks after a server from a thread of its own while its context lasts.

    running: the server. stands_on: the kind of its service. key: a key like those of the locks, which is asked for:
    an account may be allowed no others. is_struck: faults of the plan stop it and start it again,
    so that its process may be gone for a while.
    """

    def __init__(
        self, running: RunningBackend, *, stands_on: str, key: str, is_struck: bool, runtime: ThreadRuntime
    ) -> None:
        self._running = running
        self._kind = service_kind(stands_on)
        self._key = key
        self._is_struck = is_struck
        self._runtime = runtime
        self._is_over: Event = runtime.event()
        self._task: Task | None = None
        self._began_ns = 0
        self._gone: BackendUnavailable | None = None

    @property
    def gone(self) -> BackendUnavailable | None:
        """Why and when the server went away; None while it is there."""
        return self._gone

    def __enter__(self) -> ServerWatch:
        self._task = self._runtime.spawn(self._watch, name="server-watch")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._task is not None:
            self._task.join()

    def raise_if_gone(self, raise_if_interrupted: Callable[[], None]) -> Callable[[], None]:
        """A function for `run_real` that cuts the run off once the server is gone, or Ctrl-C was heard."""

        def asked() -> None:
            # Asked from when the clients begin, and not before.
            self._began_ns = self._began_ns or self._runtime.monotonic_ns()
            raise_if_interrupted()
            if self._gone is not None:
                raise KeyboardInterrupt

        return asked

    def _watch(self) -> None:
        silences, asked_ns = 0, self._runtime.monotonic_ns()
        while not self._is_over.wait(LOOK_NS):
            if not self._is_struck and self._has_ended():
                self._note("its process ended")
                return
            if self._runtime.monotonic_ns() - asked_ns < ASK_EVERY_NS:
                continue
            try:
                self._kind.require(parse_store_uri(self._running.uri), self._key, ASK_TIMEOUT_NS)
                silences = 0
            except LockrefError as error:
                silences += 1
                if silences == SILENCES:
                    self._note(f"it did not answer {SILENCES} times in a row ({error})")
                    return
            asked_ns = self._runtime.monotonic_ns()

    def _has_ended(self) -> bool:
        if self._running.server is not None:
            return self._running.server.process.has_ended
        return bool(self._running.pids) and not any(_runs(pid) for pid in self._running.pids)

    def _note(self, what: str) -> None:
        now_ns = self._runtime.monotonic_ns()
        worked_s = (now_ns - (self._began_ns or now_ns)) // NS_PER_S
        self._gone = BackendUnavailable(f"{self._running.name} went away after {worked_s} s of the soak: {what}")


def _runs(pid: int) -> bool:
    with suppress(psutil.Error):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False
