"""Tasks that hand over to each other without the kernel's loop: fewer switches, the same run."""

from __future__ import annotations

from collections.abc import Callable

import greenlet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel.clocks import NodeClock
from sim.kernel.exploring import ExploringKernel, Ties
from sim.kernel.footprints import EVERYTHING
from sim.kernel.kernel import Fifo, Kernel, RandomTies
from sim.kernel.streams import stream
from sim.kernel.sync import SimEvent
from sim.kernel.tasks import Task

TASKS = 4

NUMBERS = st.integers(0, TASKS - 1)
SHORT_NS = st.integers(0, 4)
ACTIONS = st.one_of(
    st.tuples(st.just("sleep"), st.just(0), SHORT_NS),
    st.tuples(st.sampled_from(["kill", "join"]), NUMBERS, SHORT_NS),
    st.tuples(st.just("pause"), NUMBERS, SHORT_NS),
    st.tuples(st.sampled_from(["set", "await", "call", "spawn", "resume"]), NUMBERS, SHORT_NS),
    st.tuples(st.just("rate"), st.just(0), st.sampled_from([-500_000, 0, 500_000])),
)
Script = list[tuple[str, int, int]]
SCRIPTS = st.lists(st.lists(ACTIONS, max_size=12), min_size=TASKS, max_size=TASKS)


def history(substrate: str, scripts: list[Script], seed: int | None, window_ns: int) -> list[object]:
    """What happens, when and as which event, in a run of these tasks in two parts."""
    schedule = None if seed is None else RandomTies(stream(seed, "schedule"))
    kernel = Kernel(schedule, substrate)
    if window_ns:
        kernel = ExploringKernel(
            Fifo() if schedule is None else schedule,
            substrate,
            None,
            ties=Ties(window_ns=window_ns),
            footprint_of=lambda _callback: EVERYTHING,
        )
    clock, event, log = NodeClock(mono_start_ns=1000), SimEvent(kernel), []
    tasks: list[Task] = []

    def note(what: object) -> None:
        log.append((what, kernel.now_ns, kernel.events, kernel.current.name))

    def act(action: str, number: int, amount: int) -> None:
        other = tasks[number]
        if action == "sleep":
            kernel.wait(amount)
        elif action == "kill":
            kernel.kill(other)
        elif action == "join" and other is not kernel.current:
            note(other.join(amount))
        elif action == "pause":
            other.hold_until_ns = kernel.now_ns + amount
            if other is kernel.current:
                kernel.hold_point()
        elif action == "set":
            event.set()
        elif action == "await":
            event.clear()
            note(event.wait(amount))
        elif action == "call":
            kernel.call_at(kernel.now_ns + amount, lambda: note("called"))
        elif action == "spawn":
            kernel.spawn(lambda: kernel.wait(amount), name="late", clock=clock)
        elif action == "resume":
            kernel.call_at(kernel.now_ns + amount, lambda: resumed(other, other.epoch))
        elif action == "rate":
            clock.set_rate(kernel.now_ns, amount)
            kernel.retime(clock)

    def resumed(other: Task, epoch: int) -> None:
        kernel.resume(other, epoch)
        note("after the resumed one")

    def work(script: Script) -> Callable[[], None]:
        def working() -> None:
            try:
                for action in script:
                    act(*action)
                    note(action)
            finally:
                log.append(("ends", kernel.now_ns))

        return working

    tasks += [kernel.spawn(work(script), name=f"t{number}", clock=clock) for number, script in enumerate(scripts)]
    for until_ns, linger_ns in ((6, 0), (1000, 3)):
        note(kernel.run(until_ns, linger_ns=linger_ns))
    log.append(kernel.deviations)
    kernel.close()
    return log


@settings(max_examples=150)
@given(SCRIPTS, st.none() | st.integers(0, 5), st.sampled_from([0, 2]))
def test_the_run_is_the_one_of_gated_threads(scripts, seed, window_ns):
    """Between gated threads every step goes through the loop; greenlets do the same things in the same steps."""
    assert history("greenlet", scripts, seed, window_ns) == history("thread", scripts, seed, window_ns)


@pytest.mark.parametrize(("tasks", "switches_a_sleep"), [(1, 0), (3, 1)])
def test_a_sleep_costs_one_switch_at_most(tasks, switches_a_sleep):
    """A task that parks switches to the task whose turn it is, or goes on at once if that is itself."""
    kernel, sleeps, switches = Kernel(), 50, []

    def work() -> None:
        for _ in range(sleeps):
            kernel.wait(10)

    for number in range(tasks):
        kernel.spawn(work, name=f"t{number}")
    before = greenlet.settrace(lambda *what: switches.append(what))
    try:
        kernel.run(10**6)
    finally:
        greenlet.settrace(before)
    assert kernel.events == tasks * (sleeps + 1)
    # A first resume and an end take a switch each, both of them by the loop.
    assert len(switches) <= tasks * (sleeps * switches_a_sleep + 3)


def test_a_killed_task_unwinds_before_the_next_step():
    """The killer's next sleep gives way to the loop, which unwinds the killed task at that instant."""
    kernel, log = Kernel(), []

    def victim() -> None:
        try:
            kernel.wait(100)
        finally:
            log.append(("victim", kernel.now_ns))

    def killer() -> None:
        kernel.wait(10)
        kernel.kill(doomed)
        kernel.wait(5)
        log.append(("killer", kernel.now_ns))

    doomed = kernel.spawn(victim, name="victim")
    kernel.spawn(killer, name="killer")
    kernel.run(1000)
    assert log == [("victim", 10), ("killer", 15)]
    kernel.close()


def test_what_a_callback_does_after_it_resumed_a_task_comes_before_the_next_step():
    """The resumed task hands over to nobody: the callback goes on at the same instant."""
    kernel, log = Kernel(), []

    def sleeper(first_ns: int) -> None:
        kernel.wait(first_ns)
        log.append(("woken", kernel.now_ns))
        kernel.wait(10)

    def callback() -> None:
        kernel.resume(waiting, waiting.epoch)
        log.append(("callback", kernel.now_ns))

    waiting = kernel.spawn(lambda: sleeper(100), name="waiting")
    kernel.spawn(lambda: sleeper(60), name="other")
    kernel.call_at(50, callback)
    kernel.run(1000)
    assert log == [("woken", 50), ("callback", 50), ("woken", 60)]
    kernel.close()


def test_a_run_ends_when_a_task_says_that_no_other_one_comes():
    """The end is earlier from then on, for tasks that hand over as for the loop."""
    kernel, log = Kernel(), []

    def heartbeat(*, gives_up_at_ns: int) -> None:
        while True:
            kernel.wait(10)
            log.append(kernel.now_ns)
            if kernel.now_ns == gives_up_at_ns:
                kernel.expect_no_task()

    kernel.expect_task()
    kernel.spawn(lambda: heartbeat(gives_up_at_ns=30), name="beat", is_daemon=True)
    kernel.spawn(lambda: heartbeat(gives_up_at_ns=-1), name="beat", is_daemon=True)
    kernel.run(1000, linger_ns=10)
    assert log == [10, 10, 20, 20, 30, 30, 40, 40]
    kernel.close()
