"""Calls alone: locks whose stored states cannot be read, or whose protocol is not known here.

Nothing says whose grant was in force, so this source tells of none. Clauses about grants then accuse nobody of calls
to such a lock; S3 and S4 are judged by belief and effect, L1 and the situations by what calls returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.checks.facts.columns import Events, Flags, Runs
from reports.checks.facts.sources.grants import RECORD, Grants, grants_of, plain_changes


@dataclass(frozen=True)
class CallsAlone:
    """No grants. locks: per lock key, it is one of those that show none."""

    locks: Flags

    def grants(self, events: Events, runs: Runs) -> Grants:
        """See `GrantSource`: there are none to tell of."""
        none, no_code = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        changes = plain_changes(
            events,
            row=none,
            sent_row=none,
            at_lo_ns=none,
            at_hi_ns=none,
            node=no_code,
            owner=no_code,
            token=none,
            version=no_code,
            valid_until_true_ns=none,
            state=np.zeros(0, dtype=np.uint8),
            source=RECORD,
        )
        return grants_of(events, changes)
