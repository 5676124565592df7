"""The kernel: virtual time, tasks, and one queue that decides what happens next.

Blocking code runs unchanged on it: a task is a greenlet (or a gated thread)
that gives up control only where its Runtime waits. The queue holds steps by
(true time, order of making); where several are ready at one instant, the
schedule chooses and the choice is recorded if it is not the default. Nothing
else decides anything, so seed, plan and deviations are the whole run.

Every run is bounded: by events and by virtual time (`Budget`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush, heapreplace
from typing import NoReturn

from lockref.errors import BudgetExceeded
from sim.kernel.clocks import NodeClock
from sim.kernel.footprints import ALL
from sim.kernel.schedules import Fifo, RandomTies, Replay, Schedule
from sim.kernel.steps import Step, is_live
from sim.kernel.substrates import SWITCHES_BETWEEN_TASKS, carrier_factory
from sim.kernel.tasks import NEVER, NOT_WAITING, Task, TaskKilled

__all__ = ["Budget", "Fifo", "Kernel", "RandomTies", "Replay", "RunEnd", "Schedule", "Task", "TaskKilled"]

LAST_EVENTS = 10
"""How many events a BudgetExceeded shows."""

STILL_EVENTS = 100_000
STILL_NS = 100_000_000
"""So many events in so little virtual time, at the end of a run that never ended: nobody waits for anything."""

ONLY_THE_LOOP = -1
"""No step is due by this instant, so a task that parks leaves the next step to the kernel's loop."""

UNWINDINGS_MAX = 20
"""How often `TaskKilled` is raised in a killed task before it is stopped where it is."""


class RunEnd(StrEnum):
    """Why a run ended.

    FINISHED  every task that was waited for has ended
    IDLE      nothing is left to happen, yet tasks wait: a deadlock, see `Kernel.stuck`
    HORIZON   the time given to `run` is over
    """

    FINISHED = "finished"
    IDLE = "idle"
    HORIZON = "horizon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds of one run; hitting one raises BudgetExceeded. Virtual time in nanoseconds."""

    events_max: int = 1_000_000
    virtual_ns_max: int = 7 * 24 * 3600 * 1_000_000_000


class Kernel:
    """Virtual time and its queue.

    now_ns: true time. current: the running task; the kernel's own root task
    while no other runs. deviations: the decisions that differed from the
    default, as (decision, choice). events: steps executed.

    is_observed: somebody outside asks what a task's own objects answer; no task gives way meanwhile.
    """

    def __init__(
        self,
        schedule: Schedule | None = None,
        substrate: str = "greenlet",
        budget: Budget | None = None,
    ) -> None:
        self.schedule: Schedule = Fifo() if schedule is None else schedule
        # First-in, first-out knows no ties.
        self._has_ties = not self.schedule.is_fifo
        self.budget = Budget() if budget is None else budget
        self.now_ns: int = 0
        self.events = 0
        self.deviations: list[tuple[int, int]] = []
        self.tasks: list[Task] = []
        self.carry = carrier_factory(substrate)
        self._queue: list[Step] = []
        self._ready: list[Step] = []
        # That of the last step. Counted by hand, which takes a third of what asking an `itertools.count` takes.
        self._number = -1
        self._decisions = 0
        self._awaited = 0
        # The instant at which `run` must stop, and the one at which it stops now: earlier while no task is awaited.
        self._until_ns = self._horizon_ns = NEVER
        self._linger_ns: int | None = None
        # A task that parks may wake the next one itself if that is due by this instant; see `wait`.
        self._hand_over_until_ns = ONLY_THE_LOOP
        self._can_hand_over = substrate in SWITCHES_BETWEEN_TASKS
        self._condemned: list[Task] = []
        self._last: deque[str] = deque(maxlen=LAST_EVENTS)
        # From this event on, the loop looks at each one. When the last events of the budget began.
        self._trace_from = self.budget.events_max - STILL_EVENTS
        self._late_from_ns: int | None = None
        self.is_observed = False
        self._root = Task(self, lambda: None, number=0, name="world", node="", clock=None, is_daemon=True)
        self.current = self._root

    # Making steps.

    def _push(self, at_ns: int, task: Task) -> None:
        self._number = number = self._number + 1
        heappush(self._queue, (at_ns, number, task, task.epoch))

    def call_at(self, true_ns: int, fn: Callable[[], object]) -> None:
        """Run `fn` on the kernel at `true_ns`, which must not lie in the past. `fn` must not block."""
        assert true_ns >= self.now_ns, "a step was made for the past"
        self._number = number = self._number + 1
        heappush(self._queue, (true_ns, number, None, fn))

    def spawn(
        self,
        work: Callable[[], None],
        *,
        name: str,
        node: str | None = None,
        clock: NodeClock | None = None,
        is_daemon: bool = False,
    ) -> Task:
        """Start a task now. A daemon task does not keep the run going.

        clock: the clock on which the task's timeouts run; None is true time.
        """
        task = Task(
            self, work, number=len(self.tasks) + 1, name=name, node=node or "", clock=clock, is_daemon=is_daemon
        )
        self.tasks.append(task)
        if not is_daemon:
            self.expect_task()
        task.due_ns = self.now_ns
        self._push(self.now_ns, task)
        return task

    # Waiting. Called from inside a task.

    def wait(self, duration_ns: int | None = None) -> None:
        """Park the current task until somebody wakes it or `duration_ns` of its own clock has passed.

        Callers loop or look again: a task does not learn why it runs on.
        """
        task = self.current
        if task.is_killed:
            self.unwind(task)
        queue = self._queue
        epoch = task.epoch + 1
        # The step of this task's own timer, and the one that comes next: its own, or the first of the queue.
        own: Step | None = None
        first = queue[0] if queue else None
        if type(duration_ns) is int:
            if duration_ns < 0:
                duration_ns = 0
            now = self.now_ns
            clock = task.clock
            if clock is None:
                due = now + duration_ns
            elif (shift := clock.mono_shift_ns) is not None:
                due = now + duration_ns
                task.local_due_ns = due + shift
            else:
                task.local_due_ns = local_due = clock.mono_ns(now) + duration_ns
                due = clock.true_at_mono(now, local_due)
            task.due_ns = due
            self._number = number = self._number + 1
            own = (due, number, task, epoch)
            if first is None or due < first[0]:
                first = own
        elif duration_ns is None:
            task.due_ns = NEVER
            task.local_due_ns = None
        else:
            raise TypeError(f"waiting for {duration_ns!r}: expected a whole number of nanoseconds")
        task.epoch = epoch
        # Fetched before it is called, as `resume` below: to call what a slot holds as if it were a method takes longer.
        give_way = task.park
        # A step of `_loop`, taken here: where the next one wakes a task, this task switches to that task itself. That
        # is one switch; the way through the loop takes two. Only the plainest step is taken. Whatever needs a look (a
        # callback, a stale step, a first resume, a pause, a tie, the budget) is left to the loop, and so is everything
        # after a change that the loop has to see (`_hand_over_until_ns`). To put a step into the heap and to take one
        # out are two ways through it. So a timer of this task that comes next is never put there, and any other one
        # takes the place of the step that is taken.
        if first is not None:
            at_ns, _, other, waited = first
            if (
                at_ns <= self._hand_over_until_ns
                and other is not None
                and other.due_ns == at_ns
                and other.epoch == waited
                and other.is_started
                and other.hold_until_ns <= at_ns
                and self.events < self._trace_from
            ):
                if first is own:
                    self.now_ns = at_ns
                    self.events += 1
                    task.due_ns = NOT_WAITING
                    return
                if own is None:
                    heappop(queue)
                else:
                    heapreplace(queue, own)
                    own = None
                if self._has_ties and queue and queue[0][0] == at_ns:
                    self._ready.append(first)
                else:
                    self.now_ns = at_ns
                    self.events += 1
                    other.due_ns = NOT_WAITING
                    if other is task:
                        return
                    self.current = other
                    give_way = other.resume
        if own is not None:
            heappush(queue, own)
        give_way()
        if task.is_killed:
            self.unwind(task)

    def unwind(self, task: Task) -> NoReturn:
        """End the killed task that runs. One that catches what ends it is stopped for ever where it is.

        A loop with a bare `except` is in many a heartbeat, and dies with its process like any other.
        """
        assert task is self.current, "a task unwinds on its own stack"
        # A greenlet cannot be ended from outside: it ends by an exception on its own stack. A real crash runs no
        # `finally`, and this one does; whatever such code does reaches nobody, because the process is dead already.
        task.unwindings += 1
        if task.unwindings <= UNWINDINGS_MAX:
            raise TaskKilled
        if not task.is_done:
            task.is_done = True
            self.task_ended(task)
        while True:
            task.park()

    def hold_point(self) -> None:
        """Stop here if the current task has just been paused. Called where a fault may strike inside a task."""
        task = self.current
        assert task is not self._root, "the kernel itself cannot be paused"
        while task.hold_until_ns > self.now_ns and not task.is_killed:
            task.epoch += 1
            self._hold(task)
            task.park()
        if task.is_killed:
            self.unwind(task)

    def _hold(self, task: Task) -> None:
        """Put off a paused task to the end of its pause."""
        assert task.hold_until_ns > self.now_ns, "a task was put off to an instant that is over"
        if task.on_held is not None:
            task.on_held()
        task.due_ns = task.hold_until_ns
        task.local_due_ns = None
        self._push(task.due_ns, task)

    def local_ns(self, task: Task) -> int:
        """The reading of the clock on which the task's timeouts run."""
        return self.now_ns if task.clock is None else task.clock.mono_ns(self.now_ns)

    # Waking. Called from anywhere.

    def wake(self, task: Task, epoch: int) -> None:
        """Let `task` run on now, if it still is in its wait number `epoch`."""
        if task.epoch == epoch and task.due_ns >= 0:
            task.due_ns = self.now_ns
            task.local_due_ns = None
            self._push(self.now_ns, task)

    def resume(self, task: Task, epoch: int) -> None:
        """As `wake`, but at once. Only for callbacks of the kernel, such as the arrival of a reply."""
        assert self.current is self._root, "a task cannot run another one"
        if task.epoch != epoch or task.due_ns < 0:
            return
        if task.hold_until_ns > self.now_ns:
            self._hold(task)
            return
        # As in `_loop`, which notes in what a task raises where that was.
        task.due_ns = NOT_WAITING
        self.current = task
        resume = task.resume
        resume()
        self.current = self._root

    def retime(self, clock: NodeClock) -> None:
        """Solve again every timer that runs on `clock`, because its map has changed."""
        now = self.now_ns
        for task in self.tasks:
            if task.clock is clock and task.due_ns >= 0 and task.local_due_ns is not None:
                task.due_ns = clock.true_at_mono(now, task.local_due_ns)
                assert task.due_ns >= now, "a changed clock cannot make a timer due in the past"
                self._push(task.due_ns, task)

    def kill(self, task: Task) -> None:
        """End `task` as a crash does: it never gets to do anything again."""
        if task.is_done or task.is_killed:
            return
        task.is_killed = True
        if task is not self.current:
            self._condemned.append(task)
            self._hand_over_until_ns = ONLY_THE_LOOP
            if self.current is self._root:
                self._reap()

    def _reap(self) -> None:
        """Unwind killed tasks on the kernel's stack: a greenlet that ends returns here, not to its killer."""
        assert self.current is self._root, "a task cannot end another one on its own stack"
        while self._condemned:
            task = self._condemned.pop()
            if not task.is_started:
                task.is_done = True
                task.due_ns = NOT_WAITING
                self.task_ended(task)
            elif not task.is_done:
                self._step(task)

    def expect_task(self) -> None:
        """Keep the run going for a task that need not exist yet, such as that of a restart."""
        self._awaited += 1
        # A node may restart after all other clients have finished. The run must wait for it, so the early end is
        # cancelled.
        self._horizon_ns = self._until_ns

    def expect_no_task(self) -> None:
        """The expected task has been started, or never will be."""
        assert self._awaited > 0, "no task was expected"
        self._awaited -= 1
        self._stop_if_finished()

    # Running.

    def _step(self, task: Task) -> None:
        """Let one task run until it waits or ends."""
        if task.hold_until_ns > self.now_ns and not task.is_killed:
            self._hold(task)
            return
        task.due_ns = NOT_WAITING
        self.current = task
        try:
            task.resume()
        except BaseException as error:
            error.add_note(f"raised in task {task.label()!r} at true time {self.now_ns / 1e9:.9f} s")
            raise
        finally:
            self.current = self._root

    def task_ended(self, task: Task) -> None:
        """Each task calls this as the last thing it does."""
        assert task.is_done, "a task that goes on cannot have ended"
        for waiter, epoch in task.joiners:
            self.wake(waiter, epoch)
        task.joiners.clear()
        if not task.is_daemon:
            assert self._awaited > 0, "more tasks ended than were awaited"
            self._awaited -= 1
            self._stop_if_finished()

    def _stop_if_finished(self) -> None:
        if not self._awaited and self._linger_ns is not None:
            self._hand_over_until_ns = ONLY_THE_LOOP
            self._horizon_ns = min(self._horizon_ns, self.now_ns + self._linger_ns)

    def run(self, until_ns: int, *, linger_ns: int | None = None) -> RunEnd:
        """Execute steps up to and including `until_ns`.

        linger_ns: how long to go on after the last awaited task has ended, unless
            another one begins meanwhile; None goes on until nothing is left.
        Raises BudgetExceeded, and whatever a task raised, with its name in a note.
        """
        assert self.current is self._root, "a run cannot be begun from inside"
        self._until_ns = self._horizon_ns = horizon_ns = min(until_ns, self.budget.virtual_ns_max)
        self._linger_ns = linger_ns
        self._stop_if_finished()
        self._loop()
        if not self._awaited:
            return RunEnd.FINISHED
        if not self._queue and not self._ready:
            return RunEnd.IDLE
        if horizon_ns < until_ns:
            self._exceeded(f"virtual_ns_max={horizon_ns}")
        self.now_ns = max(self.now_ns, horizon_ns)
        return RunEnd.HORIZON

    def _loop(self) -> None:
        """Take step after step. A good half of all time is spent here, so `_step` is written out."""
        queue, condemned, root = self._queue, self._condemned, self._root
        trace_from, has_ties, can_hand_over = self._trace_from, self._has_ties, self._can_hand_over
        try:
            while True:
                if self._ready:
                    chosen = self._choose_step()
                    if chosen is None:
                        return
                    step = chosen
                    at_ns = step[0]
                elif queue:
                    step = heappop(queue)
                    at_ns = step[0]
                    if at_ns > self._horizon_ns:
                        heappush(queue, step)
                        return
                    # A step that its task no longer waits for: the wait ended otherwise (another epoch), or its timer
                    # was solved again (another instant). Such steps are not searched for when they become stale, but
                    # passed over when their turn comes, as Python's `asyncio` does with cancelled timers. Rejected: a
                    # heap from which entries can be taken, whose bookkeeping each timer would pay for.
                    if (task := step[2]) is not None and (task.due_ns != at_ns or task.epoch != step[3]):
                        continue
                    if has_ties and queue and queue[0][0] == at_ns:
                        self._ready.append(step)
                        continue
                else:
                    return
                self.now_ns = at_ns
                self.events += 1
                if self.events > trace_from:
                    self._trace(step)
                if step[2] is None:
                    step[3]()
                elif (task := step[2]).hold_until_ns > at_ns:
                    self._hold(task)
                else:
                    task.due_ns = NOT_WAITING
                    self.current = task
                    if can_hand_over and not self._ready:
                        self._hand_over_until_ns = self._horizon_ns
                    resume = task.resume
                    resume()
                    # A callback may come next. A task that it resumes must not hand over to others: the rest of the
                    # callback would come after them.
                    self._hand_over_until_ns = ONLY_THE_LOOP
                    self.current = root
                if condemned:
                    self._reap()
        except BaseException as error:
            if self.current is not root:
                error.add_note(f"raised in task {self.current.label()!r} at true time {self.now_ns / 1e9:.9f} s")
            raise
        finally:
            self._hand_over_until_ns = ONLY_THE_LOOP
            self.current = root

    def _choose_step(self) -> Step | None:
        """The step that the schedule wants of those on the table; None if nothing is due any more."""
        queue = self._queue
        # `_is_live`, written out.
        ready = [
            step
            for step in self._ready
            if (task := step[2]) is None or (task.due_ns == step[0] and task.epoch == step[3])
        ]
        if not ready:
            while queue and not is_live(queue[0]):
                heappop(queue)
            if not queue:
                self._ready = ready
                return None
            ready.append(heappop(queue))
        first_ns = ready[0][0]
        if queue and queue[0][0] < first_ns:
            first_ns = queue[0][0]
        if first_ns > self._horizon_ns:
            self._ready = ready
            return None
        while queue and queue[0][0] <= first_ns:
            step = heappop(queue)
            if is_live(step):
                ready.append(step)
        choice = 0
        if len(ready) > 1:
            # The decision gets a number even where the default is chosen: a stored deviation is (number, choice), and
            # means the same decision only as long as every earlier one is counted. Shrinking takes deviations out one
            # by one, and a later number may then fall on another decision; each candidate is run, so that is seen.
            # By due time and number, which no two steps share.
            ready.sort()
            actors = [-step[1] if step[2] is None else step[2].number for step in ready]
            choice = self.schedule.choose(self._decisions, actors)
            assert 0 <= choice < len(ready), "the schedule chose a step that is not ready"
            if choice:
                self.deviations.append((self._decisions, choice))
            self._decisions += 1
        chosen = ready.pop(choice)
        self._ready = ready
        return chosen

    def preempt(self) -> None:
        """Let the present task lose the processor, if the schedule says so. Only in an exploration a task can."""

    def touch(self, kind: str = ALL[0], name: str = ALL[1]) -> None:
        """Note a place (`sim.kernel.footprints`) that the present step touches outside its own node or service.

        Only the kernel of an exploration asks for it.
        """

    @property
    def stuck(self) -> tuple[str, ...]:
        """The awaited tasks that have not ended, by node and name."""
        return tuple(task.label() for task in self.tasks if not task.is_done and not task.is_daemon)

    def _trace(self, step: Step) -> None:
        """Near the bound: remember what happens, and stop at it."""
        at_ns = step[0]
        if self._late_from_ns is None:
            self._late_from_ns = at_ns
        if self.events <= self.budget.events_max - LAST_EVENTS:
            return
        what = _name_of(step[3]) if step[2] is None else f"task {step[2].label()}"
        self._last.append(f"{at_ns / 1e9:.9f} s {what}")
        if self.events > self.budget.events_max:
            self._exceeded(f"events_max={self.budget.events_max}")

    @property
    def last_event(self) -> str:
        """The last event of a run that used up its budget, for people; nothing of any other run."""
        return self._last[-1] if self._last else ""

    @property
    def stands_still(self) -> bool:
        """True after a run that used up its events while virtual time hardly moved."""
        return (
            self.events > max(self.budget.events_max, STILL_EVENTS)
            and self._late_from_ns is not None
            and self.now_ns - self._late_from_ns < STILL_NS
        )

    def _exceeded(self, bound: str) -> None:
        last = "\n  ".join(self._last) or "(not traced: the bound on virtual time was hit)"
        raise BudgetExceeded(
            f"the run passed its budget {bound} at true time {self.now_ns / 1e9:.9f} s after {self.events} events: "
            f"look for a livelock in the last events\n  {last}"
        )

    def close(self) -> None:
        """Unwind every unfinished task, so that no stack or thread outlives the run."""
        assert self.current is self._root, "a run cannot be closed from inside"
        for task in self.tasks:
            self.kill(task)
        self._queue.clear()
        self._ready.clear()

    def dissolve(self) -> None:
        """Forget the tasks, the root task with them, which knows its kernel. Nothing can be run any more."""
        self.tasks.clear()
        root = self._root
        del root.kernel, root.resume


def _name_of(callback: Callable[[], object]) -> str:
    """The name of a callback in the code; its address would differ from run to run."""
    inner = getattr(callback, "func", callback)
    return str(getattr(inner, "__qualname__", type(inner).__name__))
