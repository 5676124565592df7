"""Events and mutexes in virtual time, with the semantics of `threading`.

A mutex is not handed over: its release wakes all waiters and whoever the
schedule lets run first gets it, as with a real lock. That leaves barging and
starvation in the search.
"""

from __future__ import annotations

from types import TracebackType

from sim.kernel.kernel import Kernel, Task


class SimEvent:
    """Implements `lockref.runtime.Event`."""

    __slots__ = ("_is_set", "_kernel", "_waiters")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_set = False
        self._waiters: list[tuple[Task, int]] = []

    def set(self) -> None:
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for task, epoch in waiters:
            self._kernel.wake(task, epoch)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_ns: int | None = None) -> bool:
        if self._is_set:
            return True
        kernel = self._kernel
        waiter = (kernel.current, kernel.current.epoch + 1)
        self._waiters.append(waiter)
        kernel.wait(timeout_ns)
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            return self._is_set
        # Woken by `set`; it counts even if somebody cleared the flag since.
        return True


class SimMutex:
    """Implements `lockref.runtime.Mutex`; not re-entrant, releasable by any task, as `threading.Lock`."""

    __slots__ = ("_is_locked", "_kernel", "_waiters")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_locked = False
        self._waiters: list[tuple[Task, int]] = []

    def acquire(self, timeout_ns: int | None = None) -> bool:
        if not self._is_locked:
            self._is_locked = True
            return True
        kernel = self._kernel
        task = kernel.current
        give_up_ns = None if timeout_ns is None else kernel.local_ns(task) + max(0, timeout_ns)
        while self._is_locked:
            left_ns = None if give_up_ns is None else give_up_ns - kernel.local_ns(task)
            if left_ns is not None and left_ns <= 0:
                return False
            waiter = (task, task.epoch + 1)
            self._waiters.append(waiter)
            kernel.wait(left_ns)
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        self._is_locked = True
        return True

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release of a mutex that is not locked")
        self._is_locked = False
        if self._waiters:
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for task, epoch in waiters:
            self._kernel.wake(task, epoch)

    # A `with` block around a few instructions is how locks use a mutex, so the free case makes no further call.

    def __enter__(self) -> SimMutex:
        if self._is_locked:
            self.acquire()
        else:
            self._is_locked = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiters or not self._is_locked:
            self.release()
        else:
            self._is_locked = False
