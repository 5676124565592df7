"""A runtime whose calls may cost a task the processor, for explorations.

On a real machine another thread of the process may run between any two calls. In a plain simulation a task keeps the
processor until it waits, so a lock that is wrong only between two of its own calls looks right.
"""

from __future__ import annotations

from collections.abc import Callable

from lockref.runtime import MonoNs, WallNs
from sim.kernel.exploring import Ties
from sim.kernel.kernel import Kernel
from sim.kernel.streams import Stream
from sim.kernel.sync import SimEvent, SimMutex
from sim.kernel.tasks import Task
from sim.machine.nodes import NodeRuntime, Process, Work

Preempt = Callable[[], None]


class PreemptedRuntime(NodeRuntime):
    """A task may lose the processor before each reading and draw, and after each call that lets others go on."""

    __slots__ = ("_preempt",)

    def __init__(self, process: Process, *, is_clients: bool = False) -> None:
        super().__init__(process, is_clients=is_clients)
        self._preempt: Preempt = process.kernel.preempt

    @property
    def random(self) -> Stream:
        self._preempt()
        return super().random

    def wall_ns(self) -> WallNs:
        self._preempt()
        return super().wall_ns()

    def monotonic_ns(self) -> MonoNs:
        self._preempt()
        return super().monotonic_ns()

    def spawn(self, work: Work, *, name: str) -> Task:
        task = super().spawn(work, name=name)
        self._preempt()
        return task

    def mutex(self) -> SimMutex:
        return _PreemptedMutex(self._kernel, self._preempt)

    def event(self) -> SimEvent:
        return _PreemptedEvent(self._kernel, self._preempt)

    def token_bytes(self, count: int) -> bytes:
        self._preempt()
        return super().token_bytes(count)


class _PreemptedEvent(SimEvent):
    __slots__ = ("_preempt",)

    def __init__(self, kernel: Kernel, preempt: Preempt) -> None:
        super().__init__(kernel)
        self._preempt = preempt

    def set(self) -> None:
        super().set()
        self._preempt()

    def clear(self) -> None:
        self._preempt()
        super().clear()

    def is_set(self) -> bool:
        self._preempt()
        return super().is_set()

    def wait(self, timeout_ns: int | None = None) -> bool:
        self._preempt()
        return super().wait(timeout_ns)


class _PreemptedMutex(SimMutex):
    __slots__ = ("_preempt",)

    def __init__(self, kernel: Kernel, preempt: Preempt) -> None:
        super().__init__(kernel)
        self._preempt = preempt

    def acquire(self, timeout_ns: int | None = None) -> bool:
        self._preempt()
        return super().acquire(timeout_ns)

    def release(self) -> None:
        super().release()
        self._preempt()

    def __enter__(self) -> SimMutex:
        self.acquire()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.release()


def runtime_type(ties: Ties | None) -> type[NodeRuntime]:
    """The runtime of the processes of a world. ties: of its kernel; None in a plain run."""
    if ties is None or ties.preempt == "waits":
        return NodeRuntime
    return PreemptedRuntime
