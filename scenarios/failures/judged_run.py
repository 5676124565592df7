"""One simulated run, judged: the clauses that it breaks, and each failure as the run shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lockref.history import runs_table, to_table
from reports.checks import judge
from reports.checks.spec import CLAUSES
from reports.checks.summary import Finding, Summary
from scenarios.worlds.simulated import RunOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFailure:
    """A failure as one run shows it.

    finding: clause, witness and instant. events, grants: that run's history, and the grants that the judge found in it.
    """

    finding: Finding
    events: pa.Table
    grants: pa.Table


class JudgedRun:
    """One simulated run with its history and what the checks say of it."""

    __slots__ = ("_by_clause", "_events", "_grants")

    def __init__(self, outcome: RunOutcome) -> None:
        self._events: pa.Table = to_table([outcome.recorder], [outcome.seed])
        runs = runs_table([outcome.run_row])
        judgement = judge(self._events, runs)
        self._grants: pa.Table = judgement.grants
        self._by_clause = {finding.clause: finding for finding in Summary.of(judgement, self._events, runs).findings}

    @property
    def broken(self) -> frozenset[str]:
        """The clauses that the run breaks."""
        return frozenset(self._by_clause)

    @property
    def instants(self) -> dict[str, int | None]:
        """The clauses that the run breaks, each with the instant at which it broke; None where it has none."""
        return {clause: finding.at_ns for clause, finding in self._by_clause.items()}

    def message(self, clause: str) -> str:
        """The sentence of the checks about the broken clause; empty if the run keeps the clause."""
        own = self._by_clause.get(clause)
        return "" if own is None else str(own.witness.get("text") or CLAUSES[clause])

    def breaks_likewise(self, finding: Finding) -> bool:
        """True if this run breaks the same clause in the same way, such as by a false denial, and about as badly.

        A symptom of less than half the size would be another one: an overlap of 0 ns is no example of one of 10 s.
        """
        own = self._by_clause.get(finding.clause)
        if own is None or own.kind != finding.kind:
            return False
        return finding.size_ns is None or (own.size_ns is not None and 2 * own.size_ns >= finding.size_ns)

    def shown(self, finding: Finding) -> ShownFailure:
        """The failure of this run under the clause of `finding`, which the run must break.

        `similar` is copied from `finding`.
        """
        own = self._by_clause[finding.clause]
        return ShownFailure(
            finding=replace(finding, kind=own.kind, at_ns=own.at_ns, witness=own.witness),
            events=self._events,
            grants=self._grants,
        )

    def shown_under(self, clause: str) -> ShownFailure:
        """The failure of this run under a clause, which the run must break."""
        return self.shown(self._by_clause[clause])


def broken_clauses(outcome: RunOutcome) -> frozenset[str]:
    """The clauses that one simulated run breaks."""
    return JudgedRun(outcome).broken
