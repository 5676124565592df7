"""Measures the rows of `python -m tests.bench --before PATH` in one checkout, on demand.

Runs in that checkout, with its interpreter and its modules, and stays warm
between two measurements. It takes a row's name and a store's URI from each
line of standard input and answers with one number a line. It names no module
but those of `tests.bench`, whose names the two checkouts share; everything
else may have moved between them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

SEEDS = {"short": 100, "swarm": 30}
JUDGED_SEEDS = 200
CONTENDERS = 16


def _simulator() -> Any:
    return import_module("tests.bench.simulator")


def _lockcycle() -> Any:
    return import_module("tests.bench.lockcycle")


def _per_cpu_second(done: int, work: Callable[[], object]) -> float:
    """What this process does in a second of its own; another process on the machine takes nothing away from it."""
    began = time.process_time()
    work()
    return done / (time.process_time() - began)


def _events(_uri: str) -> float:
    bench = _simulator()
    return _per_cpu_second(bench.TICKS, bench.our_sleeps)


def _seeds(scenario_name: str, build: str) -> Callable[[str], float]:
    def measure(_uri: str) -> float:
        bench, seeds = _simulator(), SEEDS[scenario_name]
        is_short = scenario_name == "short"
        scenario = bench.parse_scenario(bench.SHORT) if is_short else bench.load_scenario(scenario_name)
        spec = bench.load_provider(build)
        return _per_cpu_second(seeds, lambda: bench.simulate_many(scenario, spec, range(1, seeds + 1)))

    return measure


@cache
def _batch() -> Any:
    bench = _simulator()
    batch = bench.simulate_many(bench.parse_scenario(bench.SHORT), bench.load_provider("hardened"), range(JUDGED_SEEDS))
    return batch.events, batch.runs


def _judging(_uri: str) -> float:
    events, runs = _batch()
    bench = _simulator()
    return _per_cpu_second(JUDGED_SEEDS, lambda: bench.Summary.of(bench.judge(events, runs), events, runs))


def _lock_cycle(uri: str) -> float:
    bench = _lockcycle()
    store = bench.open_store(uri, request_timeout_ns=5 * 10**9)
    try:
        channel = bench.StoreChannel(store)
        return float(bench._lock_cycles("hardened", store, channel, f"bench/{os.getpid()}/lock")) * 1e3
    finally:
        store.close()


@cache
def _contended(uri: str, _round: int) -> tuple[float, float]:
    """Requests per grant, and the median hand-off in milliseconds, of one contended run."""
    run = _lockcycle()._one_run(uri, "hardened", "contention", CONTENDERS)
    waits = sorted(run.handoffs_ns)
    return run.requests_per_grant, waits[len(waits) // 2] / 1e6


_asked = {"requests": 0, "handoff": 0}


def _of_contended(row: str, place: int) -> Callable[[str], float]:
    def measure(uri: str) -> float:
        _asked[row] += 1
        return _contended(uri, _asked[row])[place]

    return measure


ROWS: dict[str, Callable[[str], float]] = {
    "events": _events,
    "short hardened": _seeds("short", "hardened"),
    "short hudi": _seeds("short", "hudi"),
    "swarm hardened": _seeds("swarm", "hardened"),
    "judging": _judging,
    "lock cycle": _lock_cycle,
    "requests": _of_contended("requests", 0),
    "handoff": _of_contended("handoff", 1),
}


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # Standard output belongs to the answers; what a library prints goes elsewhere.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.path[0] = str(Path.cwd())
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(ROWS[asked["row"]](asked["uri"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
