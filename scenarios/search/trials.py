"""Runs with explicit plans, judged by the chunk: what a search asks for, and what it hears of each run.

A trial is numbered within its search, and its number is the run number of its history: many trials have one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lockref.errors import LockrefError
from lockref.history import runs_table, to_table
from lockref.lab.loading import ProviderSpec
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.batch import run_in_turn
from scenarios.definition.schema import Scenario
from scenarios.search.requests import RequestPlace, places_of
from scenarios.search.traces import features_of, reach_by_run, trace_class
from scenarios.worlds.judged_result import History, broken_runs, only_runs
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.faults.plan import FaultPlan

TRIALS_PER_PIECE: Final = 40
"""Trials per piece of work, which are judged in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a search. number: of the run within its search. scenario: what is run, less its own plan."""

    number: int
    scenario: Scenario
    seed: int
    plan: FaultPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial, run and judged.

    trace: a hash of what happened. mattered: the ids of the faults that changed something. places, features: where the
    search asked for them; else empty. request_timeout_ns: of the lock.
    """

    number: int
    trace: str
    mattered: frozenset[str]
    is_broken: bool
    places: tuple[RequestPlace, ...] = ()
    features: frozenset[str] = frozenset()
    request_timeout_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some trials under one lock, as a worker gets them.

    not_demanded: clauses whose breach is no finding. watched: run the first trial under the strict auditor.
    """

    spec: ProviderSpec
    trials: tuple[Trial, ...]
    not_demanded: frozenset[str] = frozenset()
    wants_places: bool = False
    wants_features: bool = False
    watched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPiece:
    """The answer of a worker: each trial in its order, the summary of all, and the histories of those that failed.

    error: in the place of all that, what ended the piece.
    """

    piece: Piece
    tried: tuple[Tried, ...] = ()
    summary: Summary | None = None
    kept: History | None = None
    error: LockrefError | None = None


def cut_into_pieces(trials: Iterator[Trial], make: Callable[[tuple[Trial, ...]], Piece]) -> Iterator[Piece]:
    """The pieces of a row of trials, taken as they are asked for."""
    chunk: list[Trial] = []
    for trial in trials:
        chunk.append(trial)
        if len(chunk) == TRIALS_PER_PIECE:
            yield make(tuple(chunk))
            chunk.clear()
    if chunk:
        yield make(tuple(chunk))


def run_piece(piece: Piece) -> TriedPiece:
    """Run the trials of a piece and judge them in one call. What a worker runs."""
    shared: dict[int, Shared] = {}
    runs: list[Callable[[], RunOutcome]] = []
    for trial in piece.trials:
        # One variant of the scenario is one object within a piece, also after its way to a worker.
        of = shared.get(id(trial.scenario))
        if of is None:
            of = shared[id(trial.scenario)] = Shared(trial.scenario, piece.spec, plan=None)
        runs.append(partial(run_simulated, trial.scenario, piece.spec, trial.seed, plan=trial.plan, shared=of))
    try:
        outcomes = run_in_turn(runs, watched=piece.watched)
    except LockrefError as error:
        # Not raised in the parent: what was found before stands.
        return TriedPiece(piece=piece, error=error)
    return _judged(piece, outcomes)


def _judged(piece: Piece, outcomes: Sequence[RunOutcome]) -> TriedPiece:
    numbers = [trial.number for trial in piece.trials]
    events = to_table([outcome.recorder for outcome in outcomes], numbers)
    runs = runs_table({**outcome.run_row, "run": number} for number, outcome in zip(numbers, outcomes, strict=True))
    judgement = judge(events, runs)
    summary = Summary.of_runs(
        judgement,
        runs,
        event_count=len(events),
        fault_kinds={number: _struck(outcome) for number, outcome in zip(numbers, outcomes, strict=True)},
        not_demanded=piece.not_demanded,
    )
    reach = reach_by_run(judgement.reach) if piece.wants_features else {}
    broken = broken_runs(judgement.verdicts, piece.not_demanded)
    tried = tuple(
        Tried(
            number=number,
            trace=trace_class(outcome.recorder),
            mattered=frozenset(fault for fault, (_, _, mattered) in outcome.fault_counts.items() if mattered),
            is_broken=number in broken,
            places=tuple(places_of(outcome.recorder)) if piece.wants_places else (),
            features=features_of(outcome.recorder, reach.get(number, ())) if piece.wants_features else frozenset(),
            request_timeout_ns=outcome.run_row["request_timeout_ns"] or 0,
        )
        for number, outcome in zip(numbers, outcomes, strict=True)
    )
    speaking = {finding.run for finding in summary.findings}
    kept = only_runs((events, runs), speaking) if speaking else None
    return TriedPiece(piece=piece, tried=tried, summary=summary, kept=kept)


def _struck(outcome: RunOutcome) -> tuple[str, ...]:
    """The kinds of the faults that changed something, sorted: one that changed nothing explains no failure."""
    counts = outcome.fault_counts
    return tuple(sorted({fault.kind for fault in outcome.plan.faults if counts.get(fault.id, (0, 0, 0))[2]}))
