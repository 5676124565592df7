"""Many seeds of one scenario under one lock: simulated in batches, judged as they come.

A campaign answers how often each clause broke, in which distinct ways, and
whether what the scenario is about ever happened. Seeds are cut into batches;
a batch is judged in one call, and only its tallies and a few
histories stay, so memory does not grow with the seeds. The answer does not
depend on the number of processes: batches are joined in the order of seeds,
and the lowest seed speaks for each distinct failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lockref.errors import DeterminismError
from lockref.history import RUNS_SCHEMA, SCHEMA, batch_digest, runs_table, to_table
from lockref.lab.loading import ProviderSpec
from reports.checks import judge
from reports.checks.summary import Tally, tally_runs
from scenarios.batch import run_seeds, sweep
from scenarios.checkpoint import Checkpoint, Chunk
from scenarios.definition.schema import Scenario
from scenarios.worlds.simulated import RunOutcome
from sim.explore.determinism import first_difference

SEEDS_PER_PROCESS_MIN = 200
"""Below this a second process costs more than it saves: it starts an interpreter."""

KEEP_RUNS = 200
"""Histories kept by default: the first runs, and the run of every distinct failure."""


@dataclass(slots=True, kw_only=True)
class CampaignResult:
    """What the seeds showed.

    tally: verdicts, reach and distinct failures; its run numbers are seeds.
    digests: seed to digest of its trace. compared: seeds that were run twice
    and gave one trace. tables: kept histories, batch by batch. resumed: seeds
    that an earlier command had finished.
    """

    scenario: Scenario
    provider: str
    tally: Tally
    digests: dict[int, str] = field(default_factory=dict)
    compared: int = 0
    is_interrupted: bool = False
    resumed: int = 0
    tables: list[tuple[pa.Table, pa.Table]] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """One hash over all traces in the order of seeds."""
        return batch_digest(self.digests[seed] for seed in sorted(self.digests))

    @property
    def kept(self) -> tuple[pa.Table, pa.Table]:
        """The kept histories: events and runs, in the order of seeds."""
        if not self.tables:
            return SCHEMA.empty_table(), RUNS_SCHEMA.empty_table()
        events = pa.concat_tables([events for events, _ in self.tables]).unify_dictionaries()
        return events, pa.concat_tables([runs for _, runs in self.tables])

    def judged(self, outcomes: Sequence[RunOutcome], *, keep_runs: int, compared: int = 0) -> Chunk:
        """Judge a batch of simulated runs in one call.

        keep_runs: how many of the first runs to keep; those that speak for a
        distinct failure that is not known yet are kept besides.
        """
        events, runs = _tables(outcomes)
        judgement = judge(events, runs)
        kinds = {outcome.seed: _fault_kinds(outcome) for outcome in outcomes}
        known = {finding.key for finding in self.tally.findings}
        found = tally_runs(judgement, runs, event_count=len(events), fault_kinds=kinds).findings
        wanted = {outcome.seed for outcome in outcomes[:keep_runs]}
        wanted |= {finding.run for finding in found if finding.key not in known}
        return Chunk(
            judgement=judgement,
            runs=runs,
            event_count=len(events),
            fault_kinds=kinds,
            compared=compared,
            kept=_tables([outcome for outcome in outcomes if outcome.seed in wanted]) if wanted else None,
        )

    def absorb(self, chunk: Chunk) -> None:
        """Add what the judge said of a batch, whether it ran just now or before an interruption."""
        self.tally.add(
            tally_runs(
                chunk.judgement,
                chunk.runs,
                event_count=chunk.event_count,
                fault_kinds=chunk.fault_kinds,
                spared=self.tally.spared,
            )
        )
        self.digests.update(zip(chunk.runs["run"].to_pylist(), chunk.runs["digest"].to_pylist(), strict=True))
        self.compared += chunk.compared
        if chunk.kept is not None:
            self.tables.append(chunk.kept)


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
    checkpoint: Checkpoint | None = None,
    spared: frozenset[str] = frozenset(),
) -> CampaignResult:
    """Simulate and judge `seeds`.

    keep_runs: how many of the first runs to keep the histories of; those of
        distinct failures are kept besides.
    check_determinism_every: run every k-th seed a second time, under the strict auditor, and compare.
    spared: clauses that are not demanded: counted and told, and no failure.
    is_over: asked between batches; True ends the campaign early.
    checkpoint: where finished batches are kept. Those that stand there already
        are taken over and their seeds are not run again.
    Errors: DeterminismError with the first differing event; ConfigError for a
    lock that raises what is no LockError. KeyboardInterrupt ends it early with
    `is_interrupted` set and what was finished kept.
    """
    total = CampaignResult(
        scenario=scenario,
        provider=spec.name,
        tally=Tally(spared=spared),
    )
    demands = scenario.demanded_of(spec, clients=scenario.clients, duration_ns=scenario.duration.least)
    total.tally.demand((scenario.name, spec.name), demands)
    try:
        if checkpoint is not None:
            for chunk in checkpoint.finished():
                total.absorb(chunk)
            total.resumed = len(total.digests)
            assert list(total.digests) == list(seeds[: total.resumed]), "finished chunks hold the first seeds, in order"
            if total.resumed:
                on_progress(total)
        remaining = seeds[total.resumed :]
        for outcomes in sweep(scenario, spec, remaining, jobs=processes) if remaining else ():
            compared = 0
            if check_determinism_every:
                for outcome in outcomes[::check_determinism_every]:
                    (again,) = run_seeds(scenario, spec, [outcome.seed], watched=1)
                    _require_same_trace(outcome, again)
                    compared += 1
            chunk = total.judged(outcomes, keep_runs=max(0, keep_runs - total.tally.runs), compared=compared)
            if checkpoint is not None:
                checkpoint.add(chunk)
            total.absorb(chunk)
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


def _tables(outcomes: Sequence[RunOutcome]) -> tuple[pa.Table, pa.Table]:
    seeds = [outcome.seed for outcome in outcomes]
    return to_table([outcome.recorder for outcome in outcomes], seeds), runs_table(row.run_row for row in outcomes)


def _fault_kinds(outcome: RunOutcome) -> tuple[str, ...]:
    """What disturbed a run: the kinds of its faults that fired, sorted."""
    fired = {fault.kind for fault in outcome.plan.faults if outcome.fault_counts.get(fault.id, (0, 0, 0))[1]}
    return tuple(sorted(fired))


def _require_same_trace(first: RunOutcome, second: RunOutcome) -> None:
    difference = first_difference(first.recorder, second.recorder)
    if difference is not None:
        raise DeterminismError(
            f"seed {first.seed} gave two traces, which differ at {difference}. Common causes: iteration over a set, "
            "id() or hash() in a key, a lock that calls time or random itself, state kept between runs"
        )
