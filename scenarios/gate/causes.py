"""Failures grouped over scenarios by cause: one missing check of a lock breaks dozens of scenarios, and is told once.

A cause has three parts: the clause that broke first in the run, the shape in which it broke, and what the run needs to
break at all: the kinds of faults that are left when it has been shrunk. A failure joins a group if clause and shape are
the group's, and if its run had what the group needs. So one failure of each group is shrunk, and not one of each
scenario; a failure that lacks what a group needs is another cause, and is shrunk for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reports.checks.spec import CAUSES_FIRST, SAFETY
from reports.checks.summary import Finding

EFFECT_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pause", "suspend"), "stopped"),
    **dict.fromkeys(("drift", "offset", "step", "freeze", "slew"), "clock"),
    **dict.fromkeys(
        (
            "partition", "error", "throttle", "lose_request", "lose_reply", "delay", "drip", "freeze_service",
            "crash_service",
        ),
        "unanswered",
    ),
    **dict.fromkeys(("ghost_write", "duplicate", "hidden_retry", "reorder_replies"), "late"),
    **dict.fromkeys(("delete_object", "corrupt_object", "expire_items"), "changed"),
}  # fmt: skip
"""Kind of fault to what a lock notices of it. A lock cannot tell a partition from an answer that is lost."""


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


def first_cause(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one scenario that are not told as the consequence of another one in the same run."""
    by_run: dict[int, list[Finding]] = {}
    for finding in findings:
        by_run.setdefault(finding.run, []).append(finding)
    return [min(found, key=lambda each: CAUSES_FIRST.index(each.clause)) for found in by_run.values()]


@dataclass(frozen=True, slots=True)
class Case:
    """One failure of one scenario, to be grouped. order: of the scenario."""

    scenario: str
    finding: Finding
    order: int

    @property
    def shape(self) -> str:
        return shape_of(self.finding.clause, self.finding.witness)

    @property
    def rank(self) -> tuple[bool, int, int, int, int]:
        """The order in which failures speak for their group: safety, few faults, causes first, early scenarios."""
        finding = self.finding
        return (
            finding.clause not in SAFETY,
            CAUSES_FIRST.index(finding.clause),
            len(effects(finding.fault_kinds)),
            self.order,
            finding.run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A failure that was run once more, and shrunk where there was time.

    identity, replay: as it was stored; replay is "" if no line shows it again. sentence: what happened, in one line.
    needs: the kinds of faults that its run needs. broken: every clause that the run breaks. is_shrunk: False where
    `needs` are simply the faults that struck.
    """

    identity: str
    replay: str
    sentence: str
    needs: tuple[str, ...]
    broken: frozenset[str]
    is_shrunk: bool
    client: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: the failure that speaks for it, what is known of that one, and every failure that it accounts for."""

    speaker: Case
    known: Examined
    cases: tuple[Case, ...]

    @property
    def clause(self) -> str:
        return self.speaker.finding.clause

    @property
    def word(self) -> str:
        """A word for the cause that is the same for every seed, such as `S3:two-clients:stopped`."""
        needs = "+".join(sorted(effects(self.known.needs))) or "no-fault"
        return ":".join((self.clause, self.speaker.shape.replace(" ", "-") or "broken", needs.replace("_", "-")))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios that show it, in their order."""
        found = sorted({(case.order, case.scenario) for case in self.cases})
        return tuple(scenario for _, scenario in found)

    @property
    def runs(self) -> int:
        """The number of runs that show it."""
        return sum(1 + case.finding.similar for case in self.cases)

    def accounts_for(self, case: Case) -> bool:
        """True for a failure of the same clause and shape whose run had all that this cause needs."""
        return (
            case.finding.clause == self.clause
            and case.shape == self.speaker.shape
            and effects(self.known.needs) <= effects(case.finding.fault_kinds)
        )


def causes_of(cases: Iterable[Case], examine: Callable[[Case], Examined]) -> list[Cause]:
    """The causes of these failures: safety first, then those that most scenarios show.

    examine: runs a failure once more. It is called once for each cause.
    """
    waiting = sorted(cases, key=lambda case: case.rank)
    found: list[Cause] = []
    while waiting:
        speaker, *others = waiting
        known = examine(speaker)
        cause = Cause(speaker, known, ())
        members = [speaker, *(case for case in others if cause.accounts_for(case))]
        taken = {id(case) for case in members}
        waiting = [case for case in others if id(case) not in taken]
        first = _as_consequence(cause, found)
        if first is None:
            found.append(replace(cause, cases=tuple(members)))
        else:
            found[first] = replace(found[first], cases=(*found[first].cases, *members))
    return sorted(found, key=lambda cause: (cause.clause not in SAFETY, -len(cause.scenarios), cause.speaker.rank))


def _as_consequence(cause: Cause, found: Sequence[Cause]) -> int | None:
    """The place of an earlier cause that the run of this one shows, too, and of which this clause is a consequence."""
    rank = CAUSES_FIRST.index(cause.clause)
    for place, earlier in enumerate(found):
        is_in_run = earlier.clause in cause.known.broken and CAUSES_FIRST.index(earlier.clause) < rank
        if is_in_run and effects(earlier.known.needs) <= effects(cause.speaker.finding.fault_kinds):
            return place
    return None


def also_broken(cause: Cause) -> tuple[str, ...]:
    """The further clauses that broke beside the cause, in the order of causes."""
    clauses = {*cause.known.broken, *(case.finding.clause for case in cause.cases)} - {cause.clause}
    return tuple(clause for clause in CAUSES_FIRST if clause in clauses)
