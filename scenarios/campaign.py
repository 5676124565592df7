"""Many seeds of one scenario under one lock: simulated in batches, judged as they come.

A campaign answers how often each clause broke, in which distinct ways, and
whether what the scenario is about ever happened. Seeds are cut into batches;
a batch is judged in one call, and only its tallies and a few
histories stay, so memory does not grow with the seeds. The answer does not
depend on the number of processes: batches are joined in the order of seeds,
and the lowest seed speaks for each distinct failure.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lockref.errors import DeterminismError
from lockref.history import RUNS_SCHEMA, SCHEMA, runs_table, to_table
from lockref.providers import ProviderSpec
from reports.checks import Judgement, judge
from scenarios.batch import batch_digest, sweep
from scenarios.schema import Scenario
from scenarios.simulated import RunOutcome, run_simulated

SEEDS_PER_PROCESS_MIN = 200
"""Below this a second process costs more than it saves: it starts an interpreter."""

KEEP_RUNS = 200
"""Histories kept by default: the first runs, and the run of every distinct failure."""

SAFETY = "S"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a clause broke, as its lowest seed shows it; `similar` further runs break likewise.

    kind: what the witness calls it. fault_kinds: what disturbed the run.
    """

    clause: str
    kind: str
    fault_kinds: tuple[str, ...]
    seed: int
    at_ns: int | None
    witness: dict[str, Any]
    similar: int = 0

    @property
    def is_safety(self) -> bool:
        return self.clause.startswith(SAFETY)

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return (self.clause, self.kind, self.fault_kinds)


@dataclass(slots=True, kw_only=True)
class CampaignResult:
    """What the seeds showed.

    verdicts: clause to verdict to number of runs. classes: severity class to
    runs. reach: situation to (runs, occurrences). findings: distinct failures,
    lowest seed first, safety before the rest. events, runs: kept histories.
    digests: seed to digest of its trace.
    """

    scenario: Scenario
    provider: str
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    broken_runs: int = 0
    cut_off: int = 0
    event_count: int = 0
    is_interrupted: bool = False
    tables: list[tuple[pa.Table, pa.Table]] = field(default_factory=list)

    @property
    def run_count(self) -> int:
        return len(self.digests)

    @property
    def digest(self) -> str:
        """One hash over all traces in the order of seeds."""
        return batch_digest(self.digests[seed] for seed in sorted(self.digests))

    @property
    def unreached(self) -> tuple[str, ...]:
        """The situations that the scenario demands and no run reached."""
        return tuple(name for name in self.scenario.must_happen if self.reach.get(name, (0, 0))[0] == 0)

    @property
    def reasons(self) -> list[str]:
        """Why the campaign proves nothing, if it does not."""
        reasons = []
        if not self.digests:
            reasons.append("no run was finished")
        elif self.reach.get("grant", (0, 0))[0] == 0:
            reasons.append("no client was ever granted the lock")
        if self.unreached:
            reasons.append(f"never happened: {', '.join(self.unreached)}")
        return reasons

    @property
    def verdict(self) -> str:
        """Of the safety clauses: violated, inconclusive or held."""
        if any(finding.is_safety for finding in self.findings):
            return "violated"
        return "inconclusive" if self.reasons else "held"

    @property
    def is_live(self) -> bool:
        """True if no liveness or fairness clause broke."""
        return all(finding.is_safety for finding in self.findings)

    def clause_verdict(self, clause: str) -> str:
        """One clause over all runs."""
        counts = self.verdicts.get(clause, Counter())
        for verdict in ("violated", "inconclusive", "held"):
            if counts[verdict]:
                return verdict
        return "not_applicable"

    @property
    def kept(self) -> tuple[pa.Table, pa.Table]:
        """The kept histories: events and runs, in the order of seeds."""
        if not self.tables:
            return SCHEMA.empty_table(), RUNS_SCHEMA.empty_table()
        events = pa.concat_tables([events for events, _ in self.tables]).unify_dictionaries()
        return events, pa.concat_tables([runs for _, runs in self.tables])

    def absorb(self, batch: CampaignResult) -> None:
        """Join a later batch of seeds to this one."""
        for clause, counts in batch.verdicts.items():
            self.verdicts.setdefault(clause, Counter()).update(counts)
        self.classes.update(batch.classes)
        for situation, (runs, count) in batch.reach.items():
            before = self.reach.get(situation, (0, 0))
            self.reach[situation] = (before[0] + runs, before[1] + count)
        known = {finding.key: position for position, finding in enumerate(self.findings)}
        for finding in batch.findings:
            position = known.get(finding.key)
            if position is None:
                self.findings.append(finding)
            else:
                self.findings[position] = _joined(self.findings[position], finding)
        self.findings.sort(key=lambda finding: (not finding.is_safety, finding.seed, finding.clause, finding.kind))
        self.digests.update(batch.digests)
        self.broken_runs += batch.broken_runs
        self.cut_off += batch.cut_off
        self.event_count += batch.event_count
        self.tables += batch.tables


def _joined(first: Finding, second: Finding) -> Finding:
    speaker, other = (first, second) if first.seed <= second.seed else (second, first)
    return Finding(
        clause=speaker.clause,
        kind=speaker.kind,
        fault_kinds=speaker.fault_kinds,
        seed=speaker.seed,
        at_ns=speaker.at_ns,
        witness=speaker.witness,
        similar=speaker.similar + other.similar + 1,
    )


def run_campaign(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    processes: int = 1,
    keep_runs: int = KEEP_RUNS,
    check_determinism_every: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[CampaignResult], None] = lambda _result: None,
) -> CampaignResult:
    """Simulate and judge `seeds`.

    keep_runs: how many of the first runs to keep the histories of; those of
        distinct failures are kept besides.
    check_determinism_every: run every k-th seed a second time and compare.
    is_over: asked between batches; True ends the campaign early.
    Errors: DeterminismError with the first differing event; ConfigError for a
    lock that raises what is no LockError. KeyboardInterrupt ends it early with
    `is_interrupted` set and what was finished kept.
    """
    total = CampaignResult(scenario=scenario, provider=spec.name)
    try:
        for outcomes in sweep(scenario, spec, seeds, jobs=processes):
            if check_determinism_every:
                for outcome in outcomes[::check_determinism_every]:
                    require_same_trace(outcome, run_simulated(scenario, spec, outcome.seed))
            missing = max(0, keep_runs - total.run_count)
            total.absorb(judge_batch(scenario, spec.name, outcomes, keep_runs=missing))
            on_progress(total)
            if is_over():
                break
    except KeyboardInterrupt:
        total.is_interrupted = True
    return total


def default_processes(seed_count: int) -> int:
    """As many as there are cores, unless the seeds are too few to be worth it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, seed_count // SEEDS_PER_PROCESS_MIN))


def judge_batch(
    scenario: Scenario, provider: str, outcomes: Sequence[RunOutcome], *, keep_runs: int = 0
) -> CampaignResult:
    """Judge simulated runs in one call and tally what the judge says."""
    events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
    runs = runs_table(outcome.run_row for outcome in outcomes)
    judgement = judge(events, runs)
    result = CampaignResult(scenario=scenario, provider=provider)
    result.digests = {outcome.seed: outcome.digest for outcome in outcomes}
    result.cut_off = sum(bool(outcome.run_row["is_cut_off"]) for outcome in outcomes)
    result.event_count = len(events)
    _tally(result, judgement, {outcome.seed: _fault_kinds(outcome) for outcome in outcomes})
    wanted = {outcome.seed for outcome in outcomes[:keep_runs]} | {finding.seed for finding in result.findings}
    if wanted:
        kept = [outcome for outcome in outcomes if outcome.seed in wanted]
        result.tables = [
            (
                to_table([outcome.recorder for outcome in kept], [outcome.seed for outcome in kept]),
                runs_table(outcome.run_row for outcome in kept),
            )
        ]
    return result


def _tally(result: CampaignResult, judgement: Judgement, fault_kinds: dict[int, tuple[str, ...]]) -> None:
    counted = judgement.verdicts.group_by(["clause", "verdict"]).aggregate([("run", "count")])
    for row in counted.to_pylist():
        result.verdicts.setdefault(row["clause"], Counter())[row["verdict"]] += row["run_count"]
    result.classes.update(judgement.classes["class"].to_pylist())
    for row in judgement.reach.to_pylist():
        runs, count = result.reach.get(row["situation"], (0, 0))
        result.reach[row["situation"]] = (runs + (row["count"] > 0), count + row["count"])
    broken = judgement.verdicts.filter(pa.compute.equal(judgement.verdicts["verdict"], "violated"))
    found: dict[tuple[str, str, tuple[str, ...]], Finding] = {}
    broken_runs: set[int] = set()
    for row in broken.sort_by("run").to_pylist():
        witness = json.loads(row["witness"])
        finding = Finding(
            clause=row["clause"],
            kind=str(witness.get("kind", "")),
            fault_kinds=fault_kinds[row["run"]],
            seed=row["run"],
            at_ns=row["at_ns"],
            witness=witness,
        )
        if finding.is_safety:
            broken_runs.add(finding.seed)
        known = found.get(finding.key)
        found[finding.key] = finding if known is None else _joined(known, finding)
    result.broken_runs = len(broken_runs)
    result.findings = sorted(found.values(), key=lambda finding: (not finding.is_safety, finding.seed, finding.clause))


def _fault_kinds(outcome: RunOutcome) -> tuple[str, ...]:
    """What disturbed a run: the kinds of its faults that fired, sorted."""
    fired = {fault.kind for fault in outcome.plan.faults if outcome.fault_counts.get(fault.id, (0, 0, 0))[1]}
    return tuple(sorted(fired))


def require_same_trace(first: RunOutcome, second: RunOutcome) -> None:
    """Raise DeterminismError, naming the first event that differs, unless both runs recorded the same."""
    if first.digest == second.digest:
        return
    rows = [to_table([outcome.recorder]).to_pylist() for outcome in (first, second)]
    for number, (before, after) in enumerate(zip(*rows, strict=False)):
        if before != after:
            columns = [name for name in before if before[name] != after[name]]
            told = ", ".join(f"{name}: {before[name]!r} and {after[name]!r}" for name in columns)
            raise DeterminismError(
                f"seed {first.seed} gave two traces; the first difference is event {number} "
                f"at {before['at_ns'] / 1e9:.9f} s on {before['node']} ({before['kind']} {before['op']}): {told}. "
                "Common causes: iteration over a set, id() or hash() in a key, a lock that calls time or random itself"
            )
    raise DeterminismError(
        f"seed {first.seed} gave two traces: one has {len(rows[0])} events, the other {len(rows[1])}; "
        "what they share is equal"
    )
