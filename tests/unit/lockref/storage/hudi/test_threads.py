"""Monitors, interrupt flags and the fixed-rate scheduler under Hudi's lock."""

from __future__ import annotations

import pytest

from lockref.runtime import NS_PER_S
from lockref.storage.hudi.java_threads import FixedRateScheduler, JavaThreads, Monitor, SchedulerRefused
from tests.unit.lockref.storage.hudi.bench import Bench


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.kernel.close()


def test_a_monitor_lets_its_own_task_in_again_and_others_wait(bench):
    """`synchronized` is re-entrant: close calls unlock; the outermost exit opens it."""
    monitor, order = Monitor(bench.runtime()), []

    def inside():
        with monitor:
            with monitor:
                bench.sleep(1)
            order.append("inner left")
            bench.sleep(1)
            order.append("outer leaves")

    def outside():
        bench.sleep(0.5)
        with monitor:
            order.append("other enters")

    bench.run(inside, outside)
    assert order == ["inner left", "outer leaves", "other enters"]


def test_every_task_has_its_own_interrupt_flag(bench):
    """U6: interrupting one caller of a lock leaves the others alone; the same task keeps its flag."""
    threads = JavaThreads(bench.runtime())
    seen = []

    def caller():
        mine = threads.current()
        bench.sleep(1)
        assert threads.current() is mine
        seen.append(mine.is_interrupted())

    def interrupter():
        bench.sleep(0.5)
        threads._known[0].interrupt()

    bench.run(caller, caller, interrupter)
    assert seen == [True, False]


def test_flags_of_ended_tasks_are_forgotten(bench):
    """A long-lived lock called from ever new threads does not grow."""
    threads = JavaThreads(bench.runtime())
    for _ in range(20):
        bench.run(threads.current)
    assert len(threads._known) == 1


def test_a_shut_down_scheduler_ends_its_work_and_takes_no_more(bench):
    """Java's shutdown cancels recurring work and refuses new work."""
    scheduler, ticks = FixedRateScheduler(bench.runtime(), name="s"), []

    def life():
        scheduler.schedule(lambda: ticks.append(bench.kernel.now_ns), period_ns=NS_PER_S)
        bench.sleep(2.5)
        scheduler.shutdown()
        assert scheduler.await_termination(NS_PER_S)
        bench.sleep(5)
        scheduler.schedule(lambda: None, period_ns=NS_PER_S)

    with pytest.raises(SchedulerRefused):
        bench.run(life)
    assert ticks == [NS_PER_S, 2 * NS_PER_S]


def test_a_scheduler_forgets_what_has_ended(bench):
    """A provider that is reused for a hundred cycles keeps one entry, not a hundred."""
    scheduler = FixedRateScheduler(bench.runtime(), name="s")

    def cycles():
        for _ in range(100):
            future = scheduler.schedule(lambda: None, period_ns=NS_PER_S)
            future.cancel()
            bench.sleep(0.1)
        return len(scheduler._running)

    assert bench.run(cycles) == 1
