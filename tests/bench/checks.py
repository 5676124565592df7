"""How fast is judging? Operations a second by size, how that grows, and judging against simulating."""

from __future__ import annotations

import math
import time

import pyarrow as pa

from lockref.history import Kind, Op, Recorder, runs_table, to_table
from lockref.stores.port import Outcome
from reports.checks import judge
from reports.checks.sweep import LockOp, Result, sweep
from tests.bench.figures import Figure

SIZES = (10_000, 100_000, 1_000_000)
CLIENTS = 20
ROUNDS = 3
BATCH_RUNS = 5_000


def history(operations: int, *, runs: int = 1) -> tuple[pa.Table, pa.Table]:
    """A legal history: half the operations acquire, half release; seven events an operation, clients in turn."""
    recorders = [_one_run(operations // runs) for _ in range(runs)]
    rows = [{"run": run, "scenario": "bench", "provider": "none", "world": "simulated"} for run in range(runs)]
    return to_table(recorders), runs_table(rows)


def _one_run(operations: int) -> Recorder:
    recorder = Recorder()
    event = recorder.event
    now, number, version = 0, 0, "absent"
    for turn in range(operations // 2):
        node, token = f"n{turn % CLIENTS}", turn + 1
        owner = f"{node}-owner"
        for op in (Op.ACQUIRE, Op.RELEASE):
            call, request, made = number, number + 1, f"v{number}"
            number += 2
            event(Kind.CALL, now, now, now, node, "main", "lock", op, 0, call)
            for kind, outcome, told in (
                (Kind.SENT, Outcome.NONE, ""),
                (Kind.APPLIED, Outcome.APPLIED, made),
                (Kind.REPLIED, Outcome.APPLIED, made),
            ):
                now += 1
                event(
                    kind, now, now, now, node, "main", "lock", op, outcome, request, 0, version, told, made, token,
                    owner, now + 10**10,
                )  # fmt: skip
            version = made
            now += 1
            event(Kind.RETURN, now, now, now, node, "main", "lock", op, Outcome.APPLIED, call, token=token, owner=owner)
            if op is Op.ACQUIRE:
                tenure = {"request": call, "token": token, "owner": owner}
                event(Kind.BELIEVED, now, now, now, node, "main", "lock", Op.ACQUIRE, **tenure)
                now += 1
                event(Kind.BELIEVED, now, now, now, node, "main", "lock", Op.GUARD, **tenure)
                now += 1
                event(
                    Kind.EFFECT, now, now, now, node, "main", "lock", Op.APPEND, Outcome.APPLIED,
                    if_version=str(turn), version=str(turn + 1), attempt=0, **tenure,
                )  # fmt: skip
                event(Kind.DISBELIEVED, now, now, now, node, "main", "lock", Op.NONE, **tenure)
    return recorder


def seconds(events: pa.Table, runs: pa.Table) -> float:
    """Best of a few: what the machine can do when it is left alone."""
    best = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        judge(events, runs)
        best = min(best, time.perf_counter() - began)
    return best


def sweep_seconds(operations: int) -> float:
    """The second definition, in plain Python, on a legal history of one lock."""
    ops = []
    for turn in range(operations // 2):
        at, client = 10 * turn, f"c{turn % CLIENTS}"
        ops.append(LockOp(client=client, result=Result.GRANTED, call_ns=at - 5, return_ns=at + 1, token=turn + 1))
        ops.append(LockOp(client=client, result=Result.RELEASED, call_ns=at + 2, return_ns=at + 8))
    began = time.perf_counter()
    found = sweep(ops)
    took = time.perf_counter() - began
    assert found is None
    return took


def measure() -> list[Figure]:
    """All figures of this part."""
    figures: list[Figure] = []
    took: list[float] = []
    for size in SIZES:
        events, runs = history(size)
        took.append(seconds(events, runs))
        is_largest = size == SIZES[-1]
        figures.append(
            Figure(
                name=f"judge {size:,} operations ({len(events):,} events), one run",
                value=took[-1],
                unit="s",
                aim="<= 1 s" if is_largest else "",
                is_met=took[-1] <= 1.0 if is_largest else None,
            )
        )
        del events, runs
    exponent = math.log(took[-1] / took[0]) / math.log(SIZES[-1] / SIZES[0])
    figures.append(
        Figure(name="growth exponent of judging", value=exponent, unit="", aim="<= 1.2", is_met=exponent <= 1.2)
    )
    events, runs = history(100_000, runs=BATCH_RUNS)
    per_run = seconds(events, runs) / BATCH_RUNS
    figures.append(
        Figure(
            name=f"judge a short run ({len(events) // BATCH_RUNS} events) in a batch of {BATCH_RUNS:,}",
            value=per_run * 1e6,
            unit="µs",
            aim="<= 200 µs",
            is_met=per_run <= 200e-6,
            note="simulating one takes about 2 ms",
        )
    )
    figures.append(Figure(name="sweep 100,000 operations, plain Python", value=sweep_seconds(100_000), unit="s"))
    return figures
