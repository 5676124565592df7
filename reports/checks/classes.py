"""Classes: one word per run for what its overlaps amounted to.

    clean             no two clients believed at once, no harm
    fenced overlap    beliefs overlapped, but the resource checks tokens, so late writes are refused
    latent overlap    beliefs overlapped and nothing would have stopped a late write; none happened
    token regression  tokens did not rise (S2): a fence that will let something through
    harm              the resource accepted a stale write (S4)

The worst that applies is the run's class.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT, Op
from reports.checks.facts.columns import Events, Flags, Ints
from reports.checks.facts.commits import is_commit
from reports.checks.facts.effects import Effects

CLASSES: Final = ("clean", "fenced overlap", "latent overlap", "token regression", "harm")
CLEAN, FENCED_OVERLAP, LATENT_OVERLAP, TOKEN_REGRESSION, HARM = range(5)

CLASS_SCHEMA: Final = pa.schema(
    [pa.field("run", pa.int64(), nullable=False), pa.field("class", pa.string(), nullable=False)]
)


def checks_tokens(events: Events, effects: Effects, run_count: int) -> Flags:
    """Per run: the resource checks tokens. It refused a write, or it compares tokens and every write carried one.

    Registers and commit logs compare tokens. Lists, counters and Delta logs accept every write.
    """
    op = events.numbers("op")[effects.row]
    is_fence = ((op == Op.WRITE) | (op == Op.COMMIT)) & (effects.token != ABSENT)
    is_fence &= ~is_commit(events, effects.row)
    refuses = np.zeros(run_count, dtype=np.bool_)
    has_unchecked = np.zeros(run_count, dtype=np.bool_)
    has_fence = np.zeros(run_count, dtype=np.bool_)
    refuses[effects.run[~effects.is_accepted]] = True
    has_unchecked[effects.run[~is_fence]] = True
    has_fence[effects.run[is_fence]] = True
    checked: Flags = refuses | (has_fence & ~has_unchecked)
    return checked


def class_table(run_numbers: Ints, *, overlapped: Flags, fenced: Flags, regressed: Flags, harmed: Flags) -> pa.Table:
    """One row per run of `CLASS_SCHEMA`."""
    assert {len(overlapped), len(fenced), len(regressed), len(harmed)} == {len(run_numbers)}, "one flag for each run"
    place = np.full(len(run_numbers), CLEAN, dtype=np.int32)
    place[overlapped] = LATENT_OVERLAP
    place[overlapped & fenced] = FENCED_OVERLAP
    place[regressed] = TOKEN_REGRESSION
    place[harmed] = HARM
    names = pa.array(CLASSES, pa.string()).take(pa.array(place))
    return pa.table([pa.array(run_numbers), names], schema=CLASS_SCHEMA)
