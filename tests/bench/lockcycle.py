"""What a lock cycle costs: against the same raw conditional writes, and Hudi's build against the hardened one."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import pyarrow.compute as pc

from lockref.lab.loading import load_provider
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.stores.port import ObjectStore, Outcome
from lockref.stores.uri import open_store
from reports.checks import judge_with_handoffs
from scenarios.backends import start_backend
from scenarios.definition.load import load_scenario
from scenarios.run import run_real
from tests.bench.figures import Figure, in_turn

CYCLES = 150
CONTENDERS = (1, 16, 128)
WORKLOADS = {"contention": 8, "writers": 16}
"""Scenario of the catalogue to seconds: clients that come back at once, and clients with other work to do."""


def _raw_cycles(store: ObjectStore, key: str) -> float:
    """Median seconds of two conditional writes, each on the version that the last one made."""
    version = store.put_if_absent(key, b"x" * 100).version or store.read(key).version
    spent = []
    for number in range(CYCLES):
        began = time.perf_counter()
        for half in ("held", "free"):
            assert version is not None, "a raw write was refused"
            reply = store.put_if_version(key, f"{number} {half}".ljust(100).encode(), version)
            assert reply.outcome is Outcome.APPLIED, reply
            version = reply.version
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def _lock_cycles(store: ObjectStore, key: str) -> float:
    """Median seconds of lock and unlock by the hardened lock, uncontended and warm."""
    context = LockContext(runtime=ThreadRuntime(), open_store=lambda _timeout: store, settings=LockSettings(key=key))
    lock = load_provider("hardened").factory(context)
    spent = []
    for _ in range(CYCLES):
        began = time.perf_counter()
        assert lock.lock(5.0), "an uncontended lock was refused"
        lock.unlock()
        spent.append(time.perf_counter() - began)
    lock.close()
    return statistics.median(spent)


def measure() -> list[Figure]:
    """Cycle cost and contention on ministack."""
    figures = []
    with start_backend("ministack") as server:
        store = open_store(server.uri, request_timeout_ns=5 * NS_PER_S)
        locked, raw = in_turn(lambda: _lock_cycles(store, "bench/lock"), lambda: _raw_cycles(store, "bench/raw"))
        store.close()
        ratio = locked.over(raw)
        figures.append(
            Figure.of(
                "lock cycle against its two raw conditional writes, ministack",
                ratio,
                "ratio",
                aim="<= 1.1",
                is_met=ratio.median <= 1.1,
                note=f"{locked.times(1e3)} against {raw.times(1e3)} ms",
            )
        )
        for workload in WORKLOADS:
            for contenders in CONTENDERS:
                figures += _contended(server.uri, workload, contenders)
    return figures


def _contended(uri: str, workload: str, contenders: int) -> list[Figure]:
    hudi, hardened = (_one_run(uri, build, workload, contenders) for build in ("hudi", "hardened"))
    label = f"hardened against hudi, {workload}, {contenders} contenders"
    requests = hardened.requests_per_grant / hudi.requests_per_grant
    figures = [
        Figure(
            name=f"requests per grant, {label}",
            value=requests,
            unit="ratio",
            aim="<= 1",
            is_met=requests <= 1,
            note=f"{hardened.requests_per_grant:.1f} against {hudi.requests_per_grant:.1f}",
        )
    ]
    if hudi.handoffs_ns and hardened.handoffs_ns:
        ours, theirs = statistics.median(hardened.handoffs_ns), statistics.median(hudi.handoffs_ns)
        figures.append(
            Figure(
                name=f"median hand-off after release, {label}",
                value=ours / theirs,
                unit="ratio",
                aim="<= 0.2",
                is_met=ours / theirs <= 0.2,
                note=f"{ours / NS_PER_MS:.0f} against {theirs / NS_PER_MS:.0f} ms; "
                f"{len(hardened.handoffs_ns)} against {len(hudi.handoffs_ns)} releases that served a waiter",
            )
        )
    return figures


@dataclass(frozen=True)
class _Run:
    """handoffs_ns: from each release to the grant of one who waited then (`reports.checks.measures.handoff`)."""

    requests_per_grant: float
    handoffs_ns: list[int]


def _one_run(uri: str, build: str, workload: str, contenders: int) -> _Run:
    outcome = run_real(
        load_scenario(workload),
        load_provider(build),
        uri,
        clients=contenders,
        duration_ns=WORKLOADS[workload] * NS_PER_S,
    )
    judgement, handoffs = judge_with_handoffs(outcome.events, outcome.runs)
    sent = pc.sum(pc.equal(outcome.events["kind"].cast("string"), "sent")).as_py()
    grants = len(judgement.grants)
    assert grants, f"{build} was never granted the lock"
    after_release = handoffs.filter(pc.equal(handoffs["after"].cast("string"), "release"))
    return _Run(sent / grants, after_release["handoff_ns"].to_pylist())
