"""From counted facts to the account of a run: no Spark, no files.

The pipeline fills `Facts` with small aggregates; `summarise` words them. The
verdict is decided where every verdict is, in `reports.checks.verdicts`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from reports.checks.spec import CLAUSES
from reports.checks.summary import Summary, telling_order
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
from reports.pipeline.distributions import Distribution
from reports.pipeline.inputs import split_run
from reports.pipeline.tallies import CLIENTS_MAX, CellFairness, Kind, Tallies
from reports.pipeline.timeline import build_timeline

FAILURES_MAX = 50
GRID = (
    *(step / 100 for step in range(100)),
    0.991, 0.992, 0.993, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999, 0.9995, 0.9999, 1.0,
)  # fmt: skip
"""The quantiles taken of every measure."""
QUOTED = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
"""The quantiles that tables quote, by name."""
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


FailureKey = tuple[str, str, str]
"""Clause, cell and kind of a distinct failure."""


@dataclass
class Facts:
    """The facts of an analysis about some runs; they add up. Keys of `rejects` are source indexes and reasons.

    counts: what the verdict is made of, and the events that were judged. tallies: what is measured.
    """

    sources: dict[int, str]
    rejects: Counter[tuple[int, str]] = field(default_factory=Counter)
    counts: Summary = field(default_factory=Summary)
    failures: dict[FailureKey, FailureRow] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=Tallies)

    def join(self, other: Facts) -> None:
        """Add what is known of other runs of the same sources."""
        self.rejects.update(other.rejects)
        self.counts.add(other.counts)
        for key, row in other.failures.items():
            known = self.failures.get(key)
            if known is not None:
                first = min(known, row, key=lambda each: each.run)
                row = replace(first, runs=known.runs + row.runs)
            self.failures[key] = row
        self.tallies.join(other.tallies)

    @property
    def with_timelines(self) -> list[FailureRow]:
        """The failures that get a timeline."""
        return [row for _, row in sorted(self.failures.items(), key=_by_clause)][:TIMELINES_MAX]


def _by_clause(failure: tuple[FailureKey, FailureRow]) -> tuple[str, int, tuple[str, str]]:
    (clause, *rest), row = failure
    return clause, -row.runs, (rest[0], rest[1])


def summarise(facts: Facts, *, title: str = "") -> Results:
    """The results of these facts. Provenance, capabilities and files are the caller's to add."""
    results = judged(
        facts.counts,
        title=title or _title(facts),
        classes=dict(facts.counts.classes),
        events=facts.counts.events,
    )
    ranked = sorted(
        facts.failures.values(), key=lambda row: telling_order(row.clause, row.run, str(row.witness.get("kind", "")))
    )
    results.failures = [_failure(facts, row) for row in ranked[:FAILURES_MAX]]
    results.notices += _notices(facts)
    if len(ranked) > FAILURES_MAX:
        results.notices.append(f"{len(ranked) - FAILURES_MAX} further distinct failures are in tables/verdicts only")
    tallies = facts.tallies
    results.latency = [
        _quantiles(kind, tallies.samples[kind], lengths)
        for kind, lengths in sorted(tallies.lengths.items(), key=lambda each: (*each[0][1:], each[0][0]))
    ]
    results.outcomes = [
        OutcomeCount(cell=cell, kind=kind, op=op, outcome=outcome, count=count)
        for (cell, kind, op, outcome), count in sorted(
            tallies.outcomes.items(), key=lambda each: (*each[0][:3], -each[1], each[0][3])
        )
    ]
    results.fairness = [_fairness(cell, found) for cell, found in sorted(tallies.fairness.items())]
    clients = tallies.busiest(CLIENTS_MAX).to_pylist()
    results.clients = [ClientCount(**row) for row in clients]
    results.clients_left_out = len(tallies.clients) - len(clients) + tallies.clients_left_out
    scatters = [row for measure, picture in sorted(tallies.pictures.items()) for row in picture.rows(measure)]
    results.scatters = [
        Scatter(**row) for row in sorted(scatters, key=lambda row: (row["measure"], row["cell"], row["outcome"]))
    ]
    results.quarantine = [
        Quarantined(source=facts.sources[index], reason=reason, records=records)
        for (index, reason), records in sorted(facts.rejects.items())
    ]
    return results


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


def _quantiles(kind: Kind, samples: int, lengths: Distribution) -> Quantiles:
    cell, measure, op, outcome = kind
    curve = [(point, round(value)) for point, value in zip(GRID, lengths.quantiles(GRID), strict=True)]
    at = dict(curve)
    quoted = {f"{name}_ns": at[point] for name, point in QUOTED.items()}
    return Quantiles(
        cell=cell,
        measure=measure,
        op=op,
        outcome=outcome,
        samples=samples,
        rank_error=lengths.rank_error,
        **quoted,
        curve=curve,
    )


def _fairness(cell: str, found: CellFairness) -> Fairness:
    least, median = found.jain.quantiles((0.0, 0.5)) if found.jain.count else (None, None)
    return Fairness(
        cell=cell,
        runs=found.runs,
        grants=found.grants,
        jain_min=least,
        jain_p50=median,
        longest_streak=found.longest_streak,
    )


def _notices(facts: Facts) -> list[str]:
    found = []
    for measure in ("wait", "lease"):
        picture = facts.tallies.pictures.get(measure)
        shown, total = (len(picture.points), picture.totals.total()) if picture else (0, 0)
        if shown < total:
            found.append(f"the picture of single {measure}s shows {shown:,} of {total:,} samples")
    found += [
        f"the timeline of run {split_run(row.run)[1]} was built from its first {len(row.events):,} events"
        for row in facts.failures.values()
        if len(row.events) >= TIMELINE_EVENTS_MAX
    ]
    return found
