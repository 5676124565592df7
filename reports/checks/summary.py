"""Many judgements added up: how often each clause broke, in which distinct ways, and what was reached.

A `Summary` is what gates and pages read. It grows batch by batch, so a campaign
of a million runs needs no more memory than its distinct failures. The run with
the lowest number stands for each of them, in whatever order batches arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lockref.strict_json import read_object
from reports.checks.facts.surroundings.integrity import CUT_OFF, DAMAGED
from reports.checks.judgement import Judgement
from reports.checks.measures.endings import ENDINGS
from reports.checks.situations import REACH_SCHEMA
from reports.checks.spec import CAUSES_FIRST, NOT_APPLICABLE, SAFETY, VIOLATED
from reports.checks.verdicts import Counts, Party


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
    def begin_ns(self) -> int:
        """The instant of the run from which people are told times."""
        origin: int = self.witness.get("origin_ns", 0)
        return origin

    @property
    def is_safety(self) -> bool:
        return self.clause in SAFETY

    @property
    def size_ns(self) -> int | None:
        """The size of the symptom, such as the length of an overlap; None for a symptom without a size."""
        size: int | None = self.witness.get("size_ns")
        return size

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return (self.clause, self.kind, self.fault_kinds)


@dataclass(slots=True, kw_only=True)
class Summary(Counts):
    """The summary of the runs so far: the counts of which `reports.checks.verdicts.decide` makes the verdict, and more.

    classes: severity class to runs. findings: distinct failures, in the order of `telling_order`.
    """

    events: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        judgement: Judgement,
        events: pa.Table,
        runs: pa.Table,
        *,
        damaged: int = 0,
        nameless: int = 0,
        fault_kinds: Mapping[int, tuple[str, ...]] | None = None,
        not_demanded: frozenset[str] = frozenset(),
    ) -> Summary:
        """The summary of one judgement of `events` and `runs`.

        damaged: runs that were left out because they lost a record. nameless: records
        set aside that name no run. fault_kinds: run to what disturbed it, where the
        caller knows; it tells failures of one clause apart. not_demanded: clauses that are
        not demanded here; where one broke, it is counted, but it is no finding.
        """
        return cls.of_runs(
            judgement,
            runs,
            event_count=len(events),
            damaged=damaged,
            nameless=nameless,
            fault_kinds=fault_kinds,
            not_demanded=not_demanded,
        )

    @classmethod
    def of_runs(
        cls,
        judgement: Judgement,
        runs: pa.Table,
        *,
        event_count: int,
        damaged: int = 0,
        nameless: int = 0,
        fault_kinds: Mapping[int, tuple[str, ...]] | None = None,
        not_demanded: frozenset[str] = frozenset(),
    ) -> Summary:
        """As `of`, where the events themselves are no longer at hand."""
        disturbed_by = fault_kinds or {}
        state = {row["run"]: row for row in judgement.records.to_pylist()}
        unfit = {run: row["why"] for run, row in state.items() if row["state"] == DAMAGED}
        result = cls(
            runs=len(state) - len(unfit),
            damaged=damaged + len(unfit),
            damage={f"run {run}": why for run, why in unfit.items()},
            nameless=nameless,
            cut_off=sum(row["state"] == CUT_OFF for row in state.values()),
            events=event_count,
            classes=Counter(judgement.classes["class"].to_pylist()),
            not_demanded=not_demanded,
        )
        assert result.runs >= 0, "more runs are damaged than there are"
        parties: dict[int, Party] = {}
        limited: dict[tuple[Party, str], list[int]] = {}
        for row in runs.select(["run", "scenario", "provider", "must_happen", "unsafe", "thresholds"]).to_pylist():
            parties[row["run"]] = party = (row["scenario"], row["provider"])
            if row["run"] not in unfit:
                result.demand(party, row["must_happen"])
                result.note_unsafe(row["unsafe"])
                for text in row["thresholds"] or ():
                    limited.setdefault((party, text), []).append(row["run"])
        for (party, text), numbers in limited.items():
            of_party = pc.is_in(judgement.threshold_samples["run"], value_set=pa.array(numbers, pa.int64()))
            result.note_limits(party, [text], judgement.threshold_samples.filter(of_party))
        verdicts = judgement.verdicts
        if unfit:
            verdicts = verdicts.filter(
                pc.invert(pc.is_in(verdicts["run"], value_set=pa.array(sorted(unfit), pa.int64())))
            )
        if "S3" in not_demanded:
            verdicts = _without_late_writes(verdicts, judgement.tenures)
        counted = Counter(zip(*(verdicts[name].to_pylist() for name in ("clause", "verdict")), strict=True))
        for (clause, verdict), runs_of_it in counted.items():
            result.verdicts.setdefault(clause, Counter())[verdict] += runs_of_it
        reached: dict[tuple[Party, str], list[int]] = {}
        for run, situation, count in zip(
            *(judgement.reach[name].to_pylist() for name in REACH_SCHEMA.names), strict=True
        ):
            found = reached.setdefault((parties.get(run, ("", "")), situation), [0, 0])
            found[0] += count > 0
            found[1] += count
        for (party, situation), (runs_of_it, count) in reached.items():
            result.reach_situation(party, situation, runs=runs_of_it, count=count)
        for row in judgement.endings.to_pylist():
            result.count_endings({name: row[name] for name in ENDINGS}, row["longest_gap_ns"])
            result.note_host(row["host_late_ns"])
        # These two tell of real runs alone. A table with so many columns takes its time also where it has no row.
        for told, table in ((result.answers, judgement.answers), (result.speeds, judgement.speeds)):
            if len(table):
                told += table.to_pylist()
        findings = []
        is_any_broken = any(verdict == VIOLATED for _clause, verdict in counted)
        broken = verdicts.filter(pc.equal(verdicts["verdict"], VIOLATED)).to_pylist() if is_any_broken else []
        for row in broken:
            if row["clause"] in not_demanded:
                continue
            witness = read_object(row["witness"])
            findings.append(
                Finding(
                    clause=row["clause"],
                    kind=str(witness.get("kind", "")),
                    fault_kinds=disturbed_by.get(row["run"], ()),
                    run=row["run"],
                    at_ns=row["at_ns"],
                    witness=witness,
                )
            )
        result._find(findings)
        result.broken_runs = len({finding.run for finding in findings if finding.is_safety})
        return result

    def add(self, other: Summary) -> None:
        """Join other runs to these."""
        self.add_counts(other)
        self.events += other.events
        self.classes.update(other.classes)
        self._find(other.findings)

    def _find(self, findings: list[Finding]) -> None:
        found = {finding.key: finding for finding in self.findings}
        for finding in findings:
            known = found.get(finding.key)
            found[finding.key] = finding if known is None else _joined(known, finding)
        self.findings = sorted(found.values(), key=lambda each: telling_order(each.clause, each.run, each.kind))


def telling_order(clause: str, run: int, kind: str) -> tuple[bool, int, int, str]:
    """The place of a failure among others: safety first, then the lowest run, and within one run causes first."""
    return (clause not in SAFETY, run, CAUSES_FIRST.index(clause), kind)


def _joined(first: Finding, second: Finding) -> Finding:
    speaker, other = (first, second) if first.run <= second.run else (second, first)
    return replace(speaker, similar=speaker.similar + other.similar + 1)


def _without_late_writes(verdicts: pa.Table, tenures: pa.Table) -> pa.Table:
    """The verdicts, where S3 is not demanded: only tokens can then refuse a late write.

    So S4 does not apply to a run in which the lock showed no token. This is asked run by run: how seeds are
    cut into batches must not change a verdict.
    """
    with_tokens = pc.unique(tenures.filter(pc.is_valid(tenures["token"]))["run"])
    is_excused = pc.and_(
        pc.equal(verdicts["clause"], "S4"), pc.invert(pc.is_in(verdicts["run"], value_set=with_tokens.cast(pa.int64())))
    )
    place = verdicts.column_names.index("verdict")
    return verdicts.set_column(
        place, verdicts.schema.field(place), pc.if_else(is_excused, NOT_APPLICABLE, verdicts["verdict"])
    )
