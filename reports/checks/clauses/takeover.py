"""Takeover: was an unreleased grant replaced before its validity ended (S5)?

The promise is a stamp on the holder's wall clock. Where that stamp lies in
true time is read from the holder's own clock at the moment it sent the record.
Whoever replaces it is early in either of two ways:

- early in true time by more than the declared clock bound: no in-envelope
  clock explains that;
- early in true time at all, although the writer's *own* clock showed that the
  stamp had not passed: it knew, so no clock error explains the takeover.

Both are stretched by the declared rate error. The same test tells the owner of
an expired record from a rival (S6), so it lives here.

A record that promises no time, as a lock without a lease writes it, is in
force until it is given back. A condition shows that whoever replaced it had
read it, and may have had a rule of its own for its age. Without one, the write
struck whatever was there, so it is too early.

A client may take over in two writes: it removes the record, and then creates its
own. Removed on condition, in an acquire, the record was replaced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import ABSENT, OPERATOR
from reports.checks.disturbances import Disturbances
from reports.checks.facts.clocks import or_zero, rate_allowance
from reports.checks.facts.columns import Flags, Ints, are_among
from reports.checks.facts.sources.grants import END_DELETED, END_RELEASED, END_TAKEN_OVER
from reports.checks.facts.sources.open_calls import OpenCalls
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations


def came_early(truth: Truth, held: Ints, action: Ints) -> Flags:
    """True where the chain write `action` came before the validity of the write `held` was over.

    The action's instant is taken as late as it can have been. A record whose
    validity is unknown is never left early.
    """
    changes, events = truth.changes, truth.events
    run = changes.run[action]
    # Late bound of the action and the promised end: both choices favour the accused. S5 is a safety clause about
    # intent, and a wrong accusation costs the reader more than a missed millisecond.
    end = changes.valid_until_true_ns[held]
    at = changes.at_hi_ns[action]
    all_at, all_wall = events.integers("at_ns"), events.integers("wall_ns")
    held_sent = np.maximum(changes.sent_row[held], 0)
    allowance = rate_allowance(truth.runs, run, end - all_at[held_sent])
    drift = or_zero(truth.runs.integers("drift_bound_ns"))[run]
    # β once, not twice. The stamp is already in true time by the holder's own clock, so only the taker's error is left.
    is_beyond_clocks = at < end - drift - allowance

    sent = np.maximum(changes.sent_row[action], 0)
    stamp = events.integers("valid_until_ns")[changes.row[held]]
    # The second test catches a taker that is early within β. Its own clock is on record, so no clock has to be assumed.
    knows = (changes.sent_row[action] >= 0) & (stamp != ABSENT) & (all_wall[sent] != ABSENT)
    # The wall clock is read at sending, and the write landed later. The time between is added; true time and the clock
    # differ over it by the rate error alone, which `allowance` covers.
    own_clock = np.where(knows, all_wall[sent], 0) + (at - all_at[sent])
    is_knowing = knows & (own_clock < stamp) & (at < end - allowance)
    assert len(held) == len(action), "one action for each write that it hits"
    early: Flags = (end != ABSENT) & (is_beyond_clocks | is_knowing)
    return early


def came_blindly(truth: Truth, held: Ints, action: Ints) -> Flags:
    """True where the chain write `action` named no state, and struck the record `held`, whose end nothing tells."""
    changes = truth.changes
    # A write with a condition names the version that it replaces, so its client had read that record. How old the
    # record was, the lock may judge by a rule that the history does not show; this clause leaves it the benefit.
    has_no_end = (changes.valid_until_true_ns[held] == ABSENT) & (changes.sent_row[held] >= 0)
    blindly: Flags = has_no_end & changes.is_record[action] & ~changes.is_conditional[action]
    return blindly


def clear_the_way(truth: Truth, removals: Ints) -> Flags:
    """Per release or deletion: an acquire of its client sent it, on condition, to take the lock over in two writes."""
    changes = truth.changes
    sent = changes.sent_row[removals]
    clears: Flags = (sent >= 0) & changes.is_conditional[removals]
    asked = np.flatnonzero(clears)
    if len(asked):
        clears[asked] = OpenCalls(truth.events).are_acquiring(sent[asked])
    return clears


def _removed_by_another(truth: Truth) -> Ints:
    """The grants whose record another client removed on its way to a grant of its own."""
    changes, grants = truth.changes, truth.grants
    is_removed = are_among(grants.end_kind, (END_RELEASED, END_DELETED)) & grants.lapses
    removed = np.flatnonzero(is_removed & (changes.node[grants.end] != grants.node)) if len(grants.end) else grants.end
    cleared: Ints = removed[clear_the_way(truth, grants.end[removed])]
    return cleared


def are_resumed(truth: Truth, disturbances: Disturbances, taken: Ints) -> Flags:
    """True for each grant that was replaced by the next process of its own client, after its own process had crashed.

    A client runs one process at a time. Its last write was sent before the crash, its successor's after it.
    """
    changes, grants = truth.changes, truth.grants
    ending = grants.end[taken]
    resumed = np.zeros(len(taken), dtype=np.bool_)
    for one in np.flatnonzero((changes.node[ending] == grants.node[taken]) & (changes.sent_row[ending] >= 0)).tolist():
        grant = int(taken[one])
        crashed = disturbances.last_crash_row(
            int(grants.run[grant]), int(grants.node[grant]), before_row=int(changes.sent_row[ending[one]])
        )
        resumed[one] = crashed > int(changes.sent_row[grants.last[grant]])
    return resumed


def check_early_takeover(truth: Truth, disturbances: Disturbances) -> Violations:
    """S5: one violation per grant that another owner replaced too early.

    Its own owner may replace it any time, and so may the next process of a client whose process has crashed.
    """
    changes, grants, events = truth.changes, truth.grants, truth.events
    operator = events.code_of("node", OPERATOR)
    # Where a session holds the lock nothing promises a time, so nobody can be too early.
    replaced = np.flatnonzero((grants.end_kind == END_TAKEN_OVER) & grants.lapses)
    taken = np.union1d(replaced, _removed_by_another(truth)).astype(np.int64)
    ending = grants.end[taken]
    # After a hole in the record: a writer that is not on record may have given the grant back before.
    # Where all clients write one name, the node tells them apart.
    is_another = (changes.owner[ending] != grants.owner[taken]) | (changes.node[ending] != grants.node[taken])
    is_rival = is_another & (changes.node[ending] != operator) & ~changes.is_hole[ending]
    assert bool(np.all(ending > grants.last[taken])), "a grant is replaced after its last renewal"
    taken = taken[is_rival]
    taken = taken[~are_resumed(truth, disturbances, taken)]
    held, ending = grants.last[taken], grants.end[taken]
    early = taken[came_early(truth, held, ending) | came_blindly(truth, held, ending)]

    def witness(index: int) -> dict[str, Any]:
        grant = int(early[index])
        end, at = int(grants.valid_until_true_ns[grant]), int(changes.at_hi_ns[grants.end[grant]])
        ending = int(grants.end[grant])
        who, holder = events.text("node", int(changes.node[ending])), events.text("node", int(grants.node[grant]))
        blindly = "" if changes.is_conditional[ending] else ", without a condition"
        verb = "replaced" if grants.end_kind[grant] == END_TAKEN_OVER else "removed"
        text = (
            f"{who} {verb} a grant of {holder} that nobody had given back, and whose record promises no end"
            if end == ABSENT
            else f"{who} {verb} a grant of {holder} {end - at} ns before its validity ended"
        )
        return {
            "text": text + blindly,
            "size_ns": None if end == ABSENT else end - at,
            "lock": events.text("lock", int(grants.lock[grant])),
            "valid_until_true_ns": None if end == ABSENT else end,
            "replaced_ns": at,
            "writes": [truth.describe(int(which)) for which in (grants.last[grant], grants.end[grant])],
        }

    return Violations(clause="S5", run=grants.run[early], at_ns=changes.at_hi_ns[grants.end[early]], witness=witness)
