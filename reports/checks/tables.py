"""Grants, tenures and calls as Arrow tables, for reports and for Spark.

Text columns stay dictionaries over the history's own texts: nothing is copied
that a report does not ask for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lockref.history import ABSENT
from reports.checks.belief import Tenures
from reports.checks.columns import Codes, Events, Ints
from reports.checks.operations import Operations
from reports.checks.truth import END_KINDS, Truth


def _text(events: Events, name: str, codes: Codes) -> pa.DictionaryArray:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, events.dictionary(name))


def _optional(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == ABSENT)


def grants_table(truth: Truth) -> pa.Table:
    """One row per grant: who, which token, between which bounds it began and ended, how it ended, until when valid.

    Times are true nanoseconds; `end_*` are null while open.
    """
    events, grants = truth.events, truth.grants
    columns: dict[str, Any] = {
        "run": pa.array(truth.runs.number[grants.run]),
        "lock": _text(events, "lock", grants.lock),
        "ordinal": pa.array(grants.ordinal),
        "node": _text(events, "node", grants.node),
        "task": _text(events, "task", grants.task),
        "owner": _text(events, "owner", grants.owner),
        "token": _optional(grants.token),
        "request": _optional(grants.request),
        "begin_lo_ns": pa.array(grants.begin_lo_ns),
        "begin_hi_ns": pa.array(grants.begin_hi_ns),
        "end_lo_ns": _optional(grants.end_lo_ns),
        "end_hi_ns": _optional(grants.end_hi_ns),
        "end_kind": pa.DictionaryArray.from_arrays(pa.array(grants.end_kind.astype(np.int32)), pa.array(END_KINDS)),
        "valid_until_true_ns": _optional(grants.valid_until_true_ns),
        "renewals": pa.array(grants.last - grants.first),
    }
    return pa.table(columns)


def tenures_table(truth: Truth, operations: Operations, tenures: Tenures) -> pa.Table:
    """One row per believed tenure: its client, its closed interval, when it was told of a loss, its grant's ordinal."""
    events = truth.events
    operation = np.maximum(tenures.operation, 0)
    grant = np.full(len(tenures.run), -1, dtype=np.int64)
    if len(operations.grant):
        grant = np.where(tenures.operation >= 0, operations.grant[operation], -1)
    ordinal = np.full(len(grant), ABSENT, dtype=np.int64)
    known = grant >= 0
    ordinal[known] = truth.grants.ordinal[grant[known]]
    lost = np.full(len(grant), ABSENT, dtype=np.int64)
    told = tenures.loss_row >= 0
    lost[told] = events.integers("at_ns")[tenures.loss_row[told]]
    columns: dict[str, Any] = {
        "run": pa.array(truth.runs.number[tenures.run]),
        "lock": _text(events, "lock", tenures.lock),
        "node": _text(events, "node", tenures.node),
        "task": _text(events, "task", tenures.task),
        "request": pa.array(tenures.request),
        "owner": _text(events, "owner", tenures.owner),
        "token": _optional(tenures.token),
        "first_ns": pa.array(tenures.first_ns),
        "last_ns": pa.array(tenures.last_ns),
        "lost_ns": _optional(lost),
        "ordinal": _optional(ordinal),
    }
    return pa.table(columns)
