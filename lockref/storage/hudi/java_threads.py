"""The three things of Java's threads that Hudi's lock leans on, over the Runtime port.

Re-entrant monitors (`synchronized`), a scheduler at fixed rate with one
period in flight, and the sticky interrupt flag of the thread that took the
lock. Hudi's hazards D9, D10 and U11 live in how these interact, so they are
rebuilt here instead of replaced by something better.

Not rebuilt: an interrupt does not abort a store request in flight, because the
ObjectStore port has no way to; and the heartbeat is a daemon (D12 cannot
happen).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from lockref.errors import LockError
from lockref.runtime import Event, Runtime, Task


class SchedulerRefused(LockError):
    """The scheduler takes no more work: it was shut down."""


class Monitor:
    """A Java monitor: the task that is inside may enter again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._owner: Task | None = None
        self._depth = 0

    def __enter__(self) -> Monitor:
        task = self._runtime.current_task()
        # Reading the owner without the mutex is sound: only this task could have set it to itself.
        if self._owner != task:
            self._mutex.acquire()
            self._owner = task
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._depth > 0, "left a monitor that was not entered"
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._mutex.release()


class JavaThread:
    """The thread that took the lock, with its interrupt flag.

    The flag sticks: Hudi sets it again wherever an interrupt ended a wait.
    on_interrupt: told once per interrupt, by the task that interrupts.
    """

    def __init__(self, runtime: Runtime, task: Task, *, on_interrupt: Callable[[], None] = lambda: None) -> None:
        self.task = task
        self._flag: Event = runtime.event()
        self._on_interrupt = on_interrupt

    def is_alive(self) -> bool:
        return self.task.is_alive()

    def is_interrupted(self) -> bool:
        return self._flag.is_set()

    def interrupt(self) -> None:
        if not self.is_alive():
            # As in Java: nobody runs on it who could notice, and whoever goes on with its work hears nothing (U10).
            return
        self._flag.set()
        self._on_interrupt()

    def clear_interrupt(self) -> bool:
        """`Thread.interrupted()`: the flag as it was, cleared."""
        was_set = self._flag.is_set()
        self._flag.clear()
        return was_set

    def sleep(self, duration_ns: int) -> bool:
        """Sleep; True if an interrupt ended or forestalled it. The flag stays set, as every caller would re-set it."""
        return self._flag.wait(duration_ns)


class JavaThreads:
    """The threads that call one lock: the same task always gets the same interrupt flag."""

    def __init__(self, runtime: Runtime, *, on_interrupt: Callable[[], None] = lambda: None) -> None:
        self._runtime = runtime
        self._on_interrupt = on_interrupt
        self._known: list[JavaThread] = []

    def current(self) -> JavaThread:
        """`Thread.currentThread()`."""
        task = self._runtime.current_task()
        for thread in self._known:
            if thread.task == task:
                return thread
        thread = JavaThread(self._runtime, task, on_interrupt=self._on_interrupt)
        # A new list, not an append: another task may be walking the old one.
        self._known = [*(known for known in self._known if known.is_alive()), thread]
        return thread


class ScheduledFuture:
    """One recurring piece of work; cancelling it lets a run in flight finish."""

    def __init__(self, runtime: Runtime) -> None:
        self._cancelled = runtime.event()

    def cancel(self) -> None:
        self._cancelled.set()

    def wait(self, duration_ns: int) -> bool:
        """Wait for the next period; True if it will not come."""
        return self._cancelled.wait(max(0, duration_ns))


class FixedRateScheduler:
    """`scheduleAtFixedRate` of a single-threaded Java executor.

    The first run starts one full period after scheduling. A run that outlasts
    its period delays the following ones; they then follow back to back.
    """

    def __init__(self, runtime: Runtime, *, name: str) -> None:
        self._runtime = runtime
        self._name = name
        self._running: list[tuple[ScheduledFuture, Task]] = []
        self._is_shut_down = False

    def schedule(self, work: Callable[[], None], *, period_ns: int) -> ScheduledFuture:
        """Start recurring `work`. Raises SchedulerRefused after a shutdown."""
        if self._is_shut_down:
            raise SchedulerRefused(f"scheduling on {self._name}: it is shut down")
        runtime = self._runtime
        future = ScheduledFuture(runtime)
        due_ns = runtime.monotonic_ns() + period_ns

        def recur() -> None:
            next_ns: int = due_ns
            while not future.wait(next_ns - runtime.monotonic_ns()):
                work()
                next_ns += period_ns

        self._running = [(old, task) for old, task in self._running if task.is_alive()]
        self._running.append((future, runtime.spawn(recur, name=self._name)))
        return future

    def shutdown(self) -> None:
        """Take no more work; recurring work ends with the run in flight."""
        self._is_shut_down = True
        for future, _task in self._running:
            future.cancel()

    def await_termination(self, timeout_ns: int) -> bool:
        """Wait for runs in flight; False if the time ran out first."""
        deadline_ns = self._runtime.monotonic_ns() + timeout_ns
        me = self._runtime.current_task()
        return all(
            task == me or task.join(max(0, deadline_ns - self._runtime.monotonic_ns()))
            for _future, task in self._running
        )
