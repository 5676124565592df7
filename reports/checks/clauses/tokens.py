"""Tokens: do the numbers of successive grants rise strictly (S2)?

Across release, expiry, deletion and re-creation: a token that comes again lets
a late writer through. Grants without a token are passed over. The return of an
ended grant under its old token is S6's business, not a second grant's token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import ABSENT
from reports.checks.facts.columns import Flags
from reports.checks.facts.segments import below_earlier_maximum
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations


def check_token_order(truth: Truth, revived: Flags) -> Violations:
    """S2: one violation per grant whose token does not exceed every earlier one. `revived`: per grant, see S6."""
    grants, events = truth.grants, truth.events
    numbered = np.flatnonzero((grants.token != ABSENT) & ~revived)
    token = grants.token[numbered]
    wrong = np.flatnonzero(below_earlier_maximum(grants.group[numbered], token, or_equal=True))

    def witness(index: int) -> dict[str, Any]:
        position = int(wrong[index])
        grant = int(numbered[position])
        start = int(np.searchsorted(grants.group[numbered], grants.group[grant], side="left"))
        assert start < position, "a token falls only after another one of its lock"
        highest = int(numbered[start + int(np.argmax(token[start:position]))])
        return {
            "text": f"token {int(grants.token[grant])} was given after token {int(grants.token[highest])}",
            "lock": events.text("lock", int(grants.lock[grant])),
            "writes": [truth.describe(which) for which in _told_writes(truth, highest, grant)],
        }

    bad = numbered[wrong]
    return Violations(clause="S2", run=grants.run[bad], at_ns=grants.begin_hi_ns[bad], witness=witness)


def _told_writes(truth: Truth, highest: int, grant: int) -> list[int]:
    """Positions in the chain: the grant with the higher token, what ended it, what was there before, the new grant."""
    grants, changes = truth.grants, truth.changes
    new = int(grants.first[grant])
    ended, before = int(grants.end[highest]), new - 1
    between = {which for which in (ended, before) if which >= 0 and changes.group[which] == changes.group[new]}
    first = int(grants.first[highest])
    return [first, *sorted(which for which in between if first < which < new), new]


def has_no_tokens(truth: Truth) -> Flags:
    """Per run: no grant carries a token."""
    grants = truth.grants
    without = np.ones(truth.runs.count, dtype=np.bool_)
    without[grants.run[grants.token != ABSENT]] = False
    return without
