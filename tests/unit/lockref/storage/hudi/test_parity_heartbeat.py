"""Hudi's `TestLockProviderHeartbeatManager`, by name, in virtual time.

Left out: testHeartbeatTaskNullWriter (a missing thread is refused by the type checker, not at run time).
"""

from __future__ import annotations

import pytest

from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.hudi.heartbeat import LockProviderHeartbeatManager
from lockref.storage.hudi.java_threads import FixedRateScheduler, JavaThreads, SchedulerRefused
from tests.unit.lockref.storage.hudi.bench import Bench, Broken


class Owner:
    """A thread to monitor, a manager for it, and what the manager did."""

    def __init__(self, bench, *, interval_ns=NS_PER_S, **options):
        self.bench = bench
        self.runtime = bench.runtime()
        self.threads = JavaThreads(self.runtime)
        self.beats = []
        self.answer = lambda: True
        self.manager = LockProviderHeartbeatManager(
            "3f2504e0-4f89", interval_ns, self.beat, runtime=self.runtime, threads=self.threads, **options
        )

    def beat(self):
        self.beats.append(self.runtime.monotonic_ns())
        return self.answer()

    def run(self, seconds, then=lambda: None):
        """Start the heartbeat on a task of its own, live for a while, then do something."""

        def life():
            assert self.manager.start_heartbeat_for_thread(self.threads.current())
            self.bench.sleep(seconds)
            return then()

        return self.bench.run(life)


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.kernel.close()


@pytest.fixture
def owner(bench):
    return Owner(bench)


# Start.


def test_start_heartbeat_success(bench, owner):
    """testStartHeartbeatSuccess: first beat one whole interval after the start, then at a fixed rate."""
    assert owner.run(3.5, owner.manager.has_active_heartbeat) is True
    assert owner.beats == [NS_PER_S, 2 * NS_PER_S, 3 * NS_PER_S]
    names = [task.name for task in bench.kernel.tasks]
    assert "LockProvider-HeartbeatManager-Thread-3f2504" in names


def test_start_heartbeat_already_running(owner):
    """testStartHeartbeatAlreadyRunning: a second start is refused and disturbs nothing."""
    again = lambda: owner.manager.start_heartbeat_for_thread(owner.threads.current())  # noqa: E731
    assert owner.run(1.5, again) is False
    assert owner.manager.has_active_heartbeat()


def test_start_heartbeat_scheduler_exception(bench):
    """testStartHeartbeatSchedulerException: a scheduler that refuses makes start answer false, not raise."""

    class Refusing(FixedRateScheduler):
        def schedule(self, work, *, period_ns):
            raise SchedulerRefused("full")

    runtime = bench.runtime()
    owner = Owner(bench, scheduler=Refusing(runtime, name="x"))
    assert bench.run(lambda: owner.manager.start_heartbeat_for_thread(owner.threads.current())) is False
    assert bench.run(owner.manager.has_active_heartbeat) is False


def test_late_beats_follow_back_to_back(owner):
    """Fixed rate: a beat that outlasts its interval makes the next ones late, none is skipped."""

    def slow_once():
        if len(owner.beats) == 1:
            owner.bench.sleep(2.5)
        return True

    owner.answer = slow_once
    owner.run(4.2)
    assert owner.beats == [NS_PER_S, round(3.5 * NS_PER_S), round(3.5 * NS_PER_S), 4 * NS_PER_S]


# Stop.


def test_stop_heartbeat_never_started(bench, owner):
    """testStopHeartbeatNeverStarted: nothing to stop is a no (D10)."""
    assert bench.run(lambda: owner.manager.stop_heartbeat(True)) is False


def test_stop_heartbeat_already_requested(owner):
    """testStopHeartbeatAlreadyRequested: the second stop answers false."""
    stop = lambda: (owner.manager.stop_heartbeat(True), owner.manager.stop_heartbeat(True))  # noqa: E731
    assert owner.run(1.5, stop) == (True, False)


def test_stop_heartbeat_mock_successful_cancel(bench, owner):
    """testStopHeartbeatMockSuccessfulCancel: after a stop no beat comes any more."""

    def stop():
        assert owner.manager.stop_heartbeat(True)
        bench.sleep(5)
        return owner.manager.has_active_heartbeat()

    assert owner.run(1.5, stop) is False
    assert owner.beats == [NS_PER_S]


def test_stop_heartbeat_does_not_interrupt_writer_thread(bench, owner):
    """testStopHeartbeatDoesNotInterruptWriterThread: a beat that fails because of the stop interrupts nobody."""

    def fail_late():
        bench.sleep(0.5)
        return False

    def stop():
        assert owner.manager.stop_heartbeat(True)
        bench.sleep(1)
        return owner.threads.current().is_interrupted()

    owner.answer = fail_late
    assert owner.run(1.2, stop) is False


# One beat.


def test_heartbeat_unable_to_acquire_semaphore(bench):
    """testHeartbeatUnableToAcquireSemaphore: a beat that finds another in progress is skipped."""
    semaphore = bench.runtime().mutex()
    owner = Owner(bench, semaphore=semaphore)

    def hold():
        with semaphore:
            bench.sleep(2.5)

    def life():
        assert owner.manager.start_heartbeat_for_thread(owner.threads.current())
        bench.sleep(3.5)
        return owner.manager.has_active_heartbeat()

    assert bench.run(hold, life) is True
    assert owner.beats == [3 * NS_PER_S]


def test_heartbeat_task_handles_interrupt(bench, owner):
    """testHeartbeatTaskHandlesInterrupt: a stop during a beat lets it finish, as the last one."""

    def slow():
        bench.sleep(0.7)
        owner.beats.append("finished")
        return True

    owner.answer = slow
    assert owner.run(1.1, lambda: owner.manager.stop_heartbeat(True)) is True
    assert owner.beats == [NS_PER_S, "finished"]


def test_heartbeat_task_immediate_dead_monitoring_thread(bench, owner):
    """testHeartbeatTaskImmediateDeadMonitoringThread, U10: a dead owner ends the heartbeat without a renewal."""
    owner.run(0)
    bench.run(lambda: bench.sleep(1.5))
    assert (owner.beats, bench.run(owner.manager.has_active_heartbeat)) == ([], False)
    assert not owner.threads._known[0].is_interrupted(), "a dead thread hears nothing"


def test_heartbeat_task_renewal_exception(bench, owner):
    """testHeartbeatTaskRenewalException: a raising renewal ends the heartbeat."""

    def broken():
        raise Broken("renewal")

    owner.answer = broken
    assert owner.run(3.5, owner.manager.has_active_heartbeat) is False
    assert owner.beats == [NS_PER_S]


def test_heartbeat_task_validate_stop(bench, owner):
    """testHeartbeatTaskValidateStop: a stop clears the way for a new start, which beats again."""

    def restart():
        assert owner.manager.stop_heartbeat(True)
        assert owner.manager.start_heartbeat_for_thread(owner.threads.current())
        bench.sleep(1.5)

    owner.run(1.5, restart)
    assert owner.beats == [NS_PER_S, round(2.5 * NS_PER_S)]


def test_heartbeat_dies_unnoticed_of_what_java_calls_an_error(bench, owner):
    """U15: an Error ends the beats, `active` stays true and nobody is interrupted."""

    def error():
        raise NotImplementedError("stands for NoClassDefFoundError")

    owner.answer = error
    with pytest.raises(NotImplementedError):
        owner.run(3)
    assert owner.manager._future is not None
    assert not owner.threads._known[0].is_interrupted()
    assert owner.beats == [NS_PER_S]


# Waiting for a beat in progress.


def test_heartbeat_stop_waits_for_heartbeat_task_to_finish(bench, owner):
    """testHeartbeatStopWaitsForHeartbeatTaskToFinish, E18: stop returns when the beat is over."""
    owner.answer = lambda: bench.sleep(4) or True
    assert owner.run(1.5, lambda: (owner.manager.stop_heartbeat(True), bench.kernel.now_ns)) == (True, 5 * NS_PER_S)


def test_heartbeat_unable_to_stop_heartbeat_task(bench, owner):
    """testHeartbeatUnableToStopHeartbeatTask: after 15 s stop gives up, and the heartbeat still counts as active."""
    owner.answer = lambda: bench.sleep(60) or True
    stop = lambda: (owner.manager.stop_heartbeat(True), owner.manager.has_active_heartbeat(), bench.kernel.now_ns)  # noqa: E731
    assert owner.run(1.5, stop) == (False, True, round(16.5 * NS_PER_S))


def test_heartbeat_interrupt_stop_heartbeat_task(bench, owner):
    """testHeartbeatInterruptStopHeartbeatTask, D10: with the caller's interrupt flag set, stop fails at once."""

    def stop():
        owner.threads.current().interrupt()
        return owner.manager.stop_heartbeat(True), owner.manager.has_active_heartbeat(), bench.kernel.now_ns

    assert owner.run(1.5, stop) == (False, True, round(1.5 * NS_PER_S))


def test_default_manager_rapid_start_stop_1_ms(bench):
    """testDefaultManagerRapidStartStop1Ms: a hundred quick cycles, each stop clean."""
    owner = Owner(bench, interval_ns=NS_PER_MS)

    def cycles():
        for number in range(100):
            assert owner.manager.start_heartbeat_for_thread(owner.threads.current())
            bench.sleep(0.0003 * (number % 7))
            assert owner.manager.stop_heartbeat(True)

    bench.run(cycles)
    assert len(owner.beats) > 10


class GapAfterRelease:
    """A permit whose first release lets others go first, as a preempted thread does."""

    def __init__(self, bench):
        self._bench = bench
        self._permit = bench.runtime().mutex()
        self._gap_s = 0.1
        self.acquire = self._permit.acquire

    def release(self):
        self._permit.release()
        gap_s, self._gap_s = self._gap_s, 0
        if gap_s:
            self._bench.sleep(gap_s)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_failed_beat_that_is_overtaken_by_stop_and_start_cancels_the_next_heartbeat(bench, restarts):
    """Section 5: a beat past its permit is not waited for; a restart in between is cancelled by it."""
    owner = Owner(bench, semaphore=GapAfterRelease(bench))

    def overtake():
        assert owner.manager.stop_heartbeat(True)
        if restarts:
            assert owner.manager.start_heartbeat_for_thread(owner.threads.current())
        bench.sleep(0.2)
        return owner.threads.current().is_interrupted(), owner.manager.has_active_heartbeat()

    def slow_failure():
        bench.sleep(0.5)
        return False

    owner.answer = slow_failure
    assert owner.run(1.2, overtake) == (restarts, False)


# Telling the owner.


def test_heartbeat_failure_interrupts_monitored_thread(bench, owner):
    """testHeartbeatFailureInterruptsMonitoredThread (#17870): a renewal that says no interrupts the owner."""
    owner.answer = lambda: False
    assert owner.run(1.5, lambda: owner.threads.current().is_interrupted()) is True
    assert bench.run(owner.manager.has_active_heartbeat) is False


def test_heartbeat_exception_interrupts_monitored_thread(bench, owner):
    """testHeartbeatExceptionInterruptsMonitoredThread (#17870): so does one that raises."""

    def broken():
        raise Broken("renewal")

    owner.answer = broken
    assert owner.run(1.5, lambda: owner.threads.current().is_interrupted()) is True


# Close.


def test_close_stops_an_active_heartbeat(bench, owner):
    """First close test: close stops, and the scheduler refuses new work."""

    def close():
        owner.manager.close()
        return owner.manager.start_heartbeat_for_thread(owner.threads.current())

    assert owner.run(1.5, close) is False
    assert owner.manager._scheduler._is_shut_down


def test_close_without_heartbeat(bench, owner):
    """Second close test: nothing to stop is fine, and takes no time."""
    bench.run(owner.manager.close)
    assert bench.kernel.now_ns == 0


def test_close_waits_five_seconds_for_a_beat_in_progress(bench):
    """Third close test: a beat that does not end is given 5 s after the stop gave up, then left."""
    owner = Owner(bench, stop_timeout_ns=NS_PER_S)
    owner.answer = lambda: bench.sleep(60) or True
    assert owner.run(1.5, lambda: (owner.manager.close(), bench.kernel.now_ns)[1]) == round(7.5 * NS_PER_S)


def test_close_with_interrupt_does_not_wait(bench, owner):
    """Fourth close test: with the caller's interrupt flag set close waits for nothing."""
    owner.answer = lambda: bench.sleep(60) or True

    def close():
        owner.threads.current().interrupt()
        owner.manager.close()
        return bench.kernel.now_ns

    assert owner.run(1.5, close) == round(1.5 * NS_PER_S)
