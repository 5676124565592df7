"""Tasks: the activities that the kernel runs, and their state between two steps.

A task waits or runs. While it waits, `epoch` and `due_ns` say for what: a step
in the queue is for one wait and one due time, and is ignored when either has
changed. That is how timers move, pauses put off, and wake-ups that come too
late do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sim.kernel.clocks import NodeClock
from sim.kernel.substrates import CarrierFactory

NEVER = 2**62
"""Later than any instant of a run: 146 years of virtual nanoseconds."""

NOT_WAITING = -1
"""The due time of a task that runs or has ended."""


class TaskKilled(BaseException):
    """Unwinds a task whose process crashed. Not an Exception: no lock may catch it by mistake."""


class Scheduler(Protocol):
    """The part of the kernel that its tasks need.

    current: the task that runs now. carry: makes the stack of a task that starts.
    """

    @property
    def current(self) -> Task: ...

    @property
    def carry(self) -> CarrierFactory: ...

    def wait(self, duration_ns: int | None = None) -> None:
        """Park the current task until it is woken or the time is over."""
        ...

    def task_ended(self, task: Task) -> None:
        """Each task calls this as the last thing it does."""
        ...


class Task:
    """One simulated activity. Implements `lockref.runtime.Task`."""

    __slots__ = (
        "clock", "due_ns", "epoch", "hold_until_ns", "is_clients", "is_daemon", "is_done", "is_killed", "is_started",
        "joiners", "kernel", "local_due_ns", "name", "node", "number", "on_held", "park", "resume", "unwindings",
        "work",
    )  # fmt: skip

    def __init__(
        self,
        kernel: Scheduler,
        work: Callable[[], None],
        *,
        number: int,
        name: str,
        node: str,
        clock: NodeClock | None,
        is_daemon: bool,
    ) -> None:
        self.kernel = kernel
        self.work = work
        self.number = number
        self.name = name
        self.node = node
        self.clock = clock
        self.is_daemon = is_daemon
        # True for a client's own task, False for one that its lock started: the heartbeat, whatever it is called.
        self.is_clients = False
        self.resume: Callable[[], object] = self._start
        self.park: Callable[[], object] = _park_unstarted
        # `epoch` counts waits.
        self.epoch = 0
        self.due_ns = NOT_WAITING
        self.local_due_ns: int | None = None
        self.hold_until_ns = 0
        self.on_held: Callable[[], None] | None = None
        self.is_started = False
        self.is_done = False
        self.is_killed = False
        # How often the end of its process was raised in it.
        self.unwindings = 0
        self.joiners: list[tuple[Task, int]] = []

    def is_alive(self) -> bool:
        return not self.is_done

    def join(self, timeout_ns: int | None = None) -> bool:
        """Wait for the end; True if it has ended. A task cannot join itself."""
        kernel = self.kernel
        if not self.is_done:
            me = kernel.current
            assert me is not self, "a task joined itself"
            self.joiners.append((me, me.epoch + 1))
            kernel.wait(timeout_ns)
        return self.is_done

    def label(self) -> str:
        """For messages: node and name."""
        return f"{self.node}/{self.name}" if self.node else self.name

    def _start(self) -> None:
        """The first resume: a carrier is made on the kernel's stack, to which it will return."""
        assert not self.is_started, "a task starts once"
        self.is_started = True
        carrier = self.kernel.carry(self._run, self.label())
        self.resume, self.park = carrier.resume, carrier.park
        carrier.resume()

    def _run(self) -> None:
        try:
            self.work()
        except (TaskKilled, Exception):
            # Nobody waits for a dead task, so what it raises while it is unwound is dropped.
            if not self.is_killed:
                raise
        finally:
            self.is_done = True
            # What it did may know the whole world, which knows its tasks.
            self.work = _nothing
            self.kernel.task_ended(self)


def _nothing() -> None:
    """The work of a task that has ended."""


def _park_unstarted() -> None:
    raise AssertionError("only a started task may wait: use Node.start or World.observe")
