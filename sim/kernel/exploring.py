"""The kernel of an exploration: instants on a grid, every tie a decision, tasks that give way between two waits.

A plain run leaves a schedule little to decide: instants to the nanosecond seldom tie, and a task keeps the processor
until it waits. Here every instant is rounded up to the next point of a grid (`Ties.window_ns`): a timer fires and a
message arrives at most so much late, as on any machine. What falls on one point may run in any order. A grid makes
the order of independent steps exactly without effect, because all of them run at one instant. Rejected: a window that
slides along, in which a step that is put off runs later than it would have, so that no two orders are ever the same.

With `Ties.preempt` a task may also lose the processor inside a step, to another step of its own node. A step of
another node need not be offered there: the two have nothing in common but requests, and these are steps of their own.

The kernel tells its schedule of each step that has run (`StepSchedule`), with what the step touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop
from typing import Final, Literal, Protocol, get_args, runtime_checkable

from sim.kernel.footprints import ALL, EVERYTHING, Footprint, ReadFootprint, StatePart, conflict, of_node
from sim.kernel.kernel import Budget, Kernel
from sim.kernel.schedules import Schedule
from sim.kernel.steps import Step, is_live
from sim.kernel.tasks import NOT_WAITING, Task

Preempt = Literal["waits", "calls", "statements"]
PREEMPTS: Final[tuple[Preempt, ...]] = get_args(Preempt)
"""Where a task may lose the processor: where it waits, at each call of its runtime and each request, or between any
two statements of the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """The steps that an exploration may reorder. window_ns: the grid of instants, in nanoseconds; at least 1."""

    window_ns: int
    preempt: Preempt = "calls"


@dataclass(frozen=True, slots=True)
class Ready:
    """One of the steps that are due together.

    number: by which the kernel knows it; steps made later have higher ones. footprint: what it will touch, as far as
    that can be known before.
    """

    number: int
    footprint: Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One step that has run, or its part up to the point where its task lost the processor.

    number: as in `Ready`. made: the numbers of the steps that it made. footprint: what it touched.
    cut: where its task lost the processor, counted in places where that could happen; 0 for a step that went on to its
    end.
    """

    number: int
    made: range
    footprint: Footprint
    at_ns: int
    cut: int = 0


@runtime_checkable
class StepSchedule(Protocol):
    """A schedule that looks at steps, and not at actors alone.

    is_over: asked before each step; True ends the run there.
    """

    @property
    def is_over(self) -> bool: ...

    def choose_step(self, decision: int, steps: Sequence[Ready], *, is_preemption: bool) -> int:
        """An index into `steps`. At a preemption the first one is the rest of the step that runs."""
        ...

    def has_run(self, step: Ran) -> None:
        """A step has run."""
        ...


class ExploringKernel(Kernel):
    """A kernel under a schedule that explores.

    Much slower than `Kernel`, because it takes no short cut: each step goes through one loop.
    """

    def __init__(
        self, schedule: Schedule, substrate: str, budget: Budget | None, *, ties: Ties, footprint_of: ReadFootprint
    ) -> None:
        assert ties.window_ns >= 1, "a grid of instants has at least a nanosecond between its points"
        super().__init__(schedule, substrate, budget)
        self._grid_ns = ties.window_ns
        self._footprint_of = footprint_of
        self._watching = schedule if isinstance(schedule, StepSchedule) else None
        # The step that was chosen while another one was preempted; it comes next.
        self._chosen: Step | None = None
        self._running = -1
        self._made_before = -1
        self._touched: dict[StatePart, bool] = {}
        # The places passed in this step where its task could lose the processor, and the one where it did.
        self._passed = self._cut = 0
        # The tasks that were preempted and have not gone on, by number.
        self._preempted: set[int] = set()

    def touch(self, kind: str = ALL[0], name: str = ALL[1]) -> None:
        self._touched[kind, name] = True

    # Choosing.

    def _loop(self) -> None:
        root, condemned = self._root, self._condemned
        try:
            while (step := self._next_step()) is not None:
                self.events += 1
                if self.events > self._trace_from:
                    self._trace(step)
                self._begins(step)
                if step[2] is None:
                    step[3]()
                else:
                    self._resume_or_hold(step[2])
                    self.current = root
                if condemned:
                    self._reap()
                self._has_run(step)
        except BaseException as error:
            if self.current is not root:
                error.add_note(f"raised in task {self.current.label()!r} at true time {self.now_ns / 1e9:.9f} s")
            raise
        finally:
            self.current = root

    def _resume_or_hold(self, task: Task) -> None:
        is_preempted = task.number in self._preempted
        self._preempted.discard(task.number)
        # A pause that begins at this instant finds a preempted task inside a step, which is one act in a plain run.
        if task.hold_until_ns > self.now_ns and not is_preempted:
            self._hold(task)
            return
        task.due_ns = NOT_WAITING
        self.current = task
        task.resume()

    def _next_step(self) -> Step | None:
        """The next step; None if nothing is due any more. Moves time to its instant."""
        if self._watching is not None and self._watching.is_over:
            return None
        if (chosen := self._chosen) is not None:
            self._chosen = None
            return chosen
        ready = self._due_now()
        if not ready:
            if not self._moves_on():
                return None
            ready = self._due_now()
        choice = self._decide(ready) if len(ready) > 1 else 0
        return ready.pop(choice)

    def _moves_on(self) -> bool:
        """Move time to the next instant at which a step is due; False if there is none before the horizon."""
        queue, grid_ns = self._queue, self._grid_ns
        while queue and not is_live(queue[0]):
            heappop(queue)
        if not queue or queue[0][0] > self._horizon_ns:
            return False
        self.now_ns = min(-(-queue[0][0] // grid_ns) * grid_ns, self._horizon_ns)
        return True

    def _due_now(self) -> list[Step]:
        """The live steps of the present instant, by due time and number.

        The list is the kernel's own: whoever takes a step takes it out of the list.
        """
        self._ready = ready = [step for step in self._ready if is_live(step)]
        queue = self._queue
        while queue and queue[0][0] <= self.now_ns:
            step = heappop(queue)
            if is_live(step):
                ready.append(step)
        ready.sort(key=_due_and_number)
        return ready

    def _decide(self, steps: Sequence[Step], *, is_preemption: bool = False) -> int:
        """Ask the schedule; its answer is noted if it is not the default."""
        decision = self._decisions
        self._decisions = decision + 1
        if self._watching is None:
            choice = self.schedule.choose(decision, [_actor(step) for step in steps])
        else:
            seen = [Ready(step[1], self._footprint(step)) for step in steps]
            choice = self._watching.choose_step(decision, seen, is_preemption=is_preemption)
        assert 0 <= choice < len(steps), "the schedule chose a step that is not ready"
        if choice:
            self.deviations.append((decision, choice))
        return choice

    def _footprint(self, step: Step) -> Footprint:
        if step[2] is None:
            return self._footprint_of(step[3])
        return of_node(step[2].node)

    # Preemption.

    def preempt(self) -> None:
        task = self.current
        if task is self._root or task.is_killed or self.is_observed:
            return
        self._passed += 1
        mine = of_node(task.node)
        ready = self._due_now()
        rivals = [step for step in ready if conflict(self._footprint(step), mine) and not _is_held(step, self.now_ns)]
        if not rivals:
            return
        rest: Step = (self.now_ns, self._running, task, task.epoch)
        choice = self._decide([rest, *rivals], is_preemption=True)
        if not choice:
            return
        self._chosen = rivals[choice - 1]
        ready.remove(self._chosen)
        self._cut = self._passed
        self._preempted.add(task.number)
        task.epoch += 1
        task.due_ns = self.now_ns
        task.local_due_ns = None
        self._push(self.now_ns, task)
        task.park()
        if task.is_killed:
            self.unwind(task)

    # Telling.

    def _begins(self, step: Step) -> None:
        self._running = step[1]
        self._made_before = self._number
        self._touched.clear()
        self._passed = self._cut = 0

    def _has_run(self, step: Step) -> None:
        watching = self._watching
        if watching is None:
            return
        touched = self._touched
        footprint = EVERYTHING if ALL in touched else (*self._footprint(step), *touched.items())
        made = range(self._made_before + 1, self._number + 1)
        watching.has_run(Ran(number=step[1], made=made, footprint=footprint, at_ns=self.now_ns, cut=self._cut))


def _due_and_number(step: Step) -> tuple[int, int]:
    return step[0], step[1]


def _actor(step: Step) -> int:
    task = step[2]
    return -step[1] if task is None else task.number


def _is_held(step: Step, now_ns: int) -> bool:
    task = step[2]
    return task is not None and task.hold_until_ns > now_ns
