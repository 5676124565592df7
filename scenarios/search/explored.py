"""Explorations of a scenario's schedules, judged: what `lockref sim --explore` runs.

A piece of work is one seed of a systematic policy, or a chunk of seeds of one that draws. It is run and judged in one
process, and only what the judge said and a few histories leave it. Of the schedules of a
search with the very same history the first one is judged: the history is all that a judge sees. Schedules that were
drawn are a sample, and each of them is judged.

The runs of a search have numbers of their own, since many share a seed. `Explored.again` repeats one of those that a
finding names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from lockref.durations import plain_duration
from lockref.errors import LockrefError
from lockref.history import batch_digest, runs_table, to_table
from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.checks import judge
from reports.checks.summary import Finding, Summary
from scenarios.batch import CHUNK
from scenarios.definition.schema import Scenario
from scenarios.executor import executor_for
from scenarios.search.schedules import Exploration, run_under, search_schedules
from scenarios.worlds.judged_result import History, JudgedResult, joined_histories
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.auditor import real_world_forbidden
from sim.explore.exhaustive import Tally
from sim.explore.shrink import Deviations
from sim.kernel.schedules import Replay

JUDGED_TOGETHER: Final = 50


@dataclass(frozen=True, slots=True)
class Repeatable:
    """One run of an exploration, so that it can be repeated with its scenario and its lock."""

    seed: int
    deviations: Deviations


@dataclass(slots=True, kw_only=True)
class Explored(JudgedResult):
    """The results of an exploration; the run numbers of its summary are those of `repeatable`.

    seeds: how many were asked for. definition, spec, exploration: what was run. tally: over all seeds; each drawn
    schedule counts as one. alike: schedules whose history was known. repeatable: the runs that speak for a finding.
    tables: kept histories. digests: of the histories that were judged. searched: seeds that were explored to their end.
    """

    seeds: int
    definition: Scenario
    spec: ProviderSpec
    exploration: Exploration
    tally: Tally = field(default_factory=Tally)
    alike: int = 0
    searched: int = 0
    repeatable: dict[int, Repeatable] = field(default_factory=dict)
    tables: list[History] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)

    @property
    def is_sample(self) -> bool:
        return not self.exploration.policy.is_systematic

    @property
    def title(self) -> str:
        return f"{self.scenario} under {self.provider}, explored by {self.exploration.policy}"

    @property
    def digest(self) -> str:
        return batch_digest(self.digests)

    @property
    def history(self) -> History:
        return joined_histories(self.tables)

    @property
    def is_exhausted(self) -> bool:
        """True if a systematic policy has left nothing to try, in any seed."""
        return self.exploration.policy.is_systematic and self.tally.is_exhausted and self.searched == self.seeds

    @property
    def notices(self) -> list[str]:
        """The extent of the exploration, and whether anything was left."""
        policy, ties, tally = self.exploration.policy, self.exploration.ties, self.tally
        told = (
            f"explored by {policy}: {counted(tally.schedules, 'schedule')} of {counted(self.searched, 'seed')}, "
            f"{len(set(self.digests)):,} distinct histories; instants on a grid of {plain_duration(ties.window_ns)}, "
            f"preemption at {ties.preempt}"
        )
        if not policy.is_systematic:
            return [*self.notes, told]
        end = "exhausted" if self.is_exhausted else "cut off: orders are left that were not tried"
        return [
            *self.notes,
            f"{told}; {tally.states:,} states, {tally.pruned:,} further runs cut short at a known one; {end}",
        ]

    def again(self, finding: Finding) -> RunOutcome:
        """Repeat the run that a finding names."""
        run = self.repeatable[finding.run]
        return run_simulated(
            self.definition, self.spec, run.seed, schedule=Replay(run.deviations), ties=self.exploration.ties
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One piece of work, as a worker gets it. first_run: the number of its first run. keep_runs: histories to keep.

    not_demanded: clauses whose breach is no finding.
    """

    scenario: Scenario
    spec: ProviderSpec
    seeds: Sequence[int]
    exploration: Exploration
    first_run: int
    keep_runs: int
    not_demanded: frozenset[str]


@dataclass(slots=True, kw_only=True)
class _Answer:
    """The answer of a worker process."""

    summary: Summary
    seeds: int
    tally: Tally = field(default_factory=Tally)
    alike: int = 0
    repeatable: dict[int, Repeatable] = field(default_factory=dict)
    tables: list[History] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    error: LockrefError | None = None


def explore_seeds(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    exploration: Exploration,
    *,
    processes: int = 1,
    keep_runs: int = 0,
    not_demanded: frozenset[str] = frozenset(),
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Explored], None] = lambda _result: None,
) -> Explored:
    """Explore and judge `seeds` of one scenario.

    keep_runs: how many of the first histories to keep; those of distinct failures are kept besides. is_over: asked
    after each piece; True ends the exploration. not_demanded: clauses that are counted and reported, but no failure.
    Errors: in `Explored.error`, with what was judged before; KeyboardInterrupt sets `is_interrupted` likewise.
    """
    result = Explored(
        scenario=scenario.name,
        provider=spec.name,
        summary=Summary(not_demanded=not_demanded),
        seeds=len(seeds),
        definition=scenario,
        spec=spec,
        exploration=exploration,
    )
    try:
        exploration = exploration.counted(scenario, spec, seeds[0])
        owed = scenario.owed_by(len(seeds))
        pieces = list(_pieces(owed, spec, seeds, exploration, keep_runs=keep_runs, not_demanded=not_demanded))
        with closing(executor_for(min(processes, len(pieces)), len(pieces)).map(_explored, pieces)) as answers:
            for answer in answers:
                _absorb(result, answer)
                on_progress(result)
                if answer.error is not None or is_over():
                    break
    except KeyboardInterrupt:
        result.is_interrupted = True
    except LockrefError as error:
        result.error = error
    owed = scenario.owed_by(len(seeds))
    demands = owed.demanded_of(spec, clients=owed.clients, duration_ns=owed.duration.least)
    result.summary.demand((scenario.name, spec.name), demands)
    return result


def _pieces(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    exploration: Exploration,
    *,
    keep_runs: int,
    not_demanded: frozenset[str],
) -> Iterator[_Piece]:
    is_systematic = exploration.policy.is_systematic
    size = 1 if is_systematic else CHUNK
    for start in range(0, len(seeds), size):
        yield _Piece(
            scenario=scenario,
            spec=spec,
            seeds=seeds[start : start + size],
            exploration=exploration,
            first_run=start * exploration.schedules_max if is_systematic else seeds[start],
            keep_runs=max(0, keep_runs - start),
            not_demanded=not_demanded,
        )


def _absorb(result: Explored, answer: _Answer) -> None:
    result.summary.add(answer.summary)
    result.tally = result.tally + answer.tally
    result.alike += answer.alike
    result.searched += answer.seeds
    result.repeatable.update(answer.repeatable)
    result.tables += answer.tables
    result.digests += answer.digests
    result.error = result.error or answer.error


def _explored(piece: _Piece) -> _Answer:
    """Explore and judge one piece. What a worker runs."""
    answer = _Answer(summary=Summary(not_demanded=piece.not_demanded), seeds=0)
    try:
        shared = Shared(piece.scenario, piece.spec, plan=None)
        if piece.exploration.policy.is_systematic:
            (seed,) = piece.seeds
            search = search_schedules(piece.scenario, piece.spec, seed, piece.exploration, shared=shared)
            try:
                _judge_runs(answer, piece, enumerate(search, start=piece.first_run))
            finally:
                answer.tally = search.tally
        else:
            _judge_runs(answer, piece, ((seed, _drawn(piece, seed, shared)) for seed in piece.seeds))
            answer.tally = Tally(schedules=len(piece.seeds))
        answer.seeds = len(piece.seeds)
    except LockrefError as error:
        # Not raised in the parent: what was judged before counts.
        answer.error = error
    return answer


def _drawn(piece: _Piece, seed: int, shared: Shared) -> RunOutcome:
    with real_world_forbidden(is_strict=False):
        return run_under(piece.scenario, piece.spec, seed, piece.exploration, shared=shared)


def _judge_runs(answer: _Answer, piece: _Piece, runs: Iterator[tuple[int, RunOutcome]]) -> None:
    """Judge the runs batch by batch; those of a search each history once."""
    judges_each_once = piece.exploration.policy.is_systematic
    met: set[str] = set()
    batch: list[tuple[int, RunOutcome]] = []
    for number, outcome in runs:
        if judges_each_once and outcome.digest in met:
            answer.alike += 1
            continue
        met.add(outcome.digest)
        answer.digests.append(outcome.digest)
        batch.append((number, outcome))
        if len(batch) == JUDGED_TOGETHER:
            _judge(answer, piece, batch)
            batch = []
    if batch:
        _judge(answer, piece, batch)


def _judge(answer: _Answer, piece: _Piece, batch: Sequence[tuple[int, RunOutcome]]) -> None:
    events = to_table([outcome.recorder for _, outcome in batch], [number for number, _ in batch])
    runs = runs_table({**outcome.run_row, "run": number} for number, outcome in batch)
    known = {finding.key for finding in answer.summary.findings}
    kinds = {number: outcome.fired_kinds for number, outcome in batch}
    summary = Summary.of(judge(events, runs), events, runs, fault_kinds=kinds, not_demanded=piece.not_demanded)
    answer.summary.add(summary)
    speakers = {finding.run for finding in summary.findings if finding.key not in known}
    for number, outcome in batch:
        if number in speakers:
            answer.repeatable[number] = Repeatable(outcome.seed, outcome.deviations)
        if number in speakers or number < piece.first_run + piece.keep_runs:
            answer.tables.append(
                (to_table([outcome.recorder], [number]), runs_table([{**outcome.run_row, "run": number}]))
            )
