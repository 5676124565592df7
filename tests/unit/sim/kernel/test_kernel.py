"""The kernel: order, waiting, ending, bounds. Each rule on both substrates where it could differ."""

from __future__ import annotations

import threading

import pytest

from lockref.errors import BudgetExceeded, ConfigError, DeterminismError
from sim.kernel import substrates
from sim.kernel.clocks import NodeClock
from sim.kernel.kernel import Budget, Fifo, Kernel, RandomTies, Replay, RunEnd
from sim.kernel.streams import stream
from sim.kernel.sync import SimEvent, SimMutex

BOTH = pytest.mark.parametrize("substrate", ["greenlet", "thread"])


def log_of(kernel: Kernel, sleeps: dict[str, list[int]]) -> list[tuple[str, int]]:
    """Tasks that sleep as listed and write down when they wake."""
    log: list[tuple[str, int]] = []

    def work(name: str, naps: list[int]) -> None:
        for nap in naps:
            kernel.wait(nap)
            log.append((name, kernel.now_ns))

    for name, naps in sleeps.items():
        kernel.spawn(lambda name=name, naps=naps: work(name, naps), name=name)
    kernel.run(10**12)
    return log


@BOTH
def test_time_orders_and_ties_are_first_come(substrate):
    """Earlier first; at one instant, in the order in which the waits began."""
    log = log_of(Kernel(substrate=substrate), {"a": [5, 5], "b": [3, 7], "c": [10]})
    assert log == [("b", 3), ("a", 5), ("c", 10), ("b", 10), ("a", 10)]


def test_random_ties_reorder_only_ties_and_are_recorded():
    """A random schedule permutes the steps of one instant; its deviations replay it exactly."""
    sleeps = {name: [10, 10, 10] for name in "abcd"}
    seen = set()
    for seed in range(8):
        kernel = Kernel(RandomTies(stream(seed, "schedule")))
        log = log_of(kernel, sleeps)
        assert [at for _, at in log] == [10] * 4 + [20] * 4 + [30] * 4
        replayed = Replay(kernel.deviations)
        again = Kernel(replayed)
        assert log_of(again, sleeps) == log
        assert again.deviations == kernel.deviations
        assert not replayed.unused
        seen.add(tuple(log))
    assert len(seen) > 1


def test_replay_of_nothing_is_fifo():
    """The default of every decision is first-in, first-out."""
    sleeps = {name: [10, 3, 7] for name in "abc"}
    fifo, replay = Kernel(Fifo()), Kernel(Replay([]))
    assert log_of(fifo, sleeps) == log_of(replay, sleeps)
    assert (fifo.events, fifo.deviations) == (replay.events, replay.deviations)


def test_choice_that_is_not_offered_stays_unused():
    """Replay takes the default where a stored decision does not exist, and remembers that."""
    schedule = Replay([(0, 99), (500, 1)])
    log_of(Kernel(schedule), {"a": [1], "b": [1]})
    assert schedule.unused == {0: 99, 500: 1}


@BOTH
def test_event_wakes_waiters_and_timeouts_expire(substrate):
    """An event ends a wait at once; without it the wait ends at its timeout and says so."""
    kernel = Kernel(substrate=substrate)
    event, log = SimEvent(kernel), []

    def waiter(timeout: int) -> None:
        log.append((event.wait(timeout), kernel.now_ns))

    def setter() -> None:
        kernel.wait(50)
        event.set()

    for timeout in (20, 80):
        kernel.spawn(lambda timeout=timeout: waiter(timeout), name=f"w{timeout}")
    kernel.spawn(setter, name="setter")
    assert kernel.run(1000) is RunEnd.FINISHED
    assert log == [(False, 20), (True, 50)]
    assert event.is_set()
    event.clear()
    assert not event.is_set()


@BOTH
def test_mutex_excludes_and_gives_up_in_time(substrate):
    """One holder at a time; acquire with a timeout returns False when it is over, not earlier."""
    kernel = Kernel(substrate=substrate)
    mutex, log = SimMutex(kernel), []

    def holder() -> None:
        with mutex:
            log.append(("holder", kernel.now_ns))
            kernel.wait(100)

    def patient() -> None:
        with mutex:
            log.append(("patient", kernel.now_ns))

    def hasty() -> None:
        log.append(("hasty", mutex.acquire(30), kernel.now_ns))

    for work in (holder, patient, hasty):
        kernel.spawn(work, name=work.__name__)
    kernel.run(1000)
    assert log == [("holder", 0), ("hasty", False, 30), ("patient", 100)]
    with pytest.raises(RuntimeError, match="not locked"):
        mutex.release()


def test_join_waits_for_the_end():
    """A join returns when the task has ended, or at its timeout with False."""
    kernel, log = Kernel(), []

    def child() -> None:
        kernel.wait(100)

    def parent() -> None:
        task = kernel.spawn(child, name="child")
        log.append((task.join(40), kernel.now_ns))
        log.append((task.join(), kernel.now_ns, task.is_alive()))

    kernel.spawn(parent, name="parent")
    kernel.run(1000)
    assert log == [(False, 40), (True, 100, False)]


def test_wake_is_for_one_wait_only():
    """A join that timed out leaves nothing behind: the child's end does not cut a later sleep short."""
    kernel, log = Kernel(), []

    def parent() -> None:
        child = kernel.spawn(lambda: kernel.wait(100), name="child")
        assert not child.join(40)
        kernel.wait(500)
        log.append(kernel.now_ns)

    kernel.spawn(parent, name="parent")
    kernel.run(1000)
    assert log == [540]


def test_deadlock_is_reported_with_names():
    """Nothing left to happen while tasks wait: the run ends as IDLE and names them."""
    kernel = Kernel()
    event = SimEvent(kernel)
    kernel.spawn(event.wait, name="main", node="n1")
    assert kernel.run(10**12) is RunEnd.IDLE
    assert kernel.stuck == ("n1/main",)
    kernel.close()


def test_horizon_keeps_what_is_beyond_it():
    """A run stops at its horizon, and a second run goes on from there."""
    kernel, log = Kernel(), []

    def work() -> None:
        kernel.wait(100)
        log.append(kernel.now_ns)

    kernel.spawn(work, name="main")
    assert kernel.run(60) is RunEnd.HORIZON
    assert (kernel.now_ns, log) == (60, [])
    assert kernel.run(100) is RunEnd.FINISHED
    assert log == [100]


def test_daemons_do_not_keep_a_run_going():
    """With a linger time the run ends that long after the last awaited task."""
    kernel = Kernel()

    def heartbeat() -> None:
        while True:
            kernel.wait(10)

    kernel.spawn(heartbeat, name="heartbeat", is_daemon=True)
    kernel.spawn(lambda: kernel.wait(35), name="main")
    assert kernel.run(10**9, linger_ns=20) is RunEnd.FINISHED
    assert kernel.now_ns == 50
    kernel.close()


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_task_that_begins_while_the_run_lingers_is_waited_for(is_expected):
    """A restart after the last awaited task has ended has all the time that `run` was given."""
    kernel, log = Kernel(), []

    def second_life() -> None:
        kernel.spawn(lambda: log.append(kernel.wait(500) or kernel.now_ns), name="second life")
        if is_expected:
            kernel.expect_no_task()

    def crash() -> None:
        if is_expected:
            kernel.expect_task()
        kernel.call_at(kernel.now_ns + 10, second_life)

    kernel.spawn(lambda: kernel.wait(30), name="first life")
    kernel.call_at(40, crash)
    assert kernel.run(10**9, linger_ns=20) is RunEnd.FINISHED
    assert (log, kernel.stuck) == ([550], ())


@BOTH
def test_exception_reaches_run_with_the_task_named(substrate):
    """A defect in a task ends the run and says whose it was."""
    kernel = Kernel(substrate=substrate)

    def broken() -> None:
        kernel.wait(1_500_000_000)
        raise ZeroDivisionError("planted")

    kernel.spawn(broken, name="heartbeat", node="n2")
    with pytest.raises(ZeroDivisionError, match="planted") as caught:
        kernel.run(10**12)
    assert "task 'n2/heartbeat' at true time 1.5" in "".join(caught.value.__notes__)
    kernel.close()


@BOTH
def test_close_unwinds_every_stack(substrate):
    """After a run no thread is left over, and tasks were unwound without acting."""
    before = threading.active_count()
    kernel, log = Kernel(substrate=substrate), []

    def work() -> None:
        try:
            kernel.wait(10**12)
        finally:
            log.append("unwound")

    for number in range(5):
        kernel.spawn(work, name=f"t{number}")
    kernel.run(100)
    kernel.close()
    assert log == ["unwound"] * 5
    assert threading.active_count() == before


def test_event_budget_shows_the_last_ten_events():
    """A livelock ends in BudgetExceeded with the tail of events, not in a hang."""
    kernel = Kernel(budget=Budget(events_max=1000))

    def spin() -> None:
        while True:
            kernel.wait(0)

    kernel.spawn(spin, name="main", node="n1")
    with pytest.raises(BudgetExceeded, match="events_max=1000") as caught:
        kernel.run(10**12)
    assert str(caught.value).count("task n1/main") == 10
    kernel.close()


def test_event_budget_bounds_chosen_schedules_too():
    """The loop for other schedules has the same bound."""
    kernel = Kernel(Replay([]), budget=Budget(events_max=100))

    def spin() -> None:
        while True:
            kernel.wait(0)

    kernel.spawn(spin, name="main")
    with pytest.raises(BudgetExceeded, match="events_max=100"):
        kernel.run(10**12)
    kernel.close()


def test_virtual_time_budget():
    """A run that would go past the bound on virtual time is refused, not cut silently."""
    kernel = Kernel(budget=Budget(virtual_ns_max=1000))
    kernel.spawn(lambda: kernel.wait(5000), name="main")
    with pytest.raises(BudgetExceeded, match="virtual_ns_max=1000"):
        kernel.run(10_000)
    kernel.close()


def test_thread_that_blocks_outside_its_runtime_is_found(monkeypatch):
    """The gated substrate reports a task that waits on a real primitive; greenlets would hang."""
    monkeypatch.setattr(substrates, "GATE_PATIENCE_S", 0.05)
    kernel, real = Kernel(substrate="thread"), threading.Event()
    kernel.spawn(real.wait, name="main", node="n1")
    with pytest.raises(DeterminismError, match="n1/main"):
        kernel.run(1000)
    real.set()
    kernel.close()


def test_unknown_substrate_is_refused():
    """The message names what there is."""
    with pytest.raises(ConfigError, match="greenlet, thread"):
        Kernel(substrate="fibre")


def test_wake_up_survives_a_clock_change_of_the_same_instant():
    """A task that was woken runs now, even if its clock changes before its turn and its timeout moves."""
    kernel, clock, log = Kernel(), NodeClock(), []
    event = SimEvent(kernel)

    def waiter() -> None:
        log.append((event.wait(1000), kernel.now_ns))

    def disturb() -> None:
        clock.set_rate(kernel.now_ns, 1000)
        kernel.retime(clock)

    kernel.call_at(50, event.set)
    kernel.call_at(50, disturb)
    kernel.spawn(waiter, name="waiter", clock=clock)
    kernel.run(10_000)
    assert log == [(True, 50)]


def test_task_killed_before_it_began_is_not_waited_for():
    """Its end is an end like any other."""
    kernel = Kernel()
    task = kernel.spawn(lambda: None, name="stillborn")
    kernel.kill(task)
    assert not task.is_alive()
    assert kernel.run(1000) is RunEnd.FINISHED
    assert kernel.stuck == ()


def test_lingering_ends_with_the_run():
    """However long a run would linger, it never goes beyond what it was given."""
    kernel, log = Kernel(), []

    def heartbeat() -> None:
        while True:
            kernel.wait(10)
            log.append(kernel.now_ns)

    kernel.spawn(heartbeat, name="heartbeat", is_daemon=True)
    kernel.spawn(lambda: kernel.wait(75), name="main")
    assert kernel.run(100, linger_ns=1000) is RunEnd.FINISHED
    assert log[-1] == 100
    kernel.close()
