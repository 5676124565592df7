"""The endings of grants, and the gaps in which a lock belonged to nobody between two grants.

A grant is *released* (freed, or given into another's hands), *deleted* (as locks do that release by deleting, and
operators), or it *lapsed*: it was replaced after its validity, or nobody renewed it to the end of the run. One that was
*replaced* earlier was taken by somebody who might, such as its own owner, or who might not (S5). The rest is *held* at
the end of the run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT, Op
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints, are_among
from reports.checks.facts.sources.grants import END_DELETED, END_HANDED_OVER, END_RELEASED, FREED, OPEN
from reports.checks.facts.surroundings.host import host_lateness_ns

ENDINGS: Final = ("released", "lapsed", "deleted", "replaced", "held")
"""In the order in which they are told."""

ENDINGS_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ENDINGS),
        pa.field("longest_gap_ns", pa.int64()),
        pa.field("host_late_ns", pa.int64(), nullable=False),
    ]
)
"""One row per run. longest_gap_ns: null where no grant was followed by another, or by a client that asked in vain.
host_late_ns: how late the machine was (`reports.checks.facts.surroundings.host`)."""


def endings_table(case: Case) -> pa.Table:
    """`ENDINGS_SCHEMA` of every run."""
    grants, count = case.truth.grants, case.runs.count
    run, kind, valid = grants.run, grants.end_kind, grants.valid_until_true_ns
    over_ns = np.where(grants.end_hi_ns == ABSENT, case.end_ns[run], grants.end_hi_ns)
    is_freed = are_among(kind, FREED)
    is_lapsed = ~is_freed & (valid != ABSENT) & (over_ns >= valid)
    is_of = {
        "released": are_among(kind, (END_RELEASED, END_HANDED_OVER)),
        "lapsed": is_lapsed,
        "deleted": kind == END_DELETED,
        "replaced": (kind != OPEN) & ~is_freed & ~is_lapsed,
        "held": (kind == OPEN) & ~is_lapsed,
    }
    told = {name: np.bincount(run[flags], minlength=count) for name, flags in is_of.items()}
    assert sum(int(each.sum()) for each in told.values()) == len(run), "every grant ends in one way"
    longest = np.full(count, -1, dtype=np.int64)
    has_gap = ~is_of["held"]
    gap_ns = _taken_next_ns(case) - np.where(is_lapsed, valid, over_ns)
    np.maximum.at(longest, run[has_gap], gap_ns[has_gap])
    columns = [pa.array(case.runs.number), *(pa.array(told[name].astype(np.int64)) for name in ENDINGS)]
    late = pa.array(case.once(host_lateness_ns))
    return pa.table([*columns, pa.array(longest, mask=longest < 0), late], schema=ENDINGS_SCHEMA)


def _taken_next_ns(case: Case) -> Ints:
    """Per grant: when the next one of its lock began; after the last one, when the last client that asked was answered.

    Very early where nobody came after it.
    """
    grants, operations = case.truth.grants, case.operations
    never = np.iinfo(np.int64).min // 2
    if len(grants.first) == 0:
        return grants.first
    asked = np.flatnonzero((operations.op == Op.ACQUIRE) & ~operations.is_granted)
    group = case.events.lock_key[operations.call_row[asked]]
    answered = np.where(operations.return_row[asked] >= 0, operations.return_at_ns[asked], operations.call_at_ns[asked])
    last = np.full(int(max(grants.group.max(), group.max(initial=0))) + 1, never, dtype=np.int64)
    np.maximum.at(last, group, answered)
    following = grants.next_same_lock
    taken: Ints = np.where(following >= 0, grants.begin_lo_ns[np.maximum(following, 0)], last[grants.group])
    return taken
