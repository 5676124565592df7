"""Grants, tenures and calls as Arrow tables, for reports and for Spark.

Text columns stay dictionaries over the history's own texts: nothing is copied
that a report does not ask for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Codes, Events, Ints
from reports.checks.facts.sources.grants import END_KINDS
from reports.checks.facts.sources.truth import Truth


def text_column(events: Events, name: str, codes: Codes) -> pa.DictionaryArray:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, events.dictionary(name))


def optional_integers(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == ABSENT)


def grants_table(truth: Truth) -> pa.Table:
    """One row per grant: who, which token, between which bounds it began and ended, how it ended, until when valid.

    Times are true nanoseconds; `end_*` are null while open.
    """
    events, grants = truth.events, truth.grants
    columns: dict[str, Any] = {
        "run": pa.array(truth.runs.number[grants.run]),
        "lock": text_column(events, "lock", grants.lock),
        "ordinal": pa.array(grants.ordinal),
        "node": text_column(events, "node", grants.node),
        "task": text_column(events, "task", grants.task),
        "owner": text_column(events, "owner", grants.owner),
        "token": optional_integers(grants.token),
        "request": optional_integers(grants.request),
        "begin_lo_ns": pa.array(grants.begin_lo_ns),
        "begin_hi_ns": pa.array(grants.begin_hi_ns),
        "end_lo_ns": optional_integers(grants.end_lo_ns),
        "end_hi_ns": optional_integers(grants.end_hi_ns),
        "end_kind": pa.DictionaryArray.from_arrays(pa.array(grants.end_kind.astype(np.int32)), pa.array(END_KINDS)),
        "valid_until_true_ns": optional_integers(grants.valid_until_true_ns),
        "renewals": pa.array(grants.last - grants.first),
    }
    return pa.table(columns)


def tenures_table(case: Case) -> pa.Table:
    """One row per believed tenure: its client, its closed interval, when it learned of a loss, its grant's ordinal."""
    events, truth, tenures = case.events, case.truth, case.tenures
    grant = case.grant_of_tenure
    ordinal = np.full(len(grant), ABSENT, dtype=np.int64)
    known = grant >= 0
    ordinal[known] = truth.grants.ordinal[grant[known]]
    lost = np.full(len(grant), ABSENT, dtype=np.int64)
    told = tenures.loss_row >= 0
    lost[told] = events.integers("at_ns")[tenures.loss_row[told]]
    columns: dict[str, Any] = {
        "run": pa.array(truth.runs.number[tenures.run]),
        "lock": text_column(events, "lock", tenures.lock),
        "node": text_column(events, "node", tenures.node),
        "task": text_column(events, "task", tenures.task),
        "request": pa.array(tenures.request),
        "owner": text_column(events, "owner", tenures.owner),
        "token": optional_integers(tenures.token),
        "first_ns": pa.array(tenures.first_ns),
        "last_ns": pa.array(tenures.last_ns),
        "lost_ns": optional_integers(lost),
        "ordinal": optional_integers(ordinal),
    }
    return pa.table(columns)
