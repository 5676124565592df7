"""The speed and the fairness of a lock in each real run: figures, measured from the history alone.

Virtual time gets none of them: its latencies are the scenario's. Rates are per
*answered* time, the run less the silences of its store (`reports.checks.facts.surroundings.store_answers`).
The run's time falls into four shares:

    silent     the store served nothing though it was asked
    held       otherwise, a client believed that it held the lock
    hand-off   otherwise, a client waited for the lock
    idle       the rest: nobody wanted it

A wait is from the call to the grant. In an open loop the response time is from when the call was intended to begin, so
that a client that was still busy with its last call does not hide the wait (coordinated omission).

Quantiles are values that occurred, none is interpolated.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import REQUESTS_PER_PROCESS
from lockref.words import ABSENT, Kind, Op
from reports.checks.clauses.fairness import jain
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints, is_first
from reports.checks.facts.surroundings.store_answers import StoreAnswers
from reports.checks.measures.details import told_numbers
from reports.checks.measures.droughts import droughts
from reports.checks.measures.handoff import handoffs_table

MAIN_TASK: Final = "main"
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

_CLIENT = pa.struct(
    [
        pa.field("client", pa.string(), nullable=False),
        pa.field("asked", pa.int64(), nullable=False),
        pa.field("granted", pa.int64(), nullable=False),
        pa.field("wait_max_ns", pa.int64(), nullable=False),
        pa.field("drought_max_ns", pa.int64(), nullable=False),
    ]
)
_REQUIRED = (
    "run",
    "run_ns",
    "answered_ns",
    "clients",
    "clients_asked",
    "clients_served",
    "calls",
    "grants",
    "cut_short",
)
_OPTIONAL = (
    "processes",
    "processes_served",
    *(f"{measure}_{name}_ns" for measure in ("wait", "response", "handoff") for name in QUANTILES),
    "late_max_ns",
)
SPEED_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.int64(), nullable=False) for name in _REQUIRED),
        pa.field("grants_per_s", pa.float64()),
        pa.field("requests_per_grant", pa.float64()),
        *(pa.field(name, pa.int64()) for name in _OPTIONAL),
        *(pa.field(f"{name}_share", pa.float64()) for name in ("held", "handoff", "idle", "silent")),
        pa.field("jain", pa.float64()),
        pa.field("longest_wait_ns", pa.int64()),
        pa.field("longest_wait_client", pa.string()),
        pa.field("longest_drought_ns", pa.int64()),
        pa.field("longest_drought_client", pa.string()),
        pa.field("per_client", pa.list_(_CLIENT), nullable=False),
    ]
)
"""One row per real run in which somebody asked for a lock; docs/results.md explains each column."""


@cache
def no_speeds() -> pa.Table:
    """`SPEED_SCHEMA` without a row. To make it takes a fortieth of what judging one simulated run does."""
    return SPEED_SCHEMA.empty_table()


def speed_table(case: Case) -> pa.Table:
    """`SPEED_SCHEMA`, of the real runs of a case."""
    found = {answers.run: answers for answers in case.store_answers}
    real = [number for number, world in enumerate(case.runs.texts("world")) if world == "real"]
    if not real:
        return no_speeds()
    handoffs = handoffs_table(case)
    handoffs = handoffs.filter(pc.equal(handoffs["after"], "release"))
    # The time by which each acquire began later than intended. Calls of a closed loop tell none.
    late_ns = told_numbers(case, "late_ns")[case.operations.call_row]
    rows = []
    for run in real:
        own = handoffs.filter(pc.equal(handoffs["run"], int(case.runs.number[run])))["handoff_ns"].to_numpy()
        row = _run_speed(case, run, found.get(run), own, late_ns)
        if row is not None:
            rows.append(row)
    return pa.Table.from_pylist(rows, SPEED_SCHEMA)


def _run_speed(
    case: Case, run: int, answers: StoreAnswers | None, handoffs_ns: Ints, late: Ints
) -> dict[str, Any] | None:
    """late: per operation of the case, in nanoseconds; ABSENT where it tells none."""
    operations = case.operations
    asked = np.flatnonzero((operations.op == Op.ACQUIRE) & (operations.run == run))
    if len(asked) == 0:
        return None
    begin_ns, end_ns = case.span_of(run)
    silences = answers.silences if answers is not None else ()
    silent_ns = sum(silence.end_ns - silence.begin_ns for silence in silences)
    answered_ns = end_ns - begin_ns - silent_ns
    granted = asked[operations.is_granted[asked]]
    requests = int((case.events.run[case.events.rows(Kind.SENT)] == run).sum())
    waits = (operations.return_at_ns - operations.call_at_ns)[granted]
    is_open = late != ABSENT
    open_, granted_open = asked[is_open[asked]], granted[is_open[granted]]
    responses = (operations.return_at_ns - operations.call_at_ns + late)[granted_open]
    clients = _per_client(case, asked, end_ns)
    named = int(case.runs.integers("clients")[run])
    counts = np.array([client["granted"] for client in clients], dtype=np.int64)
    longest = max(clients, key=lambda client: client["drought_max_ns"])
    slowest = max(clients, key=lambda client: client["wait_max_ns"])
    return {
        "run": int(case.runs.number[run]),
        "run_ns": end_ns - begin_ns,
        "answered_ns": answered_ns,
        "clients": max(named, len(clients)),
        "clients_asked": len(clients),
        "clients_served": int((counts > 0).sum()),
        **_processes(case, run, granted),
        "calls": len(asked),
        "grants": len(granted),
        "cut_short": int(operations.is_cut_short[asked].sum()),
        "grants_per_s": len(granted) * 1e9 / answered_ns if answered_ns > 0 else None,
        "requests_per_grant": requests / len(granted) if len(granted) else None,
        **_quantiles("wait", waits),
        **_quantiles("response", responses),
        "late_max_ns": int(late[open_].max()) if len(open_) else None,
        **_quantiles("handoff", handoffs_ns),
        **_shares(case, run, asked, silences=[(one.begin_ns, one.end_ns) for one in silences]),
        "jain": jain(counts) if counts.any() else None,
        "longest_wait_ns": slowest["wait_max_ns"],
        "longest_wait_client": slowest["client"],
        "longest_drought_ns": longest["drought_max_ns"],
        "longest_drought_client": longest["client"],
        "per_client": clients,
    }


def _processes(case: Case, run: int, granted: Ints) -> dict[str, int | None]:
    """Over how many processes the clients were spread, and of how many one was ever granted the lock."""
    processes = int(case.runs.integers("processes")[run])
    if processes == ABSENT:
        return {"processes": None, "processes_served": None}
    calls = case.events.integers("request")[case.operations.call_row[granted]]
    return {"processes": processes, "processes_served": len(np.unique(calls // REQUESTS_PER_PROCESS))}


def _quantiles(name: str, samples: Ints) -> dict[str, int | None]:
    if len(samples) == 0:
        return {f"{name}_{point}_ns": None for point in QUANTILES}
    at = np.quantile(samples, list(QUANTILES.values()), method="inverted_cdf")
    return {f"{name}_{point}_ns": int(value) for point, value in zip(QUANTILES, at, strict=True)}


def _per_client(case: Case, asked: Ints, end_ns: int) -> list[dict[str, Any]]:
    """Every client that asked, by name: calls, grants, its longest wait, its longest drought (`measures.droughts`).

    A wait is one call, granted or not; an open one lasts to the end.
    """
    operations, events = case.operations, case.events
    client = events.client_key(operations.node[asked], operations.task[asked])
    order = np.lexsort((operations.call_row[asked], client))
    calls, client = asked[order], client[order]
    begin = operations.call_at_ns[calls]
    end = np.where(operations.return_row[calls] >= 0, operations.return_at_ns[calls], end_ns)
    granted = operations.is_granted[calls]
    starts = np.flatnonzero(is_first(client))
    found = droughts(case, calls, end)
    drought = np.zeros(len(calls), dtype=np.int64)
    drought[found.first] = found.over_ns - begin[found.first]
    columns = (
        np.diff(np.append(starts, len(calls))),
        np.add.reduceat(granted.astype(np.int64), starts),
        np.maximum.reduceat(end - begin, starts),
        np.maximum.reduceat(drought, starts),
    )
    assert int(columns[0].sum()) == len(asked), "each call is one client's"
    rows = []
    for call, *figures in zip(calls[starts].tolist(), *(column.tolist() for column in columns), strict=True):
        node, task = (events.text(name, int(getattr(operations, name)[call])) for name in ("node", "task"))
        name = node if task in ("", MAIN_TASK) else f"{node}/{task}"
        rows.append(
            dict(zip(("client", "asked", "granted", "wait_max_ns", "drought_max_ns"), (name, *figures), strict=True))
        )
    return sorted(rows, key=lambda row: str(row["client"]))


def _shares(case: Case, run: int, asked: Ints, *, silences: list[tuple[int, int]]) -> dict[str, float]:
    """The four shares of the run's time; they add up to one."""
    operations, tenures = case.operations, case.tenures
    begin_ns, end_ns = case.span_of(run)
    own = np.flatnonzero(tenures.run == run)
    released = np.full(len(operations.op) + 1, ABSENT, dtype=np.int64)
    releases = np.flatnonzero(case.tenure_of_release >= 0)[::-1]
    released[case.tenure_of_release[releases]] = operations.call_at_ns[releases]
    loss = tenures.loss_row[own]
    until = np.where(loss >= 0, case.events.integers("at_ns")[np.maximum(loss, 0)], released[tenures.operation[own]])
    held = np.stack((tenures.first_ns[own], np.where(until == ABSENT, end_ns, until)), axis=1)
    answered = np.where(operations.return_row[asked] >= 0, operations.return_at_ns[asked], end_ns)
    waited = np.stack((operations.call_at_ns[asked], answered), axis=1)
    silent = np.array(silences, dtype=np.int64).reshape(-1, 2)
    cover = [_edges(spans, begin_ns, end_ns) for spans in (silent, held, waited)]
    at = np.unique(np.concatenate([[begin_ns, end_ns], *(times for times, _ in cover)]))
    width = np.diff(at)
    total = max(int(width.sum()), 1)
    taken = np.zeros(len(width), dtype=np.bool_)
    shares = {}
    for name, (times, steps) in zip(("silent", "held", "handoff"), cover, strict=True):
        depth = np.append(0, np.cumsum(steps))[np.searchsorted(times, at[:-1], side="right")]
        mine = (depth > 0) & ~taken
        taken |= mine
        shares[f"{name}_share"] = float(width[mine].sum()) / total
    assert 0.0 <= sum(shares.values()) <= 1.0 + 1e-9, "shares of one time add up to at most all of it"
    shares["idle_share"] = float(width[~taken].sum()) / total
    return shares


def _edges(spans: npt.NDArray[np.int64], begin_ns: int, end_ns: int) -> tuple[Ints, Ints]:
    """The edges of intervals in order, +1 for a begin and -1 for an end; clipped to the run."""
    inside = np.clip(spans, begin_ns, end_ns)
    inside = inside[inside[:, 1] > inside[:, 0]]
    times = np.concatenate((inside[:, 0], inside[:, 1]))
    steps = np.repeat(np.array([1, -1], dtype=np.int64), len(inside))
    order = np.argsort(times, kind="stable")
    assert int(steps.sum()) == 0, "as many spans end as begin"
    return times[order], steps[order]
