"""What a lock cycle costs: against the same raw conditional writes, and Hudi's build against the hardened one."""

from __future__ import annotations

import statistics
import time

import pyarrow.compute as pc

from lockref.provider import LockContext, LockSettings
from lockref.providers import load_provider
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.port import ObjectStore, Outcome
from lockref.stores.uri import open_store
from reports.checks import judge
from reports.checks import measure as measured
from scenarios.backends import start_backend
from scenarios.load import load_scenario
from scenarios.run import run_real
from tests.bench.figures import Figure, in_turn

CYCLES = 150
CONTENDERS = (1, 16, 128)
CONTENTION_S = 8


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
        figures.append(
            Figure(
                name="lock cycle against its two raw conditional writes, ministack",
                value=locked / raw,
                unit="ratio",
                aim="<= 1.1",
                is_met=locked / raw <= 1.1,
                note=f"{locked * 1e3:.2f} against {raw * 1e3:.2f} ms",
            )
        )
        for contenders in CONTENDERS:
            figures += _contended(server.uri, contenders)
    return figures


def _contended(uri: str, contenders: int) -> list[Figure]:
    told = {build: _one_run(uri, build, contenders) for build in ("hudi", "hardened")}
    requests = {build: cost for build, (cost, _) in told.items()}
    figures = [
        Figure(
            name=f"requests per grant, hardened against hudi, {contenders} contenders",
            value=requests["hardened"] / requests["hudi"],
            unit="ratio",
            aim="<= 1",
            is_met=requests["hardened"] <= requests["hudi"],
            note=f"{requests['hardened']:.1f} against {requests['hudi']:.1f}",
        )
    ]
    handoff = {build: seconds for build, (_, seconds) in told.items() if seconds is not None}
    if len(handoff) == 2:
        ratio = handoff["hardened"] / handoff["hudi"]
        figures.append(
            Figure(
                name=f"median hand-off after release, hardened against hudi, {contenders} contenders",
                value=ratio,
                unit="ratio",
                aim="<= 0.2",
                is_met=ratio <= 0.2,
                note=f"{handoff['hardened'] * 1e3:.0f} against {handoff['hudi'] * 1e3:.0f} ms",
            )
        )
    return figures


def _one_run(uri: str, build: str, contenders: int) -> tuple[float, float | None]:
    """Requests per grant, and the median hand-off in seconds (None where nobody waited)."""
    outcome = run_real(
        load_scenario("contention"),
        load_provider(build),
        uri,
        clients=contenders,
        duration_ns=CONTENTION_S * NS_PER_S,
    )
    judgement = judge(outcome.events, outcome.runs)
    sent = pc.sum(pc.equal(outcome.events["kind"].cast("string"), "sent")).as_py()
    grants = len(judgement.grants)
    assert grants, f"{build} was never granted the lock"
    handoffs = measured(outcome.events, outcome.runs).handoffs
    after_release = handoffs.filter(pc.equal(handoffs["after"].cast("string"), "release"))
    waits = after_release["handoff_ns"].to_pylist()
    return sent / grants, statistics.median(waits) / NS_PER_S if waits else None
