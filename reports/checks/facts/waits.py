"""Who waited for a lock, from when to when.

A client of the laboratory waits while its acquire call is open. The calls of a program on the wire are not seen, but
its requests are. While such a program does not hold the lock, its wait begins with its first read or acquiring write of
the lock's object. The wait ends when the program is granted the lock, or with its last such request. A program that
sends no request for more than one poll interval has stopped waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lockref.words import ABSENT, Kind, Op
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Codes, Ints
from reports.checks.facts.segments import renumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """One entry per wait. group: its lock key (run and lock). over_ns: its end, whatever that was."""

    group: Ints
    run: Ints
    lock: Codes
    node: Codes
    begin_ns: Ints
    over_ns: Ints


def find_waits(case: Case, over_ns: Ints) -> Waits:
    """The waits of all runs. over_ns: per operation, when it was over."""
    operations, events = case.operations, case.events
    acquires = np.flatnonzero(operations.op == Op.ACQUIRE)
    seen = np.array(list(_seen_waits(case)), dtype=np.int64).reshape(-1, 3)
    row = seen[:, 0]
    assert bool(np.all(seen[:, 2] >= seen[:, 1])), "a wait does not end before it begins"
    return Waits(
        group=np.concatenate((events.lock_key[operations.call_row[acquires]], events.lock_key[row])),
        run=np.concatenate((operations.run[acquires], events.run[row])),
        lock=np.concatenate((operations.lock[acquires], events.codes("lock")[row])),
        node=np.concatenate((operations.node[acquires], events.codes("node")[row])),
        begin_ns=np.concatenate((operations.call_at_ns[acquires], seen[:, 1])),
        over_ns=np.concatenate((over_ns[acquires], seen[:, 2])),
    )


def _seen_waits(case: Case) -> Iterator[tuple[int, int, int]]:
    """(first SENT row, begin, end) of the waits that requests on the wire show."""
    events, truth = case.events, case.truth
    if not truth.is_on_wire.any():
        return
    sent = events.rows(Kind.SENT)
    sent = sent[truth.is_on_wire[events.run[sent]] & truth.lock_groups[events.lock_key[sent]]]
    grants = truth.grants
    home, _ = renumber(
        np.concatenate((grants.group, events.lock_key[sent])),
        np.concatenate((grants.node, events.codes("node")[sent])).astype(np.int64),
    )
    split = len(grants.group)
    for client in np.unique(home[split:]).tolist():
        own = np.flatnonzero(home[:split] == client)
        yield from _waits_of(case, sent[home[split:] == client], own)


def _waits_of(case: Case, sent: Ints, own: Ints) -> Iterator[tuple[int, int, int]]:
    """The waits of one client for one lock. sent: its requests in order. own: its grants in order."""
    events, grants, at = case.events, case.truth.grants, case.events.integers("at_ns")
    run, node = int(events.run[sent[0]]), int(events.codes("node")[sent[0]])
    patience_ns = int(case.runs.integers("poll_interval_ns")[run])
    patience_ns = FOREVER if patience_ns == ABSENT else patience_ns
    replied = events.index_by_request(events.rows(Kind.REPLIED))[events.request_keys(sent)]
    answered = np.where(replied >= 0, at[np.maximum(replied, 0)], at[sent])
    granting = set(grants.request[own].tolist())
    begins = grants.begin_lo_ns[own]
    ends = np.where(grants.end_lo_ns[own] == ABSENT, FOREVER, grants.end_lo_ns[own])
    op, request = events.numbers("op")[sent], events.integers("request")[sent]
    first, since, until = -1, 0, 0
    for place, row in enumerate(sent.tolist()):
        sent_ns, answered_ns = int(at[row]), int(answered[place])
        if first >= 0 and sent_ns - until > patience_ns:
            yield first, since, until
            first = -1
        last = int(np.searchsorted(begins, sent_ns, side="left")) - 1
        holds = last >= 0 and int(ends[last]) > sent_ns
        if first < 0 and not holds and op[place] not in (Op.RELEASE, Op.DELETE):
            first, since = row, sent_ns
        until = answered_ns
        if first >= 0 and (holds or int(request[place]) in granting):
            yield first, since, min(answered_ns, int(begins[last])) if holds else answered_ns
            first = -1
    if first >= 0:
        crashed = case.disturbances.crashed_ns(run, node, after_row=int(sent[-1]))
        yield first, since, min(crashed, max(until, case.end_ns[run] if replied[-1] < 0 else until))
