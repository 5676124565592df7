"""Hudi's lock metrics, collected from a lock's listener and exposed for Prometheus.

The names are Hudi's, with dots turned into underscores as Prometheus wants
them, so that a dashboard made for one reads the other. One difference is kept
visible: `lock.acquire.attempts` counts successes only, as Hudi's does.

    metrics = LockMetrics(prefix="hudi")
    lock = StorageLock(store, config=config, listener=metrics)
    metrics.exposition()
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lockref.provider import LockEvent, LockEventKind

COUNTERS: Final = {
    "lock.acquire.attempts": "Acquisitions that succeeded, as Hudi counts attempts",
    "lock.acquire.success": "Calls that were granted the lock",
    "lock.acquire.failure": "Calls that ended without a grant",
    "lock.release.success": "Releases that the store confirmed",
    "lock.release.failure": "Releases whose fate stayed unknown",
    "lock.acquired.others.error": "Looks that found somebody else's live lease",
    "lock.state.unknown": "Requests without a definite answer",
    "lock.acquire.precondition.failure": "Acquiring writes that lost to another write",
    "lock.provider.fatal.error": "Heartbeats that ended by an error",
    "lock.dangling": "Leases taken over after they had lapsed",
    "lock.interrupted": "Grants lost while they were wanted",
    "lock.throttled": "Requests that the store throttled",
}
TIMERS: Final = {
    "lock.acquire.duration": "How long a grant was held, seconds",
    "lock.request.latency": "How long a request to the store took, seconds",
}
GAUGES: Final = {"lock.expiration.deadline": "Time left to believe after the last renewal, seconds"}

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def prometheus_name(name: str, prefix: str = "") -> str:
    """Hudi's name as Prometheus accepts it."""
    return f"{prefix}.{name}".removeprefix(".").replace(".", "_").replace("-", "_")


class LockMetrics:
    """A `LockListener` with a registry of its own, so that several may live in one process.

    prefix: Hudi's reporter prefix.
    """

    def __init__(self, prefix: str = "") -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            name: Counter(prometheus_name(name, prefix), help_, registry=self.registry)
            for name, help_ in COUNTERS.items()
        }
        self._timers = {
            name: Histogram(prometheus_name(name, prefix), help_, buckets=_BUCKETS, registry=self.registry)
            for name, help_ in TIMERS.items()
        }
        self._gauges = {
            name: Gauge(prometheus_name(name, prefix), help_, registry=self.registry) for name, help_ in GAUGES.items()
        }

    def __call__(self, event: LockEvent) -> None:
        if event.kind is LockEventKind.LOST:
            self._counters["lock.interrupted"].inc()
            if "failed" in event.reason:
                self._counters["lock.provider.fatal.error"].inc()
        if event.kind is not LockEventKind.METRIC:
            return
        if event.name in self._counters:
            self._counters[event.name].inc(event.value)
        elif event.name in self._timers:
            self._timers[event.name].observe(event.value)
        elif event.name in self._gauges:
            # Clamped as Hudi clamps it.
            self._gauges[event.name].set(max(0.0, event.value))

    def value(self, name: str) -> float:
        """A counter's total, a gauge's value, or how often a timer was used. By Hudi's name."""
        metric = self._counters.get(name) or self._gauges.get(name) or self._timers[name]
        suffix = "_count" if name in self._timers else "_total" if name in self._counters else ""
        samples = [sample for family in metric.collect() for sample in family.samples]
        return float(next(sample.value for sample in samples if sample.name.endswith(suffix) or not suffix))

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
