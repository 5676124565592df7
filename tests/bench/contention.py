"""How a crowd waits: the hardened lock, Hudi's and the loop that most people write, in turn on one S3 server.

`python -m tests.bench contention`, by name alone: it takes a quarter of an hour. All clients are threads of this
process, which lock again at once and hold for 12.5 ms. Each lock gets the same time, one after the other, for each
size of the crowd. What slows the machine down slows all three, so read the ratios, and the load that is printed.

The limit is what one client could have that never waits: 1 / (hold + two writes), with the median of raw writes that
are sent while nothing else runs. A hold in fact lasts longer than 12.5 ms, because the client makes its protected write
before it sleeps; so the note of each share of the limit tells how long the holds lasted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lockref.clouds.uri import open_store
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_MS, NS_PER_S
from reports.checks import judge
from scenarios.backends import start_backend, table_uri
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.definition.units import DrawnNumber
from scenarios.worlds.real import run_real
from tests.bench.figures import Figure
from tests.bench.lockcycle import raw_cycles

CROWDS: Final = (16, 64, 128, 200)
TABLE_CROWDS: Final = (16, 128)
SECONDS: Final = 60
HOLD_NS: Final = 12_500_000
NAIVE: Final = str(Path(__file__).with_name("naive_lock.py")) + ":NaiveLock"
JAIN_MIN, UNSERVED_MAX_S, LIMIT_SHARE = 0.9, 20, 0.85


def measure() -> Iterator[Figure]:
    """Each crowd on ministack: the hardened lock against both rivals, and Delta's lease against its original."""
    with start_backend("ministack") as server:
        store = open_store(server.uri, request_timeout_ns=5 * NS_PER_S)
        reply = store.put_if_absent("bench/raw", b"0" * 140)
        assert reply.version is not None, "the server took no write"
        two_writes_s = raw_cycles(store, "bench/raw", lambda number: f"{number:0140}".encode())
        store.close()
        limit = 1 / (HOLD_NS / NS_PER_S + two_writes_s)
        for crowd in CROWDS:
            rows = {build: speed_of(server.uri, build, crowd) for build in ("hardened", "hudi", NAIVE)}
            yield from _against(crowd, rows["hardened"], hudi=rows["hudi"], naive=rows[NAIVE], limit=limit)
        for crowd in TABLE_CROWDS:
            ours, theirs = (speed_of(table_uri(server), each, crowd) for each in ("dynamodb", "dynamodb-lock-0.5"))
            yield _at_most(f"requests per grant, dynamodb, {crowd} clients", "requests_per_grant", ours, theirs)


def scenario() -> Scenario:
    """The catalogue's contention, of clients that lock again at once."""
    catalogued = load_scenario("contention")
    workload = catalogued.workload.model_copy(
        update={"hold": DrawnNumber("12.5ms", (HOLD_NS,)), "think": DrawnNumber("0ms", (0,))}
    )
    return catalogued.model_copy(update={"workload": workload})


def speed_of(uri: str, build: str, crowd: int, *, seconds: int = SECONDS) -> Mapping[str, Any]:
    """What one run shows, as `reports.checks.measures.speed.SPEED_SCHEMA` has it."""
    outcome = run_real(scenario(), load_provider(build), uri, clients=crowd, duration_ns=seconds * NS_PER_S)
    row: dict[str, Any] = judge(outcome.events, outcome.runs).speeds.to_pylist()[0]
    assert row["grants"], f"{build} was never granted the lock"
    return row | {"hold_p50_ns": _median_hold_ns(outcome.events)}


def _median_hold_ns(events: pa.Table) -> float:
    """The median time from a granted call to the call that gives the lock back."""
    began_ns: dict[str, int] = {}
    holds_ns: list[int] = []
    columns = (events[name].cast("string").to_pylist() for name in ("node", "kind", "op", "outcome"))
    for node, kind, op, outcome, at_ns in zip(*columns, events["at_ns"].to_pylist(), strict=True):
        if (kind, op, outcome) == ("return", "acquire", "applied"):
            began_ns[node] = at_ns
        elif (kind, op) == ("call", "release") and node in began_ns:
            holds_ns.append(at_ns - began_ns.pop(node))
    return statistics.median(holds_ns)


def _against(
    crowd: int, ours: Mapping[str, Any], *, hudi: Mapping[str, Any], naive: Mapping[str, Any], limit: float
) -> Iterator[Figure]:
    share = ours["grants_per_s"] / limit
    lasted_ms = ours["hold_p50_ns"] / NS_PER_MS
    note = f"{ours['grants_per_s']:.1f} of {limit:.1f} a second; holds lasted {lasted_ms:.1f} ms; "
    note += f"hudi {hudi['grants_per_s']:.1f}, "
    yield Figure(
        name=f"share of the limit, {crowd} clients",
        value=share,
        unit="ratio",
        aim=f">= {LIMIT_SHARE}",
        is_met=share >= LIMIT_SHARE,
        note=f"{note}naive {naive['grants_per_s']:.1f}",
    )
    ratio = ours["grants_per_s"] / hudi["grants_per_s"]
    yield Figure(
        name=f"grants, against hudi, {crowd} clients", value=ratio, unit="ratio", aim=">= 1", is_met=ratio >= 1
    )
    yield _at_most(f"requests per grant, against hudi, {crowd} clients", "requests_per_grant", ours, hudi)
    yield _at_most(f"requests per grant, against naive, {crowd} clients", "requests_per_grant", ours, naive)
    if ours["handoff_p99_ns"] and naive["handoff_p99_ns"]:
        name = f"99 % of hand-offs, against naive, {crowd} clients"
        yield _at_most(name, "handoff_p99_ns", ours, naive, scale=NS_PER_MS)
    others = f"hudi {hudi['jain']:.2f}, naive {naive['jain']:.2f}"
    yield Figure(
        name=f"Jain's index over {SECONDS} s, {crowd} clients",
        value=ours["jain"],
        unit="",
        aim=f">= {JAIN_MIN}",
        is_met=ours["jain"] >= JAIN_MIN,
        note=others,
    )
    unserved_s = ours["longest_drought_ns"] / NS_PER_S
    others = f"hudi {hudi['longest_drought_ns'] / NS_PER_S:.1f}, naive {naive['longest_drought_ns'] / NS_PER_S:.1f}"
    yield Figure(
        name=f"longest unserved, {crowd} clients",
        value=unserved_s,
        unit="s",
        aim=f"< {UNSERVED_MAX_S}",
        is_met=unserved_s < UNSERVED_MAX_S,
        note=others,
    )


def _at_most(name: str, column: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], *, scale: float = 1) -> Figure:
    ratio = ours[column] / theirs[column]
    note = f"{ours[column] / scale:.2f} against {theirs[column] / scale:.2f}"
    return Figure(name=name, value=ratio, unit="ratio", aim="<= 1", is_met=ratio <= 1, note=note)
