"""Many judgements added up: how often each clause broke, in which distinct ways, and what was reached.

A `Tally` is what gates and pages read. It grows batch by batch, so a campaign
of a million runs needs no more memory than its distinct failures; the lowest
run speaks for each of them, whatever the order in which batches arrive.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.checks.judgement import Judgement
from reports.checks.spec import INCONCLUSIVE, SAFETY, Verdict, joint_verdict
from reports.checks.vacuity import GRANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a clause broke, as its lowest run shows it; `similar` further runs break likewise.

    kind: what the witness calls it. fault_kinds: what disturbed the run.
    """

    clause: str
    kind: str
    fault_kinds: tuple[str, ...]
    run: int
    at_ns: int | None
    witness: dict[str, Any]
    similar: int = 0

    @property
    def is_safety(self) -> bool:
        return self.clause in SAFETY

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return (self.clause, self.kind, self.fault_kinds)


Party = tuple[str, str]
"""Scenario and provider. What must happen must happen to each: another lock's crash proves nothing about this one."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the runs showed so far.

    demanded: the situations without which a party's runs prove nothing.
    reached: those that its runs came to. damaged: runs that lost a record and
    were not judged. verdicts: clause to verdict to runs. classes: severity class to runs. reach:
    situation to (runs, occurrences). findings: distinct failures, safety
    before the rest, lowest run first. broken_runs: with a safety clause broken.
    """

    demanded: dict[Party, set[str]] = field(default_factory=dict)
    reached: dict[Party, set[str]] = field(default_factory=dict)
    runs: int = 0
    damaged: int = 0
    cut_off: int = 0
    events: int = 0
    broken_runs: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def required(self) -> set[str]:
        """The situations that any party demands."""
        return set().union(*self.demanded.values())

    @property
    def unreached(self) -> dict[Party, list[str]]:
        """By party, the demanded situations that none of its runs reached; a grant is always demanded."""
        missing = {party: {GRANT, *names} - self.reached.get(party, set()) for party, names in self.demanded.items()}
        return {party: sorted(names) for party, names in sorted(missing.items()) if names}

    @property
    def reasons(self) -> list[str]:
        """Why the runs prove nothing, if they do not."""
        reasons = []
        if self.damaged:
            lost = f"{self.damaged:,} run{'' if self.damaged == 1 else 's'}"
            reasons.append(f"{lost} lost records and could not be judged")
        if not self.runs:
            return reasons or ["no run was finished"]
        for party, names in self.unreached.items():
            where = " in " + " with ".join(name for name in party if name) if len(self.demanded) > 1 else ""
            if GRANT in names:
                reasons.append(f"no client was ever granted the lock{where}")
            if others := [name for name in names if name != GRANT]:
                reasons.append(f"never happened{where}: {', '.join(others)}")
        for clause in SAFETY:
            undecided = self.verdicts.get(clause, Counter())[INCONCLUSIVE]
            if undecided:
                reasons.append(f"{clause} could not be decided in {undecided:,} run{'' if undecided == 1 else 's'}")
        return reasons

    @property
    def verdict(self) -> Verdict:
        """Of the safety clauses: violated, inconclusive or held."""
        if any(finding.is_safety for finding in self.findings):
            return "violated"
        return "inconclusive" if self.reasons else "held"

    @property
    def is_live(self) -> bool:
        """True if no liveness clause and no claimed fairness clause broke."""
        return all(finding.is_safety for finding in self.findings)

    def clause_verdict(self, clause: str) -> Verdict:
        """One clause over all runs."""
        return joint_verdict(self.verdicts.get(clause, Counter()))

    def add(self, other: Tally) -> None:
        """Join other runs to these."""
        for party, names in other.demanded.items():
            self.demanded.setdefault(party, set()).update(names)
        for party, names in other.reached.items():
            self.reached.setdefault(party, set()).update(names)
        self.runs += other.runs
        self.damaged += other.damaged
        self.cut_off += other.cut_off
        self.events += other.events
        self.broken_runs += other.broken_runs
        for clause, counts in other.verdicts.items():
            self.verdicts.setdefault(clause, Counter()).update(counts)
        self.classes.update(other.classes)
        for situation, (runs, count) in other.reach.items():
            before = self.reach.get(situation, (0, 0))
            self.reach[situation] = (before[0] + runs, before[1] + count)
        self._find(other.findings)

    def _find(self, findings: list[Finding]) -> None:
        found = {finding.key: finding for finding in self.findings}
        for finding in findings:
            known = found.get(finding.key)
            found[finding.key] = finding if known is None else _joined(known, finding)
        self.findings = sorted(found.values(), key=_rank)


def _rank(finding: Finding) -> tuple[bool, int, str, str]:
    return (not finding.is_safety, finding.run, finding.clause, finding.kind)


def _joined(first: Finding, second: Finding) -> Finding:
    speaker, other = (first, second) if first.run <= second.run else (second, first)
    return replace(speaker, similar=speaker.similar + other.similar + 1)


def tally(
    judgement: Judgement,
    events: pa.Table,
    runs: pa.Table,
    *,
    damaged: int = 0,
    fault_kinds: Mapping[int, tuple[str, ...]] | None = None,
) -> Tally:
    """Add up one judgement of `events` and `runs`.

    damaged: runs that were left out because they lost a record. fault_kinds: run
    to what disturbed it, where the caller knows; it tells failures of one clause apart.
    """
    return tally_runs(judgement, runs, event_count=len(events), damaged=damaged, fault_kinds=fault_kinds)


def tally_runs(
    judgement: Judgement,
    runs: pa.Table,
    *,
    event_count: int,
    damaged: int = 0,
    fault_kinds: Mapping[int, tuple[str, ...]] | None = None,
) -> Tally:
    """As `tally`, where the events themselves are no longer at hand."""
    told = fault_kinds or {}
    result = Tally(
        runs=len(runs),
        damaged=damaged,
        cut_off=sum(runs["is_cut_off"].to_pylist()),
        events=event_count,
        classes=Counter(judgement.classes["class"].to_pylist()),
    )
    parties: dict[int, Party] = {}
    for row in runs.select(["run", "scenario", "provider", "must_happen"]).to_pylist():
        parties[row["run"]] = party = (row["scenario"], row["provider"])
        result.demanded.setdefault(party, set()).update(row["must_happen"])
    counted = judgement.verdicts.group_by(["clause", "verdict"]).aggregate([("run", "count")])
    for row in counted.to_pylist():
        result.verdicts.setdefault(row["clause"], Counter())[row["verdict"]] += row["run_count"]
    for row in judgement.reach.to_pylist():
        before = result.reach.get(row["situation"], (0, 0))
        result.reach[row["situation"]] = (before[0] + (row["count"] > 0), before[1] + row["count"])
        if row["count"]:
            result.reached.setdefault(parties[row["run"]], set()).add(row["situation"])
    broken = judgement.verdicts.filter(pc.equal(judgement.verdicts["verdict"], "violated")).to_pylist()
    findings = []
    for row in broken:
        witness = json.loads(row["witness"])
        findings.append(
            Finding(
                clause=row["clause"],
                kind=str(witness.get("kind", "")),
                fault_kinds=told.get(row["run"], ()),
                run=row["run"],
                at_ns=row["at_ns"],
                witness=witness,
            )
        )
    result._find(findings)  # noqa: SLF001 - the same module
    result.broken_runs = len({finding.run for finding in findings if finding.is_safety})
    return result
