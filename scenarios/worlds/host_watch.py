"""The lateness with which this machine wakes its threads: a fact of the host, recorded beside the lock's events.

A thread asks to sleep for a moment, again and again, and notes by how much each sleep was longer than asked. A crowd of
threads in one process, or a machine that does other work, makes that seconds. The judge accuses no lock of them.

In a process that a fault plan stops the thread would measure the plan, so nobody watches there.
"""

from __future__ import annotations

from types import TracebackType

from lockref.runtime import NS_PER_MS, Event, Runtime, Task

NAP_NS = 20 * NS_PER_MS


class HostWatch:
    """Watches for the length of its context. late_ns: by how much the longest nap was longer than asked."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_over: Event = runtime.event()
        self._task: Task | None = None
        self.late_ns = 0
        self._napping_since_ns: int | None = None

    def __enter__(self) -> HostWatch:
        self._task = self._runtime.spawn(self._watch, name="host-watch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The nap that is not over yet may be the longest one: a starved thread never gets to note it.
        since_ns = self._napping_since_ns
        if since_ns is not None:
            self._note(self._runtime.monotonic_ns() - since_ns)
        self._is_over.set()

    def _note(self, napped_ns: int) -> None:
        self.late_ns = max(self.late_ns, napped_ns - NAP_NS)

    def _watch(self) -> None:
        self._napping_since_ns = since_ns = self._runtime.monotonic_ns()
        while not self._is_over.wait(NAP_NS):
            self._note(self._runtime.monotonic_ns() - since_ns)
            self._napping_since_ns = since_ns = self._runtime.monotonic_ns()
