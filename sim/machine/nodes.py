"""Nodes: a client machine and the process on it.

A node outlives its processes: its clock goes on through a crash, and its place
in the network keeps its name. A `Process` is one incarnation with its own
identity, entropy and tasks. A crash ends every task where it stands, without
letting `finally` blocks act on the world; requests in flight still land. A
pause keeps the tasks from running until it is over; replies wait for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockref.errors import BudgetExceeded, ConfigError
from lockref.history import Recorder, Stamp
from lockref.lab.recording import Journal
from lockref.runtime import MonoNs, WallNs
from sim.kernel.clocks import NodeClock
from sim.kernel.kernel import Kernel
from sim.kernel.streams import Stream, stream
from sim.kernel.sync import SimEvent, SimMutex
from sim.kernel.tasks import Task

if TYPE_CHECKING:
    from sim.faults.surroundings import HeldTasks

Work = Callable[[], None]
OnHeld = Callable[[], None]

CLOCK_READINGS_MAX = 10_000_000
"""Bound on one process's clock readings in a run, a few seconds of real time."""

PROCESSES_PER_NODE = 1000
"""The n-th node numbers its processes from n times this."""

TASKS_MAX = 5_000
"""Bound on the tasks of one process that run at a time: a machine has no more threads to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The part of a world that all its nodes share.

    numbers: gives request numbers, unique in the run. runtime: what a process asks of its machine.
    """

    kernel: Kernel
    seed: int
    recorder: Recorder
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    runtime: Callable[..., NodeRuntime]


class NodeRuntime:
    """Implements `lockref.runtime.Runtime` for one process of a node.

    is_clients: the tasks that it starts are the client's own, not its lock's.
    """

    __slots__ = ("_clock", "_entropy", "_is_clients", "_kernel", "_process", "_random", "_readings_left", "sleep")

    def __init__(self, process: Process, *, is_clients: bool = False) -> None:
        self._process = process
        self._is_clients = is_clients
        self._kernel = process.kernel
        self._clock: NodeClock | _StoppedClock = process.node.clock
        self._random: Stream | None = None
        self._entropy: Stream | None = None
        self.sleep: Callable[[int], None] = self._kernel.wait
        self._readings_left = CLOCK_READINGS_MAX

    @property
    def random(self) -> Stream:
        if self._random is None:
            self._random = self._process.stream("jitter")
        return self._random

    # The two readings are the simulator's most frequent calls. So the common case is written out here and in `stamp`:
    # a clock that runs like true time is one addition away from it.

    def wall_ns(self) -> WallNs:
        self._readings_left -= 1
        if not self._readings_left:
            self._refuse_spinning()
        shift_ns = self._clock.wall_shift_ns
        if shift_ns is not None:
            return self._kernel.now_ns + shift_ns  # type: ignore[return-value]
        return self._clock.wall_ns(self._kernel.now_ns)

    def monotonic_ns(self) -> MonoNs:
        self._readings_left -= 1
        if not self._readings_left:
            self._refuse_spinning()
        shift_ns = self._clock.mono_shift_ns
        if shift_ns is not None:
            return self._kernel.now_ns + shift_ns  # type: ignore[return-value]
        return self._clock.mono_ns(self._kernel.now_ns)

    def stamp(self) -> Stamp:
        """True time, both clocks and the running task, for the journal. No reading of the process's own."""
        kernel = self._kernel
        clock, now_ns = self._clock, kernel.now_ns
        wall_shift_ns, mono_shift_ns = clock.wall_shift_ns, clock.mono_shift_ns
        if wall_shift_ns is not None and mono_shift_ns is not None:
            return now_ns, now_ns + wall_shift_ns, now_ns + mono_shift_ns, kernel.current.name
        wall_ns, mono_ns = clock.both_ns(now_ns)
        return now_ns, wall_ns, mono_ns, kernel.current.name

    def _refuse_spinning(self) -> None:
        """Virtual time stands still while a task runs, so waiting for a clock without sleeping never ends."""
        task = self._kernel.current.label()
        raise BudgetExceeded(
            f"task {task!r} read its clocks {CLOCK_READINGS_MAX} times: it spins; wait with runtime.sleep or an event"
        )

    def spawn(self, work: Work, *, name: str) -> Task:
        return self._process.spawn(work, name=name, is_daemon=True, is_clients=self._is_clients)

    def mutex(self) -> SimMutex:
        return SimMutex(self._kernel)

    def event(self) -> SimEvent:
        return SimEvent(self._kernel)

    def token_bytes(self, count: int) -> bytes:
        if self._entropy is None:
            self._entropy = self._process.stream("entropy")
        return self._entropy.randbytes(count)

    def current_task(self) -> Task:
        return self._kernel.current

    def process_id(self) -> int:
        return self._process.number

    def process_mark(self) -> str:
        return f"{self._process.node.name}:{self._process.number}"

    def has_ended(self, mark: str) -> bool:
        """A machine runs one process at a time; it knows nothing of those elsewhere."""
        node, _, number = mark.rpartition(":")
        return node == self._process.node.name and int(number) < self._process.number

    def stop(self, true_ns: int) -> None:
        """The process has crashed: nothing that runs in it reads a clock again."""
        self._clock = _StoppedClock(self._process, true_ns)


class _StoppedClock:
    """The clock of a dead process: unwinding tasks get no reading, an observer gets the last one."""

    __slots__ = ("_process", "_true_ns")
    mono_shift_ns: None = None
    wall_shift_ns: None = None

    def __init__(self, process: Process, true_ns: int) -> None:
        self._process = process
        self._true_ns = true_ns

    def wall_ns(self, _true_ns: int) -> WallNs:
        self._process.check_alive()
        return self._process.node.clock.wall_ns(self._true_ns)

    def mono_ns(self, _true_ns: int) -> MonoNs:
        self._process.check_alive()
        return self._process.node.clock.mono_ns(self._true_ns)

    def both_ns(self, _true_ns: int) -> tuple[WallNs, MonoNs]:
        self._process.check_alive()
        return self._process.node.clock.both_ns(self._true_ns)


class Process:
    """One incarnation of a node: identity, runtimes, journal, tasks.

    runtime: what a lock gets; whatever it starts is the lock's own work, such as a heartbeat.
    client_runtime: what the client itself uses; whatever it starts is the client's.
    """

    __slots__ = (
        "_seed", "client_runtime", "has_crashed", "is_dead", "journal", "kernel", "node", "number", "runtime", "tasks",
    )  # fmt: skip

    def __init__(self, node: Node, number: int, context: NodeContext) -> None:
        self.kernel = context.kernel
        self.node = node
        self.number = number
        self._seed = context.seed
        self.has_crashed = False
        # Dead: it has crashed, or the run has ended.
        self.is_dead = False
        self.tasks: list[Task] = []
        self.runtime = context.runtime(self)
        self.client_runtime = context.runtime(self, is_clients=True)
        self.journal = Journal(
            context.recorder,
            node=node.name,
            stamp=self.runtime.stamp,
            numbers=context.numbers,
        )

    def stream(self, label: str) -> Stream:
        """A stream of this incarnation alone."""
        return stream(self._seed, f"{label}/{self.node.name}/{self.number}")

    def check_alive(self) -> None:
        """Raises TaskKilled in a task that is being unwound; other tasks may go on."""
        kernel = self.kernel
        if kernel.current.is_killed:
            kernel.unwind(kernel.current)

    def stop(self, true_ns: int) -> None:
        """From now on nothing in this process can read its clocks."""
        self.runtime.stop(true_ns)
        self.client_runtime.stop(true_ns)

    def spawn(self, work: Work, *, name: str, is_daemon: bool, is_clients: bool) -> Task:
        self.check_alive()
        if len(self.tasks) >= TASKS_MAX:
            self.tasks = [task for task in self.tasks if not task.is_done]
            if len(self.tasks) >= TASKS_MAX:
                raise ConfigError(
                    f"task {self.kernel.current.label()!r} started another task {name!r} while "
                    f"{TASKS_MAX:,} of its process had not ended: end each with what it is for"
                )
        node = self.node
        task = self.kernel.spawn(work, name=name, node=node.name, clock=node.clock, is_daemon=is_daemon)
        task.is_clients = is_clients
        node.hold(task)
        self.tasks.append(task)
        return task


class Node:
    """One client machine. Made by `World.node(name)`.

    runtime and journal belong to the present process: take them anew after a
    restart, most simply inside the work that is started.
    """

    def __init__(self, name: str, *, number: int, clock: NodeClock, context: NodeContext) -> None:
        self._context = context
        self._kernel = context.kernel
        self.name = name
        self.clock = clock
        self._first_pid = PROCESSES_PER_NODE * number
        self._incarnations = 0
        self._work: tuple[Work, str, bool] | None = None
        # Pauses by whose tasks they hold (None: everybody's): until when, and
        # whom to tell when a task is really held up.
        self._holds: dict[HeldTasks | None, tuple[int, OnHeld | None]] = {}
        self._requests: dict[str, int] = {}
        self._awaiting: list[tuple[Callable[[], None], int | None]] = []
        self.process = self._new_process()

    @property
    def runtime(self) -> NodeRuntime:
        return self.process.runtime

    @property
    def journal(self) -> Journal:
        return self.process.journal

    @property
    def is_up(self) -> bool:
        """True unless the present process has crashed."""
        return not self.process.has_crashed

    @property
    def is_running(self) -> bool:
        """True while a task of the present process has not ended."""
        return self.is_up and any(task.is_alive() for task in self.process.tasks)

    def when_running(self, call: Callable[[], None], *, until_ns: int | None = None) -> None:
        """Call now if the present process runs, else when a process begins, if that is before `until_ns` of true time.

        For what matters to nobody as long as nothing runs here, such as a wrong clock.
        """
        if self.is_running:
            call()
        else:
            self._awaiting.append((call, until_ns))

    def _new_process(self) -> Process:
        assert self._incarnations == 0 or self.process.is_dead, "a machine runs one process at a time"
        self._incarnations += 1
        return Process(self, self._first_pid + self._incarnations, self._context)

    def next_request(self, service: str) -> int:
        """The number of the next request to `service`, from 0; goes on through restarts."""
        number = self._requests.get(service, 0)
        self._requests[service] = number + 1
        return number

    def start(self, work: Work, name: str = "main", *, is_awaited: bool = True) -> Task:
        """Run `work` as a task. A restart repeats the work that was started first.

        is_awaited: the run does not end before this task. What serves others for as long as they live is not awaited.
        """
        if self._work is None:
            self._work = (work, name, is_awaited)
        awaiting, self._awaiting = self._awaiting, []
        for call, until_ns in awaiting:
            if until_ns is None or self._kernel.now_ns < until_ns:
                call()
        return self.process.spawn(work, name=name, is_daemon=not is_awaited, is_clients=True)

    def crash(self) -> None:
        """End the process at once. Called from one of its own tasks, it does not return."""
        self.process.has_crashed = True
        self.end()

    def end(self) -> None:
        """Unwind the process without letting it act; at the end of a run, no crash."""
        process = self.process
        if process.is_dead:
            return
        process.is_dead = True
        kernel = self._kernel
        process.stop(kernel.now_ns)
        is_suicide = False
        for task in process.tasks:
            is_suicide = is_suicide or task is kernel.current
            kernel.kill(task)
        self._holds.clear()
        if is_suicide:
            kernel.unwind(kernel.current)

    def dissolve(self) -> None:
        """Cut the circles that node, process and runtimes stand in; see `World.dissolve`."""
        process = self.process
        assert process.is_dead, "a process that runs needs its node"
        del self.process, process.runtime, process.client_runtime, process.journal
        self._work = None
        self._awaiting.clear()

    def restart(self, work: Work | None = None, name: str = "main") -> Task:
        """Start a new process with a new identity; the old one is crashed if it still runs.

        work: None repeats the work that was started first.
        """
        if self.is_up:
            self.crash()
        self.process = self._new_process()
        if work is not None:
            return self.start(work, name)
        assert self._work is not None, "nothing was ever started on this node"
        work, name, is_awaited = self._work
        return self.start(work, name, is_awaited=is_awaited)

    def pause(self, for_ns: int, task: HeldTasks | None = None, *, on_held: OnHeld | None = None) -> None:
        """Let no task run for `for_ns` of true time.

        task: "main" holds the client's own tasks only, "heartbeat" only those
        that its lock started; how they are called does not matter. on_held:
        called whenever a task would have run and does not. Called from a task
        that it holds, the call returns after the pause.
        """
        assert for_ns >= 0, "a pause has no negative length"
        kernel = self._kernel
        until = kernel.now_ns + for_ns
        if until > self._holds.get(task, (0, None))[0]:
            self._holds[task] = (until, on_held)
        for mine in self.process.tasks:
            self.hold(mine)
        if kernel.current in self.process.tasks:
            kernel.hold_point()

    def hold(self, task: Task) -> None:
        """Apply the pauses in force to one task."""
        for whose, (until, on_held) in self._holds.items():
            is_meant = whose is None or task.is_clients == (whose == "main")
            if is_meant and until > task.hold_until_ns:
                task.hold_until_ns, task.on_held = until, on_held
