"""From counted facts to the account of a run: no Spark, no files.

The pipeline fills `Facts` with small aggregates; `summarise` words them. The
verdict is decided where every verdict is, in `reports.checks.verdicts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockref.strict_json import read_object
from reports.checks.spec import CLAUSES
from reports.checks.summary import telling_order
from reports.checks.verdicts import Counts
from reports.formats.block import failure_block
from reports.formats.results import (
    ClientCount,
    Failure,
    Fairness,
    OutcomeCount,
    Quantiles,
    Quarantined,
    Results,
    Scatter,
    judged,
)
from reports.formats.text import readable
from reports.pipeline.inputs import split_run
from reports.pipeline.latency import GRID, QUOTED
from reports.pipeline.timeline import build_timeline

FAILURES_MAX = 50
POINTS_MAX = 10_000
"""Single samples kept for one picture."""
CLIENTS_MAX = 2_000
"""Clients of one part in its table and its picture: more than one machine has threads for."""
TIMELINES_MAX = 8
"""Failures of one part that get a timeline."""
TIMELINE_EVENTS_MAX = 200_000
"""The most events of a run that its timeline is built from."""


@dataclass
class FailureRow:
    """The first run of a distinct failure, as the tables tell it."""

    clause: str
    cell: str
    runs: int
    run: int
    seed: int | None
    scenario: str
    provider: str
    backend: str
    world: str
    at_ns: int | None
    witness: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    grants: list[dict[str, Any]] = field(default_factory=list)

    @property
    def begin_ns(self) -> int:
        """The instant of the run from which people are told times."""
        origin: int = self.witness.get("origin_ns", 0)
        return origin

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> FailureRow:
        """From a row of the grouped verdicts."""
        first = row["first"]
        return cls(
            clause=row["clause"],
            cell=row["cell"],
            runs=row["runs"],
            run=first["run"],
            seed=first["seed"],
            scenario=first["scenario"],
            provider=first["provider"],
            backend=first["backend"] or "",
            world=first["world"],
            at_ns=first["at_ns"],
            witness=_witness(first["witness"]),
        )


@dataclass
class Facts:
    """The counts of an analysis. Keys of `events` and `rejects` are source indexes (and reasons).

    counts: what the verdict is made of. damaged: runs that lost a record; they are not judged.
    clients_total: how many clients there are, of which `clients` has at most `CLIENTS_MAX`.
    """

    sources: dict[int, str]
    events: dict[int, int] = field(default_factory=dict)
    rejects: dict[tuple[int, str], int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    counts: Counts = field(default_factory=Counts)
    classes: list[dict[str, Any]] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    quantiles: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    scatter: list[dict[str, Any]] = field(default_factory=list)
    fairness: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    clients_total: int = 0

    def count_verdicts(self, verdicts: Iterable[Mapping[str, Any]], reach: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of the grouped verdicts (clause, verdict, runs) and situations (party, situation, runs, count)."""
        for row in verdicts:
            self.counts.verdicts.setdefault(row["clause"], Counter())[row["verdict"]] += row["runs"]
        for row in reach:
            party = (row["scenario"], row["provider"])
            self.counts.reach_situation(party, row["situation"], runs=row["runs"], count=row["count"])


def summarise(facts: Facts, *, title: str = "") -> Results:
    """The results of these facts. Provenance, capabilities and files are the caller's to add."""
    results = judged(
        facts.counts,
        title=title or _title(facts),
        classes={row["class"]: row["runs"] for row in facts.classes},
        events=sum(facts.events.values()),
    )
    ranked = sorted(
        facts.failures, key=lambda row: telling_order(row.clause, row.run, str(row.witness.get("kind", "")))
    )
    results.failures = [_failure(facts, row) for row in ranked[:FAILURES_MAX]]
    results.notices += _notices(facts)
    if len(ranked) > FAILURES_MAX:
        results.notices.append(f"{len(ranked) - FAILURES_MAX} further distinct failures are in tables/verdicts only")
    results.latency = [_quantiles(row) for row in facts.quantiles]
    results.outcomes = [OutcomeCount(**row) for row in facts.outcomes]
    results.fairness = [Fairness(**row) for row in facts.fairness]
    results.clients = [ClientCount(**row) for row in facts.clients]
    results.clients_left_out = max(0, facts.clients_total - len(facts.clients))
    results.scatters = [_scatter(row) for row in facts.scatter]
    results.quarantine = [
        Quarantined(source=facts.sources[index], reason=reason, records=records)
        for (index, reason), records in sorted(facts.rejects.items())
    ]
    return results


def _witness(text: str | None) -> dict[str, Any]:
    return read_object(text) if text else {}


def _title(facts: Facts) -> str:
    return ", ".join(dict.fromkeys(scenario for scenario, _ in sorted(facts.counts.demanded) if scenario)) or "history"


def _failure(facts: Facts, row: FailureRow) -> Failure:
    index, run = split_run(row.run)
    source = facts.sources[index]
    message = readable(str(row.witness.get("text") or CLAUSES.get(row.clause, "")))
    failure = Failure(
        id=f"{row.clause}-run{run}" + (f"-input{index}" if len(facts.sources) > 1 else ""),
        clause=row.clause,
        message=message,
        run=run,
        seed=row.seed,
        begin_ns=row.begin_ns,
        source=source,
        scenario=row.scenario,
        provider=row.provider,
        backend=row.backend,
        at_ns=row.at_ns,
        similar=row.runs - 1,
        replay=_replay(row, source),
        witness=row.witness,
        timeline=build_timeline(
            row.events, grants=row.grants, moment_ns=row.at_ns, witness=row.witness, origin_ns=row.begin_ns
        )
        if row.events
        else None,
    ).in_run_time()
    failure.block = failure_block(failure)
    return failure


def _replay(row: FailureRow, source: str) -> str:
    """The command that shows it again: the seed in a simulation; a real run's history can only be judged again."""
    if row.world == "simulated" and row.seed is not None and row.scenario:
        return f"lockref sim {row.scenario} --provider {row.provider} --seed {row.seed}"
    return f"lockref check {source}"


def _quantiles(row: Mapping[str, Any]) -> Quantiles:
    curve = [(point, round(value)) for point, value in zip(GRID, row["at"], strict=True)]
    at = dict(curve)
    quoted = {f"{name}_ns": at[point] for name, point in QUOTED.items()}
    names = ("cell", "measure", "op", "outcome", "samples")
    return Quantiles(**{name: row[name] for name in names}, **quoted, curve=curve)


def _scatter(row: Mapping[str, Any]) -> Scatter:
    points = [(point["at_ns"], point["value_ns"]) for point in row["points"]]
    names = ("cell", "measure", "outcome", "total")
    return Scatter(**{name: row[name] for name in names}, points=points)


def _notices(facts: Facts) -> list[str]:
    found = []
    for measure in ("wait", "lease"):
        total = sum(row["total"] for row in facts.scatter if row["measure"] == measure)
        shown = sum(len(row["points"]) for row in facts.scatter if row["measure"] == measure)
        if shown < total:
            found.append(f"the picture of single {measure}s shows {shown:,} of {total:,} samples")
    found += [
        f"the timeline of run {split_run(row.run)[1]} was built from its first {len(row.events):,} events"
        for row in facts.failures
        if len(row.events) >= TIMELINE_EVENTS_MAX
    ]
    return found
