"""Belief: from when to when each client would have said "mine" (S3).

A tenure's belief is held on the closed interval from its first to its last
BELIEVED event: belief does not come back within a tenure, so whoever said yes
at both ends said yes in between, asked or not. Closed, because two clients
that say yes at one instant do overlap, however short it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockref.history import ABSENT, Kind
from reports.checks.columns import Codes, Events, Ints
from reports.checks.operations import Operations
from reports.checks.rulings import Violations
from reports.checks.segments import suspicious_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenures:
    """One entry per tenure with belief, sorted by (run, lock, first instant).

    operation: position of the granted acquire in Operations, -1 if unknown.
    client: equal numbers in one run for equal (node, task). loss_row: the
    first DISBELIEVED event, -1 for none.
    """

    group: Ints
    run: Ints
    lock: Codes
    node: Codes
    task: Codes
    client: Ints
    request: Ints
    operation: Ints
    owner: Codes
    token: Ints
    first_row: Ints
    last_row: Ints
    first_ns: Ints
    last_ns: Ints
    loss_row: Ints


def find_tenures(events: Events, operations: Operations) -> Tenures:
    """Fold BELIEVED events into intervals. The client is the caller's, as an observer may have asked for it."""
    believed = events.rows(Kind.BELIEVED)
    keys = events.request_keys(believed)
    believed, keys = believed[keys >= 0], keys[keys >= 0]
    first = np.full(events.request_key_count, -1, dtype=np.int64)
    last = np.full(events.request_key_count, -1, dtype=np.int64)
    # Where an index repeats, numpy keeps the last value assigned.
    first[keys[::-1]] = believed[::-1]
    last[keys] = believed
    known = np.flatnonzero(first >= 0)
    first, last = first[known], last[known]
    operation = operations.by_request[known]
    node, task = events.codes("node")[first], events.codes("task")[first]
    called = np.maximum(operation, 0)
    if len(operations.call_row):
        task = np.where(operation >= 0, operations.task[called], task)
    losses = events.rows(Kind.DISBELIEVED)
    losses = losses[events.request_keys(losses) >= 0]
    lost = np.full(events.request_key_count, -1, dtype=np.int64)
    lost[events.request_keys(losses)[::-1]] = losses[::-1]
    at = events.integers("at_ns")
    first_ns = at[first]
    last_ns = np.maximum(at[last], first_ns)
    group = events.lock_key[first]
    order = np.lexsort((first, first_ns, group))
    client = events.client_key(node, task)
    return Tenures(
        group=group[order],
        run=events.run[first][order],
        lock=events.codes("lock")[first][order],
        node=node[order],
        task=task[order],
        client=client[order],
        request=events.integers("request")[first][order],
        operation=operation[order],
        owner=events.codes("owner")[first][order],
        token=events.integers("token")[first][order],
        first_row=first[order],
        last_row=last[order],
        first_ns=first_ns[order],
        last_ns=last_ns[order],
        loss_row=lost[known][order],
    )


def overlapping(tenures: Tenures) -> tuple[Ints, Ints]:
    """Pairs (holder, intruder): each tenure that begins inside an earlier one of another client, with the longest such.

    Touching counts: the intervals are closed. A tenure is reported once,
    however many it overlaps.
    """
    count = len(tenures.first_ns)
    close = np.zeros(count, dtype=np.bool_)
    if count > 1:
        close[1:] = (tenures.first_ns[1:] <= tenures.last_ns[:-1]) & (tenures.group[1:] == tenures.group[:-1])
    holders: list[int] = []
    intruders: list[int] = []
    for rows in suspicious_groups(tenures.group, close):
        begin, end, client = tenures.first_ns[rows], tenures.last_ns[rows], tenures.client[rows]
        latest = np.maximum.accumulate(end)
        # The position that set the latest end so far: advances only where the maximum grows.
        grew = np.concatenate(([True], end[1:] > latest[:-1]))
        setter = np.maximum.accumulate(np.where(grew, np.arange(len(end)), 0))
        candidates = np.flatnonzero(begin[1:] <= latest[:-1]) + 1
        for position in candidates.tolist():
            holder = int(setter[position - 1])
            if client[holder] == client[position]:
                holder = _earlier_other(begin, end, client, position, latest)
            if holder >= 0:
                holders.append(rows.start + holder)
                intruders.append(rows.start + position)
    return np.array(holders, dtype=np.int64), np.array(intruders, dtype=np.int64)


def _earlier_other(begin: Ints, end: Ints, client: Ints, position: int, latest: Ints) -> int:
    """The nearest earlier tenure of another client that reaches `position`, or -1; stops where none can reach it."""
    for earlier in range(position - 1, -1, -1):
        if latest[earlier] < begin[position]:
            return -1
        if client[earlier] != client[position] and end[earlier] >= begin[position]:
            return earlier
    return -1


def check_belief_exclusion(events: Events, tenures: Tenures) -> Violations:
    """S3: no two clients believe at one instant. One violation per intruding tenure."""
    holders, intruders = overlapping(tenures)

    def witness(index: int) -> dict[str, Any]:
        holder, intruder = int(holders[index]), int(intruders[index])
        begin = int(tenures.first_ns[intruder])
        end = int(min(tenures.last_ns[holder], tenures.last_ns[intruder]))
        names = [events.text("node", int(tenures.node[which])) for which in (holder, intruder)]
        return {
            "text": f"{names[0]} and {names[1]} both believed for {end - begin} ns",
            "lock": events.text("lock", int(tenures.lock[intruder])),
            "overlap_ns": [begin, end],
            "intervals": [describe_tenure(events, tenures, which) for which in (holder, intruder)],
        }

    return Violations(clause="S3", run=tenures.run[intruders], at_ns=tenures.first_ns[intruders], witness=witness)


def describe_tenure(events: Events, tenures: Tenures, which: int) -> dict[str, Any]:
    """One tenure for a witness."""
    seq = events.integers("seq")
    token = int(tenures.token[which])
    return {
        "node": events.text("node", int(tenures.node[which])),
        "task": events.text("task", int(tenures.task[which])),
        "request": int(tenures.request[which]),
        "owner": events.text("owner", int(tenures.owner[which])),
        "token": None if token == ABSENT else token,
        "interval_ns": [int(tenures.first_ns[which]), int(tenures.last_ns[which])],
        "seq": [int(seq[tenures.first_row[which]]), int(seq[tenures.last_row[which]])],
    }
