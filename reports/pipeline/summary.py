"""From counted facts to the account of a run: no Spark, no files.

The pipeline fills `Facts` with small aggregates; `summarise` decides the
verdict and words it. Held is claimed only if nothing stands against it: every
run could be judged, every demanded situation came about, somebody was
granted the lock at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reports.checks.spec import CLAUSES, FAIRNESS, LIVENESS, SAFETY, Verdict, joint_verdict
from reports.checks.vacuity import GRANT
from reports.formats.block import failure_block
from reports.formats.results import (
    Clause,
    ClientCount,
    Failure,
    Fairness,
    OutcomeCount,
    Quantiles,
    Quarantined,
    Reach,
    Results,
    Scatter,
    counted,
    statement,
)
from reports.formats.text import readable
from reports.pipeline.inputs import split_run
from reports.pipeline.latency import GRID, QUOTED
from reports.pipeline.timeline import build_timeline

FAILURES_MAX = 50
TIMELINE_EVENTS_MAX = 200_000
"""As many events of a run as its timeline is built from at most."""


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
    begin_ns: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    grants: list[dict[str, Any]] = field(default_factory=list)

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
    """What was counted. Keys of `events` and `rejects` are source indexes (and reasons).

    damaged: runs that lost a record. runs: those judged; runs_broken: with any
    safety clause violated. demanded: by scenario and provider, the situations
    that must happen.
    """

    sources: dict[int, str]
    events: dict[int, int] = field(default_factory=dict)
    rejects: dict[tuple[int, str], int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    runs: int = 0
    runs_broken: int = 0
    cut_off: int = 0
    demanded: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    classes: list[dict[str, Any]] = field(default_factory=list)
    reach: list[dict[str, Any]] = field(default_factory=list)
    failures: list[FailureRow] = field(default_factory=list)
    quantiles: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    scatter: list[dict[str, Any]] = field(default_factory=list)
    fairness: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)


def summarise(facts: Facts, *, title: str = "") -> Results:
    """The results of these facts. Provenance, capabilities and files are the caller's to add."""
    clauses = _clauses(facts)
    reasons = doubts(facts, clauses)
    broken = max((clauses[name].violated for name in SAFETY if name in clauses), default=0)
    verdict: Verdict = "violated" if broken else "inconclusive" if reasons else "held"
    ranked = sorted(facts.failures, key=lambda row: (_rank(row.clause), -row.runs, row.run))
    failures = [_failure(facts, row) for row in ranked[:FAILURES_MAX]]
    notices = _notices(facts)
    if len(ranked) > FAILURES_MAX:
        notices.append(f"{len(ranked) - FAILURES_MAX} further distinct failures are in tables/verdicts only")
    return Results(
        title=title or _title(facts),
        verdict=verdict,
        liveness=_joint(clauses, LIVENESS),
        fairness_claims=_joint(clauses, FAIRNESS),
        statement=statement(verdict=verdict, runs=facts.runs, violated=max(broken, facts.runs_broken), reasons=reasons),
        reasons=reasons,
        runs=facts.runs,
        events=sum(facts.events.values()),
        damaged=len(facts.damaged),
        cut_off=facts.cut_off,
        clauses=clauses,
        classes={row["class"]: row["runs"] for row in sorted(facts.classes, key=lambda row: row["class"])},
        reach=_reach(facts),
        failures=failures,
        latency=[_quantiles(row) for row in facts.quantiles],
        outcomes=[OutcomeCount(**row) for row in facts.outcomes],
        fairness=[Fairness(**row) for row in facts.fairness],
        clients=[ClientCount(**row) for row in facts.clients],
        scatters=[_scatter(row) for row in facts.scatter],
        quarantine=[
            Quarantined(source=facts.sources[index], reason=reason, records=records)
            for (index, reason), records in sorted(facts.rejects.items())
        ],
        notices=notices,
    )


def doubts(facts: Facts, clauses: Mapping[str, Clause]) -> list[str]:
    """Why "held" must not be said; empty if nothing stands against it."""
    found = []
    if facts.runs == 0:
        found.append("no run could be judged")
    if facts.damaged:
        found.append(f"{counted(len(facts.damaged), 'run')} lost records and could not be judged")
    if unattributed := sum(number for (_, reason), number in facts.rejects.items() if reason in NAMELESS):
        found.append(f"{counted(unattributed, 'record')} could not be assigned to a run")
    reached: dict[tuple[str, str], set[str]] = {}
    for row in facts.reach:
        if row["runs"]:
            reached.setdefault((row["scenario"], row["provider"]), set()).add(row["situation"])
    for key in sorted(facts.demanded):
        missing = sorted((facts.demanded[key] | {GRANT}) - reached.get(key, set()))
        where = " with ".join(name for name in key if name)
        if missing:
            found.append(f"never happened{f' in {where}' if where else ''}: {', '.join(missing)}")
    found += [
        f"{name} could not be decided in {counted(clauses[name].inconclusive, 'run')}"
        for name in SAFETY
        if name in clauses and clauses[name].inconclusive
    ]
    return found


NAMELESS = frozenset(
    (
        "not a JSON object",
        "missing run",
        "wrong type: run is not an integer",
        "run number out of range",
        "run's metadata without a run number",
    )
)
"""Reasons of records whose run is unknown: any run of their input may have lost them."""


def _witness(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


def _title(facts: Facts) -> str:
    return ", ".join(dict.fromkeys(scenario for scenario, _ in sorted(facts.demanded) if scenario)) or "history"


def _rank(clause: str) -> int:
    """Harm before belief before truth: S4 is what a reader must see first, then S3, then the rest in order."""
    order = ["S4", "S3", *CLAUSES]
    return order.index(clause) if clause in order else len(order)


def _clauses(facts: Facts) -> dict[str, Clause]:
    counts: dict[str, dict[str, int]] = {}
    for row in facts.verdicts:
        counts.setdefault(row["clause"], {})[row["verdict"]] = row["runs"]
    return {
        name: Clause(
            verdict=joint_verdict(counts[name]),
            runs=counts[name].get("held", 0) + counts[name].get("violated", 0),
            violated=counts[name].get("violated", 0),
            inconclusive=counts[name].get("inconclusive", 0),
            not_applicable=counts[name].get("not_applicable", 0),
            text=CLAUSES.get(name, ""),
        )
        for name in sorted(counts, key=lambda name: (list(CLAUSES).index(name) if name in CLAUSES else 99, name))
    }


def _joint(clauses: Mapping[str, Clause], names: tuple[str, ...]) -> Verdict:
    return joint_verdict({clauses[name].verdict for name in names if name in clauses})


def _reach(facts: Facts) -> list[Reach]:
    demanded = set().union(*facts.demanded.values()) if facts.demanded else set()
    totals: dict[str, tuple[int, int]] = dict.fromkeys(sorted(demanded), (0, 0))
    for row in facts.reach:
        runs, count = totals.get(row["situation"], (0, 0))
        totals[row["situation"]] = (runs + row["runs"], count + row["count"])
    return [
        Reach(situation=name, runs=runs, count=count, is_required=name in demanded)
        for name, (runs, count) in sorted(totals.items())
    ]


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
    )
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
    if facts.cut_off:
        found.append(
            f"{counted(facts.cut_off, 'run')} ended before the end of the scenario and were judged up to there"
        )
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
