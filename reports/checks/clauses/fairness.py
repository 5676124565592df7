"""Fairness: who gets the lock, how often, and who is passed over (F1-F3).

Measured always, judged only where the provider claims it. A claim is text in
the run's `claims`: "F1" (at most as many bypasses as there are clients),
"F1:8" (at most eight), "F2".
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lockref.errors import ConfigError
from lockref.words import ABSENT, Op
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Flags, Ints, is_first
from reports.checks.facts.operations import witness_call
from reports.checks.facts.segments import count_at_or_before, renumber
from reports.checks.rulings import Ruling, Violations

UNCLAIMED = "the provider does not claim it"
STORE_GONE = "the store went away and never came back"

FAIRNESS_SCHEMA = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("lock", pa.string(), nullable=False),
        pa.field("clients", pa.int64(), nullable=False),
        pa.field("grants", pa.int64(), nullable=False),
        pa.field("jain", pa.float64(), nullable=False),
        pa.field("wait_gini", pa.float64(), nullable=False),
        pa.field("streak_max", pa.int64(), nullable=False),
        pa.field("reacquire_median_ns", pa.int64()),
        pa.field("bypass_max", pa.int64(), nullable=False),
    ]
)


def _packed_client(case: Case, which: Ints) -> Ints:
    """A number per (node, task) of these operations."""
    return case.events.client_key(case.operations.node[which], case.operations.task[which])


def bypasses(case: Case) -> tuple[Ints, Ints]:
    """Acquire calls, and how many grants went to other nodes while each was open."""
    operations, grants = case.operations, case.truth.grants
    calls = np.flatnonzero(operations.op == Op.ACQUIRE)
    if len(calls) == 0 or len(grants.first) == 0:
        return calls, np.zeros(len(calls), dtype=np.int64)
    row = case.truth.changes.row[grants.first]
    until = np.where(operations.return_row[calls] >= 0, operations.return_row[calls], case.events.count)
    # In an altered record an answer may come before its call. Such a call counts as never passed over.
    until = np.maximum(until, operations.call_row[calls])
    split = len(row)
    lock, _ = renumber(np.concatenate((grants.group, case.events.lock_key[operations.call_row[calls]])))
    mine, _ = renumber(lock, np.concatenate((grants.node, operations.node[calls])).astype(np.int64))
    passed = np.zeros(len(calls), dtype=np.int64)
    for group, sign in ((lock, 1), (mine, -1)):
        for edge, side in ((until, 1), (operations.call_row[calls], -1)):
            passed += (
                sign
                * side
                * count_at_or_before(
                    known_group=group[:split],
                    known_row=row,
                    asked_group=group[split:],
                    asked_row=edge,
                    row_count=case.events.count,
                )
            )
    assert bool(np.all(passed >= 0)), "the number of bypasses is not negative"
    return calls, passed


_BOUND: Final = re.compile(r"[0-9]{1,9}")


def _claims(case: Case) -> tuple[Ints, Flags]:
    """Per run: the bypasses that F1 allows (-1: not claimed), and whether F2 is claimed."""
    allowed = np.full(case.runs.count, -1, dtype=np.int64)
    has_f2 = np.zeros(case.runs.count, dtype=np.bool_)
    clients = case.runs.integers("clients")
    for run, claims in enumerate(case.runs.lists("claims")):
        for claim in claims:
            name, _, bound = claim.partition(":")
            if name == "F1":
                if bound and not _BOUND.fullmatch(bound):
                    raise ConfigError(f"a provider claims {claim!r}; expected 'F1' or 'F1:' and a whole number")
                allowed[run] = int(bound) if bound else max(int(clients[run]), 0)
            has_f2[run] |= name == "F2"
    return allowed, has_f2


def check_fairness(case: Case) -> list[Ruling]:
    """F1 and F2, where claimed."""
    allowed, has_f2 = _claims(case)
    lost = np.zeros(case.runs.count, dtype=np.bool_)
    lost[[answers.run for answers in case.store_answers if answers.is_lost]] = True
    return [
        Ruling(_check_bypass(case, allowed), excused=[(allowed < 0, UNCLAIMED)]),
        Ruling(_check_starvation(case, has_f2 & ~lost), excused=[(lost, STORE_GONE), (~has_f2, UNCLAIMED)]),
    ]


def _check_bypass(case: Case, allowed: Ints) -> Violations:
    """F1: one violation per waiting call that was passed over too often after the faults."""
    operations = case.operations
    bad, passed = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if bool(np.any(allowed >= 0)):
        calls, counts = bypasses(case)
        run = operations.run[calls]
        faults_end = case.calm_from_ns[run]
        calm = (faults_end == ABSENT) | (operations.call_at_ns[calls] >= faults_end)
        chosen = calm & (allowed[run] >= 0) & (counts > allowed[run])
        bad, passed = calls[chosen], counts[chosen]

    def witness(index: int) -> dict[str, Any]:
        call = int(bad[index])
        who = case.events.text("node", int(operations.node[call]))
        return {
            "text": f"{who} was passed over {int(passed[index])} times",
            "kind": "bypassed",
            "lock": case.events.text("lock", int(operations.lock[call])),
            "allowed": int(allowed[operations.run[call]]),
            "calls": [witness_call(case.events, operations, call)],
        }

    return Violations(clause="F1", run=operations.run[bad], at_ns=operations.call_at_ns[bad], witness=witness)


def _check_starvation(case: Case, claimed: Flags) -> Violations:
    """F2: one violation per client that asked after the faults, got nothing, and saw others served."""
    operations = case.operations
    starved = np.zeros(0, dtype=np.int64)
    if bool(claimed.any()):
        calls = np.flatnonzero(operations.op == Op.ACQUIRE)
        run = operations.run[calls]
        faults_end = case.calm_from_ns[run]
        calm = claimed[run] & ((faults_end == ABSENT) | (operations.call_at_ns[calls] >= faults_end))
        calls = calls[calm]
        lock = case.events.lock_key[operations.call_row[calls]]
        client, count = renumber(lock, _packed_client(case, calls))
        granted = operations.is_granted[calls]
        got = np.zeros(max(count, 1), dtype=np.bool_)
        got[client[granted]] = True
        served = np.unique(lock[granted])
        unserved = calls[~got[client] & np.isin(lock, served)]
        unserved_client = client[~got[client] & np.isin(lock, served)]
        starved = unserved[np.unique(unserved_client, return_index=True)[1]]

    def witness(index: int) -> dict[str, Any]:
        call = int(starved[index])
        return {
            "text": f"{case.events.text('node', int(operations.node[call]))} was never granted while others were",
            "kind": "starved",
            "calls": [witness_call(case.events, operations, call)],
            "lock": case.events.text("lock", int(operations.lock[call])),
        }

    return Violations(clause="F2", run=operations.run[starved], at_ns=operations.call_at_ns[starved], witness=witness)


def jain(counts: Ints) -> float:
    """Jain's index of an allocation: 1 for equal shares, 1/n where one of n has it all; 1 for nobody."""
    total = float(counts.sum())
    squares = float((counts.astype(np.float64) ** 2).sum())
    index = total * total / (len(counts) * squares) if squares else 1.0
    assert 0.0 < index < 1.0 + 1e-9, "Jain's index of counts lies between 0 and 1"
    return index


def gini(values: Ints) -> float:
    """Gini's coefficient: 0 for equal values, towards 1 where one has it all; 0 for none."""
    ordered = np.sort(values).astype(np.float64)
    total = float(ordered.sum())
    if not total:
        return 0.0
    count = len(ordered)
    return float((2 * np.arange(1, count + 1) - count - 1) @ ordered / (count * total))


def fairness_table(case: Case) -> pa.Table:
    """F3: one row per run and lock, over granted acquires. Times in nanoseconds.

    jain: over the clients that asked, of their grants. wait_gini: of all waits
    that ended in a grant. streak_max: longest run of grants to one client.
    reacquire_median_ns: from a client's grant to its next. bypass_max: F1's figure.
    """
    operations = case.operations
    calls, passed = bypasses(case)
    lock = case.events.lock_key[operations.call_row[calls]]
    client = _packed_client(case, calls)
    order = np.lexsort((operations.return_row[calls], lock))
    calls, passed, lock, client = calls[order], passed[order], lock[order], client[order]
    starts = np.flatnonzero(is_first(lock))
    ends = np.append(starts, len(lock))[1:]
    rows: list[dict[str, Any]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = calls[start:end]
        granted = operations.is_granted[part]
        who = client[start:end]
        names, place = np.unique(who, return_inverse=True)
        winners = place.reshape(-1)[granted]
        waits = (operations.return_at_ns[part] - operations.call_at_ns[part])[granted]
        assert len(winners) <= len(part), "a call is granted once"
        rows.append(
            {
                "run": int(case.runs.number[operations.run[part[0]]]),
                "lock": case.events.text("lock", int(operations.lock[part[0]])),
                "clients": len(names),
                "grants": int(granted.sum()),
                "jain": jain(np.bincount(winners, minlength=len(names))),
                "wait_gini": gini(waits),
                "streak_max": _longest_streak(winners),
                "reacquire_median_ns": _reacquire_median(winners, operations.return_at_ns[part][granted]),
                "bypass_max": int(passed[start:end].max()),
            }
        )
    return pa.Table.from_pylist(rows, FAIRNESS_SCHEMA)


def _longest_streak(winners: Ints) -> int:
    if len(winners) == 0:
        return 0
    starts = np.flatnonzero(is_first(winners))
    return int(np.diff(np.append(starts, len(winners))).max())


def _reacquire_median(winners: Ints, at_ns: Ints) -> int | None:
    order = np.lexsort((at_ns, winners))
    same = winners[order][1:] == winners[order][:-1]
    spans = np.diff(at_ns[order])[same]
    return int(np.median(spans)) if len(spans) else None
