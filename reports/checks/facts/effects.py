"""Effects: the protected writes that reached their resource, each with the tenure and the grant behind it.

A client of the laboratory says which tenure a write belongs to. A program that was watched on the wire says nothing:
its write belongs to the grant that its client had at some instant between the sending and the answer. If there was
none, the write came from outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockref.words import ABSENT, Kind, Outcome
from reports.checks.facts.columns import Codes, Events, Flags, Ints
from reports.checks.facts.commits import is_commit
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.truth import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """One entry per EFFECT row, sorted by (resource, instant). A resource is (run, lock, operation).

    operation: position of the tenure's acquire in Operations, -1 if unknown.
    is_seen: the write was seen on the wire. is_outside: no grant of its client was in force then; `grant` is the last
    one before, -1 for none.
    """

    group: Ints
    row: Ints
    run: Ints
    at_ns: Ints
    is_accepted: Flags
    operation: Ints
    grant: Ints
    token: Ints
    if_version: Codes
    version: Codes
    is_seen: Flags
    is_outside: Flags


def find_effects(events: Events, operations: Operations, truth: Truth) -> Effects:
    """EFFECT rows with the tenure and the grant behind each."""
    rows = events.rows(Kind.EFFECT)
    # A commit that asked no lock belongs to no grant: its log judges it (DL1 to DL5).
    is_unguarded = is_commit(events, rows) & (events.integers("request")[rows] == ABSENT)
    # What guards a write that was seen on the wire is known only if its lock was seen, too.
    is_unguarded |= truth.is_on_wire[events.run[rows]] & ~truth.lock_groups[events.lock_key[rows]]
    rows = rows[~is_unguarded]
    at = events.integers("at_ns")[rows]
    group = renumber(events.lock_key[rows], events.numbers("op")[rows].astype(np.int64))[0]
    order = np.lexsort((rows, at, group))
    rows, at, group = rows[order], at[order], group[order]
    operation = operations.by_request[events.request_keys(rows)]
    assert bool(np.all(group[1:] >= group[:-1])), "the writes to one resource stand together"
    grant = np.full(len(rows), -1, dtype=np.int64)
    if len(operations.grant):
        grant = np.where(operation >= 0, operations.grant[np.maximum(operation, 0)], -1)
    is_seen: Flags = truth.is_on_wire[events.run[rows]]
    is_outside = np.zeros(len(rows), dtype=np.bool_)
    if is_seen.any():
        grant[is_seen], is_outside[is_seen] = _held_by_writer(events, truth, rows[is_seen])
    return Effects(
        group=group,
        row=rows,
        run=events.run[rows],
        at_ns=at,
        is_accepted=events.numbers("outcome")[rows] == Outcome.APPLIED,
        operation=operation,
        grant=grant,
        token=events.integers("token")[rows],
        if_version=events.codes("if_version")[rows],
        version=events.codes("version")[rows],
        is_seen=is_seen,
        is_outside=is_outside,
    )


def _held_by_writer(events: Events, truth: Truth, rows: Ints) -> tuple[Ints, Flags]:
    """Per EFFECT row: the last grant of its client that had begun by the answer, and whether that was over before.

    Decided for the accused: the write took effect at the instant between sending and answer that suits it best, and the
    grant began as early and ended as late as it can have.
    """
    grants, at = truth.grants, events.integers("at_ns")
    replied = events.replied_by_request[events.request_keys(rows)]
    sent_ns, answered_ns = at[rows], at[np.where(replied >= 0, replied, rows)]
    home, _ = renumber(
        np.concatenate((grants.group, events.lock_key[rows])),
        np.concatenate((grants.node, events.codes("node")[rows])).astype(np.int64),
    )
    split = len(grants.group)
    found = np.full(len(rows), -1, dtype=np.int64)
    # A loop over clients of locks, of which there are few.
    for client in np.unique(home[split:]).tolist():
        own, asked = np.flatnonzero(home[:split] == client), np.flatnonzero(home[split:] == client)
        last = np.searchsorted(grants.begin_lo_ns[own], answered_ns[asked], side="right") - 1
        found[asked[last >= 0]] = own[last[last >= 0]]
    known = np.maximum(found, 0)
    if not split:
        return found, np.ones(len(rows), dtype=np.bool_)
    is_over = (grants.end_hi_ns[known] != ABSENT) & (grants.end_hi_ns[known] < sent_ns)
    return found, (found < 0) | is_over
