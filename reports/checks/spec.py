"""The numbered clauses: what a lock must never do, must do in time, may promise about fairness, and what a log keeps.

The sentences here are the ones that verdicts quote; docs/spec.md explains each
with its allowances. Source of the numbering: the property tables of the
project's notes on checking (S safety, L liveness, F fairness).
"""

from __future__ import annotations

from typing import Final, Literal

CLAUSES: Final[dict[str, str]] = {
    "S1": "Grants of a lock form a chain, each applied on the state its predecessor left.",
    "S2": "Tokens of successive grants rise strictly and are never reused.",
    "S3": "No two clients believe they hold the same lock at one instant.",
    "S4": "Once the resource has accepted a grant's write, it accepts none of an earlier grant.",
    "S5": "An unreleased grant is not replaced before its validity ends.",
    "S6": "Only the owner renews, releases or deletes a grant, and an ended grant never returns.",
    "S7": "Success means the grant was in force during the call, denial that another's was, unknown is called unknown.",
    "L1": "While a client waits, some grant happens within validity, poll interval and two request times.",
    "L2": "After its holder died, a lock is granted again within the same bound from the last renewal.",
    "L3": "After an acknowledged release a waiter is granted within poll interval and two request times.",
    "L4": "A holder that cannot prove ownership is told no later than its deadline, and no other is told so.",
    "L5": "Every call ends one request timeout after its time: its wait, or what its requests need.",
    "L6": "An acquire that ended in error or unknown leaves no grant beyond one validity.",
    "F1": "At most K grants go to others while a connected client waits.",
    "F2": "Each continuous waiter is granted at least once after the faults.",
    "DL1": "Every acknowledged commit is in exactly one version of the log, the one that its writer was told.",
    "DL2": "A commit that nobody acknowledged is in at most one version.",
    "DL3": "The versions of a log are contiguous: none is written before the one that precedes it.",
    "DL4": "No log entry is overwritten by another commit.",
    "DL5": "A commit that landed is never reported as an error.",
}
"""Clause id to its sentence, in the order of reports."""

COMMITS: Final = ("DL1", "DL2", "DL3", "DL4", "DL5")
"""What a Delta log must keep, whatever guards it. Lost data is lost safety."""

SAFETY: Final = ("S1", "S2", "S3", "S4", "S5", "S6", "S7", *COMMITS)
LIVENESS: Final = ("L1", "L2", "L3", "L4", "L5", "L6")
FAIRNESS: Final = ("F1", "F2")

CAUSES_FIRST: Final = (
    *("S1", "S6", "S5", "S2", "S7", "S3", "S4"),
    *("DL3", "DL4", "DL5", "DL2", "DL1"),
    *("L6", "L4", "L5", "L2", "L3", "L1"),
    *FAIRNESS,
)
"""The clauses in the order in which failures of one run are told: what breaks one of them may break those after it.

A store's fault first; then a write that hits another's grant, or takes it too early; then tokens and answers; then what
clients believe, and at last what they do. A grant that nobody gave back is why the next client waits.
"""

HELD: Final = "held"
VIOLATED: Final = "violated"
INCONCLUSIVE: Final = "inconclusive"
NOT_APPLICABLE: Final = "not_applicable"

Verdict = Literal["held", "violated", "inconclusive", "not_applicable"]
