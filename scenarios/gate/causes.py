"""Failures grouped over scenarios by cause: one missing check of a lock breaks dozens of scenarios, and is told once.

A cause has three parts: the clause that broke first in the run, the shape in which it broke, and what the run needs to
break at all: the kinds of faults that are left when it has been shrunk. A failure joins a group if clause and shape are
the group's, and if its run had what the group needs. So one failure of each group is shrunk, and not one of each
scenario; a failure that lacks what a group needs is another cause, and is shrunk for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reports.checks.spec import CAUSES_FIRST, SAFETY
from reports.checks.summary import Finding
from scenarios.failures.kinds import FailureKind


def first_cause(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one scenario that are not told as the consequence of another one in the same run."""
    by_run: dict[int, list[Finding]] = {}
    for finding in findings:
        by_run.setdefault(finding.run, []).append(finding)
    return [
        finding
        for found in by_run.values()
        for finding in found
        if not any(
            follows(finding.clause, finding.at_ns, other.clause, other.at_ns) for other in found if other is not finding
        )
    ]


def follows(clause: str, at_ns: int | None, other: str, other_ns: int | None) -> bool:
    """True if the break of `clause` is a consequence of the break of `other` in the same run.

    Then `other` stands earlier in the order of causes, and it broke first: what was there before a cause is a mistake
    of its own. Of liveness the instant is not asked. It is judged by deadlines, which may lie before the break.
    """
    if CAUSES_FIRST.index(other) >= CAUSES_FIRST.index(clause):
        return False
    return clause not in SAFETY or at_ns is None or other_ns is None or other_ns <= at_ns


@dataclass(frozen=True, slots=True)
class Case:
    """One failure of one scenario, to be grouped. order: of the scenario."""

    scenario: str
    finding: Finding
    order: int

    @property
    def kind(self) -> FailureKind:
        return FailureKind.of(self.finding)

    @property
    def rank(self) -> tuple[bool, int, int, int, int]:
        """The order in which failures become examples: safety, few faults, causes first, early scenarios."""
        finding = self.finding
        return (
            finding.clause not in SAFETY,
            CAUSES_FIRST.index(finding.clause),
            len(self.kind.effects),
            self.order,
            finding.run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A failure that was run once more, and shrunk where there was time.

    identity, replay: as it was stored; replay is "" if no line shows it again. sentence: what happened, in one line.
    needs: the kinds of faults that its run needs. is_shrunk: False where these are simply the faults that struck.
    broken: every demanded clause that its run breaks, each with the first instant, or None where it has none.
    beside: the clauses that it breaks though the scenario does not demand them, likewise. None of them is a cause
    there, but where another scenario demands it, what follows from it is no second mistake.
    """

    identity: str
    replay: str
    sentence: str
    needs: tuple[str, ...]
    broken: Mapping[str, int | None]
    beside: Mapping[str, int | None] = field(default_factory=dict)
    is_shrunk: bool = True
    client: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: its example, what is known of that one, and every failure that it accounts for."""

    example: Case
    known: Examined
    cases: tuple[Case, ...]

    @property
    def clause(self) -> str:
        return self.example.finding.clause

    @property
    def kind(self) -> FailureKind:
        """The kind of every failure of this cause, with what the shrunk run needs."""
        return FailureKind.of(self.example.finding, self.known.needs)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios that show it, in their order."""
        found = sorted({(case.order, case.scenario) for case in self.cases})
        return tuple(scenario for _, scenario in found)

    @property
    def runs(self) -> int:
        """The number of runs that show it."""
        return sum(1 + case.finding.similar for case in self.cases)


def causes_of(cases: Iterable[Case], examine: Callable[[Case], Examined]) -> list[Cause]:
    """The causes of these failures: safety first, then those that most scenarios show.

    examine: runs a failure once more. It is called once for each cause.
    """
    waiting = sorted(cases, key=lambda case: case.rank)
    found: list[Cause] = []
    while waiting:
        example, *others = waiting
        known = examine(example)
        cause = Cause(example, known, ())
        members = [example, *(case for case in others if cause.kind.accounts_for(case.kind))]
        taken = {id(case) for case in members}
        waiting = [case for case in others if id(case) not in taken]
        first = _as_consequence(cause, found)
        if first is None:
            found.append(replace(cause, cases=tuple(members)))
        else:
            found[first] = replace(found[first], cases=(*found[first].cases, *members))
    found = _joined(found)
    return sorted(found, key=lambda cause: (cause.clause not in SAFETY, -len(cause.scenarios), cause.example.rank))


def _joined(found: Sequence[Cause]) -> list[Cause]:
    """The causes, without those that another one accounts for: that one was found later, and needs less.

    A failure that nobody had time to shrink may have more faults than it needs, and is given the benefit of that.
    """

    def has_part(cause: Cause, other: Cause) -> bool:
        known = cause.kind.accounts_for if other.known.is_shrunk else cause.kind.may_account_for
        return known(other.kind)

    least = [
        cause for cause in found if not any(has_part(other, cause) and other.kind != cause.kind for other in found)
    ]
    cases: list[list[Case]] = [[] for _ in least]
    for cause in found:
        place = next(place for place, other in enumerate(least) if other is cause or has_part(other, cause))
        cases[place] += cause.cases
    return [replace(cause, cases=tuple(own)) for cause, own in zip(least, cases, strict=True) if own]


def _as_consequence(cause: Cause, found: Sequence[Cause]) -> int | None:
    """The place of an earlier cause that the run of this one shows, too, and of which this clause is a consequence."""
    broken = {**cause.known.beside, **cause.known.broken}
    for place, earlier in enumerate(found):
        is_in_run = earlier.clause in broken and earlier.kind.effects <= cause.example.kind.effects
        if is_in_run and follows(cause.clause, broken.get(cause.clause), earlier.clause, broken[earlier.clause]):
            return place
        if _is_same_late_yes(cause, earlier):
            return place
    return None


def _is_same_late_yes(cause: Cause, earlier: Cause) -> bool:
    """True for a guard that says yes too late, if the earlier cause is two clients that hold by a yes that is too late.

    In a run in which nobody else holds by then, the same yes breaks L4 alone.
    """
    if (cause.clause, earlier.clause) != ("L4", "S3") or cause.kind.shape != "told too late":
        return False
    shown = {**earlier.known.beside, **earlier.known.broken}
    return "L4" in shown and earlier.kind.effects <= cause.example.kind.effects


def also_broken(cause: Cause) -> tuple[str, ...]:
    """The further clauses that broke beside the cause, in the order of causes."""
    clauses = {*cause.known.broken, *(case.finding.clause for case in cause.cases)} - {cause.clause}
    return tuple(clause for clause in CAUSES_FIRST if clause in clauses)
