"""§7: Hudi's metric names, as Prometheus reads them."""

from __future__ import annotations

import pytest

from lockref.errors import LockLost, ReleaseFailed
from lockref.provider import LockEvent, LockEventKind
from lockref.storage.lockfile import LockFile
from lockref.storage.metrics import COUNTERS, GAUGES, TIMERS, LockMetrics, prometheus_name
from tests.hardened_rig import KEY, Rig, error_503, lose_request, throttle


def metric(name: str, value: float = 1.0) -> LockEvent:
    return LockEvent(kind=LockEventKind.METRIC, name=name, value=value)


def rig_with_metrics() -> tuple[Rig, LockMetrics]:
    rig, metrics = Rig(), LockMetrics("hudi")
    rig.lock = rig.another(listener=metrics)
    return rig, metrics


def test_names_follow_hudis():
    """Prefix and dots become what Prometheus accepts."""
    assert prometheus_name("lock.acquire.success", "my-table.hudi") == "my_table_hudi_lock_acquire_success"
    assert prometheus_name("lock.dangling") == "lock_dangling"


def test_a_cycle_is_counted():
    """A grant, a renewal and a release, with their durations."""
    rig, metrics = rig_with_metrics()
    rig.lock.try_lock()
    rig.runtime.advance(2_000_000_000)
    rig.renew()
    rig.lock.unlock()
    assert metrics.value("lock.acquire.attempts") == 1
    assert metrics.value("lock.acquire.success") == 1
    assert metrics.value("lock.release.success") == 1
    assert metrics.value("lock.acquire.duration") == 1
    assert metrics.value("lock.request.latency") == 4
    assert metrics.value("lock.expiration.deadline") == 9.5
    assert metrics.value("lock.acquire.failure") == 0


def test_trouble_is_counted():
    """A throttled acquire, a lost answer, a takeover, a denial, a loss."""
    rig, metrics = rig_with_metrics()
    rig.store.plant(rig.live(for_ms=-600))
    rig.store.script = [lambda _s, perform, _r: perform(), throttle, lose_request]
    rig.lock.lock(5)
    rig.runtime.advance(20_000_000_000)
    rig.runtime.run("watchdog")
    assert metrics.value("lock.throttled") == 1
    assert metrics.value("lock.state.unknown") == 1
    assert metrics.value("lock.dangling") >= 1
    assert metrics.value("lock.interrupted") == 1
    with pytest.raises(LockLost):
        rig.lock.unlock()
    rig.store.plant(rig.live())
    rig.lock.try_lock()
    assert metrics.value("lock.acquired.others.error") == 1
    assert metrics.value("lock.acquire.failure") == 1


def test_a_write_without_an_answer_is_counted():
    """§7: a renewal that may or may not have landed is an unknown state, as a read without an answer is."""
    rig, metrics = rig_with_metrics()
    rig.lock.try_lock()
    rig.store.script = [error_503]
    rig.renew()
    assert metrics.value("lock.state.unknown") == 1


def test_fatal_errors_are_told_from_other_losses():
    """A heartbeat that broke counts as fatal; a lease that ran out does not."""
    metrics = LockMetrics()
    metrics(LockEvent(kind=LockEventKind.LOST, reason="the lease ended before it could be renewed"))
    metrics(LockEvent(kind=LockEventKind.LOST, reason="the heartbeat failed: RuntimeError()"))
    assert metrics.value("lock.interrupted") == 2
    assert metrics.value("lock.provider.fatal.error") == 1


def test_gauge_is_clamped_and_strangers_are_ignored():
    """§7: the deadline is never below zero; a provider's own metrics do no harm."""
    metrics = LockMetrics()
    metrics(metric("lock.expiration.deadline", -3.0))
    metrics(metric("someone.elses"))
    assert metrics.value("lock.expiration.deadline") == 0


@pytest.mark.parametrize("name", [*COUNTERS, *TIMERS, *GAUGES])
def test_exposition_has_every_metric(name):
    """All of Hudi's names are there from the start, so that a dashboard has no holes."""
    text = LockMetrics("hudi").exposition().decode()
    assert prometheus_name(name, "hudi") in text


def test_registries_are_separate():
    """Several locks in one process do not share counters."""
    one, two = LockMetrics(), LockMetrics()
    one(metric("lock.dangling"))
    assert (one.value("lock.dangling"), two.value("lock.dangling")) == (1, 0)


def test_a_counter_counts_by_the_value_it_is_told():
    """The listener's contract: counters count up by `value`."""
    metrics = LockMetrics()
    metrics(metric("lock.dangling", 3.0))
    assert metrics.value("lock.dangling") == 3


def test_what_failed_is_counted():
    """A call that ends without a grant, and a release that the store did not take."""
    rig, metrics = rig_with_metrics()
    rig.store.plant(rig.live(for_ms=100))
    rig.lock.try_lock()
    assert metrics.value("lock.acquire.failure") == 1
    assert rig.lock.lock(5)
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert metrics.value("lock.release.failure") == 1
    assert metrics.value("lock.release.success") == 0


def test_a_lost_race_is_counted_and_a_deleted_object_is_none():
    """A write that met another version counts; one whose object is gone says nothing of a rival."""
    rig, metrics = rig_with_metrics()
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: rig.store.plant(rig.live()) if name == "replace" else None
    assert rig.lock.try_lock() is False
    assert metrics.value("lock.acquire.precondition.failure") == 1
    rig, metrics = rig_with_metrics()
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: rig.store.delete(KEY) if name == "replace" else None
    assert rig.lock.try_lock()
    assert metrics.value("lock.acquire.precondition.failure") == 0
