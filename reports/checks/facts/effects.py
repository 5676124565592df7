"""Effects: the protected writes that reached their resource, each with the tenure and the grant behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockref.history import ABSENT, Kind
from lockref.stores.port import Outcome
from reports.checks.facts.columns import Codes, Events, Flags, Ints
from reports.checks.facts.commits import is_commit
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import renumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """One entry per EFFECT row, sorted by (resource, instant). A resource is (run, lock, operation).

    operation: position of the tenure's acquire in Operations, -1 if unknown.
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


def find_effects(events: Events, operations: Operations) -> Effects:
    """EFFECT rows with the tenure and the grant behind each."""
    rows = events.rows(Kind.EFFECT)
    # A commit that asked no lock belongs to no grant: its log judges it (DL1 to DL5).
    is_unguarded = is_commit(events, rows) & (events.integers("request")[rows] == ABSENT)
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
    )
