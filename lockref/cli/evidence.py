"""What one run shows of a failure: where it begins, who held and believed around the moment, and the witness.

Everything that people are told of a failure is taken from one run, the one that
`lockref replay` shows again: a failure that was shrunk is told as it is in its
shrunk run, whose times and figures are not those of the run that found it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import runs_table, to_table
from reports.checks import judge
from reports.checks.spec import CLAUSES
from reports.checks.summary import tally
from reports.pipeline.timeline import KINDS_SHOWN, build_timeline

if TYPE_CHECKING:
    from reports.checks.judge import Judgement
    from reports.checks.summary import Finding
    from reports.formats.results import Timeline
    from scenarios.worlds.simulated import RunOutcome


AROUND = ("S3", "S6")
"""Clauses whose failures are told with what the store saw: who wrote, on which condition, with what success."""

WRITES_SHOWN = 6


def store_writes(events: pa.Table, lock: str, at_ns: int) -> list[dict[str, Any]]:
    """The writes of `lock` nearest to an instant, at most `WRITES_SHOWN`, in the order of the record.

    An applied write is shown as the store recorded it, any other one with the answer that its client received.
    """
    chosen = events.filter(
        pc.and_(
            pc.and_(pc.equal(events["lock"], lock), pc.is_in(events["kind"], pa.array(["applied", "replied"]))),
            pc.invert(pc.is_in(events["op"], pa.array(["read", "none", "guard"]))),
        )
    ).to_pylist()
    told = [row for row in chosen if (row["kind"] == "applied") == (row["outcome"] == "applied")]
    sender = {row["request"]: row["task"] for row in chosen if row["kind"] == "replied"}
    nearest = sorted(told, key=lambda row: abs(row["at_ns"] - at_ns))[:WRITES_SHOWN]
    names = ("at_ns", "node", "op", "if_version", "outcome", "version")
    return [
        {**{name: row[name] for name in names if row[name] not in (None, "")}, "task": sender.get(row["request"], "")}
        for row in sorted(nearest, key=lambda row: row["seq"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A failure as one run shows it.

    finding: clause, witness and instant. begin_ns: the run's first event, from
    which people are told times. timeline: the picture around the moment.
    """

    finding: Finding
    begin_ns: int
    timeline: Timeline


class JudgedRun:
    """One simulated run with its history and what the checks say of it."""

    __slots__ = ("_by_clause", "_events", "_judgement")

    def __init__(self, outcome: RunOutcome) -> None:
        self._events: pa.Table = to_table([outcome.recorder], [outcome.seed])
        runs = runs_table([outcome.run_row])
        self._judgement: Judgement = judge(self._events, runs)
        findings = tally(self._judgement, self._events, runs).findings
        self._by_clause = {finding.clause: finding for finding in findings}

    @property
    def broken(self) -> frozenset[str]:
        """The clauses that the run breaks."""
        return frozenset(self._by_clause)

    def message(self, clause: str) -> str:
        """How the clause is broken, in the words of the checks; empty if it is not."""
        own = self._by_clause.get(clause)
        return "" if own is None else str(own.witness.get("text") or CLAUSES[clause])

    def breaks_likewise(self, finding: Finding) -> bool:
        """True if this run breaks the same clause in the same way, such as by a false denial."""
        own = self._by_clause.get(finding.clause)
        return own is not None and own.kind == finding.kind

    def evidence(self, finding: Finding) -> Evidence:
        """How this run breaks the clause, which it must. `similar` is copied from `finding`."""
        own = self._by_clause[finding.clause]
        shown = self._events.filter(pc.is_in(self._events["kind"], pa.array(KINDS_SHOWN)))
        begin_ns: int = pc.min(self._events["at_ns"]).as_py()
        witness = own.witness
        if finding.clause in AROUND and own.at_ns is not None:
            writes = store_writes(self._events, str(witness.get("lock", "")), own.at_ns)
            witness = {**witness, "store": writes}
        return Evidence(
            finding=replace(finding, kind=own.kind, at_ns=own.at_ns, witness=witness),
            begin_ns=begin_ns,
            timeline=build_timeline(
                shown.to_pylist(),
                grants=self._judgement.grants.to_pylist(),
                moment_ns=own.at_ns,
                witness=witness,
                origin_ns=begin_ns,
            ),
        )


def broken_clauses(outcome: RunOutcome) -> frozenset[str]:
    """The clauses that one simulated run breaks."""
    return JudgedRun(outcome).broken
