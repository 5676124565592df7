"""Tenures: what followed each granted acquire, and from when to when its client said that it held the lock.

The question is asked of the lock's guard again and again. A tenure's belief is the closed interval from its first to
its last yes: belief does not come back within a tenure, so whoever said yes at both ends said yes in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockref.words import Kind
from reports.checks.facts.columns import Codes, Events, Ints
from reports.checks.facts.operations import Operations


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
    """Fold BELIEVED events into intervals.

    An observer outside may have asked the guard, so the client of a tenure is the one that called, not the one on the
    event.
    """
    believed = events.rows(Kind.BELIEVED)
    keys = events.request_keys_of(Kind.BELIEVED)
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
    losses, keys = events.rows(Kind.DISBELIEVED), events.request_keys_of(Kind.DISBELIEVED)
    losses, keys = losses[keys >= 0], keys[keys >= 0]
    lost = np.full(events.request_key_count, -1, dtype=np.int64)
    lost[keys[::-1]] = losses[::-1]
    at = events.integers("at_ns")
    first_ns = at[first]
    last_ns = np.maximum(at[last], first_ns)
    group = events.lock_key[first]
    is_placed = (group[1:] == group[:-1]) & (first[1:] > first[:-1]) & (first_ns[1:] >= first_ns[:-1])
    is_placed |= group[1:] > group[:-1]
    order = slice(None) if is_placed.all() else np.lexsort((first, first_ns, group))
    client = events.client_key(node, task)
    assert bool(np.all(first <= last)), "a tenure's last yes came before its first"
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
