"""The kernel of an exploration: instants on a grid, ties, preemption, and what it tells its schedule."""

from __future__ import annotations

from collections.abc import Sequence

from sim.kernel.exploring import ExploringKernel, Ran, Ready, Ties
from sim.kernel.footprints import COUNT, EVERYTHING, NODE, conflict, of_node
from sim.kernel.kernel import RandomTies, Replay, RunEnd, Schedule
from sim.kernel.streams import stream
from sim.kernel.sync import SimEvent


def exploring(schedule: Schedule, window_ns: int = 10) -> ExploringKernel:
    return ExploringKernel(
        schedule, "greenlet", None, ties=Ties(window_ns=window_ns), footprint_of=lambda _callback: EVERYTHING
    )


class Watching:
    """Chooses what a test wants, and keeps what it is told."""

    is_fifo = False
    is_over = False

    def __init__(self, choices: dict[int, int] | None = None) -> None:
        self.choices = choices or {}
        self.asked: list[tuple[int, int, bool]] = []
        self.ran: list[Ran] = []

    def choose(self, _decision: int, _actors: Sequence[int]) -> int:
        raise AssertionError("a schedule that looks at steps is asked about steps")

    def choose_step(self, decision: int, steps: Sequence[Ready], *, is_preemption: bool) -> int:
        self.asked.append((decision, len(steps), is_preemption))
        return self.choices.get(decision, 0)

    def has_run(self, step: Ran) -> None:
        self.ran.append(step)


def orders(window_ns: int) -> set[tuple[tuple[str, int], ...]]:
    """The orders that random schedules give to three callbacks, each with the instant at which it ran."""
    found = set()
    for seed in range(20):
        kernel, log = exploring(RandomTies(stream(seed, "s")), window_ns), []
        for name, due in (("a", 11), ("b", 14), ("c", 30)):
            kernel.call_at(due, lambda name=name, log=log, kernel=kernel: log.append((name, kernel.now_ns)))
        kernel.run(1000)
        found.add(tuple(log))
    return found


def test_what_falls_on_one_point_of_the_grid_runs_in_any_order():
    """Instants are rounded up; two that differ by less than the window may still lie on two points."""
    late = ("c", 30)
    assert orders(10) == {(("a", 20), ("b", 20), late), (("b", 20), ("a", 20), late)}
    assert orders(3) == {(("a", 12), ("b", 15), late)}


def test_default_order_is_that_of_due_times():
    """First-in, first-out on the grid: what was due first runs first, and no decision is a deviation."""
    kernel, log = exploring(Replay([])), []
    for due in (19, 12, 17):
        kernel.call_at(due, lambda due=due: log.append(due))
    kernel.run(1000)
    assert log == [12, 17, 19]
    assert kernel.deviations == []


def test_grid_does_not_reach_beyond_the_horizon():
    """A run up to 15 executes nothing that is due at 16, though both are rounded to 20, and ends at its horizon."""
    kernel, log = exploring(Replay([])), []
    for due in (13, 16):
        kernel.call_at(due, lambda due=due: log.append((due, kernel.now_ns)))
    kernel.spawn(lambda: kernel.wait(1000), name="main")
    assert kernel.run(15) is RunEnd.HORIZON
    assert log == [(13, 15)]
    kernel.close()


def two_threads(schedule: Schedule, node_of_other: str = "n1") -> tuple[ExploringKernel, list[str]]:
    """A task that checks, may lose the processor, and acts; another one that acts at the same instant."""
    kernel, log = exploring(schedule), []

    def checks() -> None:
        kernel.wait(10)
        log.append("check")
        kernel.preempt()
        log.append("act")

    def acts() -> None:
        kernel.wait(10)
        log.append("other")

    kernel.spawn(checks, name="checks", node="n1")
    kernel.spawn(acts, name="acts", node=node_of_other)
    kernel.run(100)
    return kernel, log


def test_task_loses_the_processor_inside_a_step():
    """The other task of the node runs between the check and the act; the same instant, and replayed by the decision."""
    kernel, log = two_threads(Watching({2: 1}))
    assert log == ["check", "other", "act"]
    assert kernel.deviations == [(2, 1)]
    assert two_threads(Replay(kernel.deviations))[1] == log
    assert two_threads(Watching())[1] == ["check", "act", "other"]


def test_another_node_is_no_reason_to_give_way():
    """Steps of two nodes share nothing inside a step, so no decision is asked there."""
    schedule = Watching()
    two_threads(schedule, "n2")
    assert [asked for asked in schedule.asked if asked[2]] == []


def test_observer_makes_nobody_give_way():
    """While somebody outside asks a lock, its clock readings cost no task the processor."""
    kernel, log = exploring(Watching({2: 1})), []

    def asks() -> None:
        kernel.wait(10)
        kernel.is_observed = True
        kernel.preempt()
        kernel.is_observed = False
        log.append("asked")

    kernel.spawn(asks, name="asks", node="n1")
    kernel.spawn(lambda: (kernel.wait(10), log.append("other")), name="other", node="n1")
    kernel.run(100)
    assert log == ["asked", "other"]


def test_pause_does_not_stop_a_task_inside_its_step():
    """A pause that begins while a task has lost the processor holds it from its next wait on, as in a plain run."""
    kernel, log = exploring(Watching({2: 1})), []

    def works() -> None:
        kernel.wait(10)
        kernel.preempt()
        log.append(kernel.now_ns)
        kernel.wait(10)
        log.append(kernel.now_ns)

    def pauses() -> None:
        kernel.wait(10)
        task.hold_until_ns = 500

    task = kernel.spawn(works, name="works", node="n1")
    kernel.spawn(pauses, name="pauses", node="n1")
    kernel.run(1000)
    assert log == [10, 500]


def test_task_that_was_killed_while_preempted_does_not_go_on():
    """A crash finds it without the processor; it is unwound there."""
    kernel, log = exploring(Watching({2: 1})), []

    def works() -> None:
        kernel.wait(10)
        kernel.preempt()
        log.append("went on")

    task = kernel.spawn(works, name="works", node="n1")
    kernel.spawn(lambda: (kernel.wait(10), kernel.kill(task)), name="kills", node="n1")
    kernel.run(100)
    assert log == []
    assert not task.is_alive()


def test_schedule_is_told_who_made_and_touched_what():
    """A step names the steps that it made, and adds what it says it has touched beside its own node."""
    schedule = Watching()
    kernel = exploring(schedule)
    event = SimEvent(kernel)

    def wakes() -> None:
        kernel.touch(COUNT, "f1")
        event.set()

    kernel.spawn(event.wait, name="waits", node="n1")
    kernel.spawn(wakes, name="wakes", node="n1")
    kernel.run(100)
    told = {step.number: step for step in schedule.ran}
    assert told[1].footprint == (*of_node("n1"), ((COUNT, "f1"), True))
    assert list(told[1].made) == [2]
    assert told[2].footprint == of_node("n1")


def test_steps_conflict_where_one_changes_what_both_touch():
    """Two reads of one place do not; everything conflicts with everything."""
    read, write = (((NODE, "x"), False),), (((NODE, "x"), True),)
    assert not conflict(read, read)
    assert conflict(read, write)
    assert conflict(write, write)
    assert not conflict(write, of_node("y"))
    assert conflict(EVERYTHING, read)
    assert conflict(read, EVERYTHING)
    assert of_node("") == EVERYTHING
