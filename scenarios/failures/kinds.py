"""The kind of a failure: the one notion of "the same mistake again", for shrinking, telling, and the causes of a gate.

A kind has three parts: the clause, the shape in which it broke, and what a lock noticed of the faults that the run
needs. A lock cannot tell a store that is cut off from an answer that is lost, nor a pause from a suspend; so faults are
compared by that, and not by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reports.checks.summary import Finding

CHANGED: Final = "changed"
"""The effect of a fault by which somebody else changes the lock's record."""

EFFECT_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pause", "suspend"), "stopped"),
    **dict.fromkeys(("drift", "offset", "step", "freeze", "slew"), "clock"),
    **dict.fromkeys(("partition", "error", "throttle", "lose_request", "lose_reply"), "unanswered"),
    **dict.fromkeys(("delay", "drip", "freeze_service", "crash_service"), "unanswered"),
    **dict.fromkeys(("ghost_write", "duplicate", "hidden_retry", "reorder_replies"), "late"),
    **dict.fromkeys(("delete_object", "corrupt_object", "expire_items"), CHANGED),
}
"""Kind of fault to what a lock notices of it; a kind that is not here is noticed as itself."""


def effects(kinds: Iterable[str]) -> frozenset[str]:
    """The effects that a lock notices of faults of these kinds."""
    return frozenset(EFFECT_OF.get(kind, kind) for kind in kinds)


def shape_of(clause: str, witness: Mapping[str, Any]) -> str:
    """The shape in which a clause broke, from its witness: what the checks call it, and who stood against whom."""
    kind = str(witness.get("kind", ""))
    if clause == "S3":
        nodes = [str(entry.get("node", "")) for entry in witness.get("intervals", ()) if isinstance(entry, dict)]
        return "two tasks of one process" if len(nodes) == 2 and nodes[0] == nodes[1] else "two clients"
    return kind


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind. effects: of the faults that struck the run; of a shrunk run, of those that are left."""

    clause: str
    shape: str
    effects: frozenset[str]

    @classmethod
    def of(cls, finding: Finding, faults: Iterable[str] | None = None) -> FailureKind:
        """The kind of a finding. faults: kinds of faults; None for those that struck its run."""
        shape = shape_of(finding.clause, finding.witness)
        return cls(finding.clause, shape, effects(finding.fault_kinds if faults is None else faults))

    @property
    def word(self) -> str:
        """A word for the kind that is the same for every seed, such as `S3:two-clients:stopped`."""
        needs = "+".join(sorted(self.effects)) or "no-fault"
        return ":".join((self.clause, self.shape.replace(" ", "-") or "broken", needs.replace("_", "-")))

    def may_account_for(self, other: FailureKind) -> bool:
        """True if `other` is the same break of the same clause, in a run that had all that this kind needs."""
        return (self.clause, self.shape) == (other.clause, other.shape) and self.effects <= other.effects

    def accounts_for(self, other: FailureKind) -> bool:
        """As `may_account_for`, but for runs in which somebody changed the record: those are examined by themselves.

        To keep what is gone is another mistake than to look at no clock. Both break S3 between two clients, and the
        second needs no fault at all: it would take the first for its own.
        """
        return self.may_account_for(other) and (CHANGED in self.effects) == (CHANGED in other.effects)
