"""Runs with explicit plans, judged by the chunk: what a search asks for, and what it hears of each run.

A trial is numbered within its search, and its number is the run number of its history: many trials have one seed. Where
schedules are explored besides, a trial is all schedules of its plan, and each of its distinct histories has a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from scenarios.search.schedules import Exploration, search_schedules
from scenarios.search.traces import features_of, reach_by_run, trace_class
from scenarios.worlds.judged_result import History, broken_runs, only_runs
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.explore.exhaustive import Tally
from sim.explore.shrink import Deviations
from sim.faults.plan import FaultPlan
from sim.kernel.exploring import Ties

TRIALS_PER_PIECE: Final = 40
"""Trials per piece of work, which are judged in one call."""

EXPLORED_PER_PIECE: Final = 2
"""The same, where each trial is all its schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a search. number: of the run within its search. scenario: what is run, less its own plan.

    deviations, ties: of the schedule, where one was explored.
    """

    number: int
    scenario: Scenario
    seed: int
    plan: FaultPlan
    deviations: Deviations = ()
    ties: Ties | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial, run and judged; where schedules were explored, all runs of it together.

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

    not_demanded: clauses whose breach is no finding. watched: run the first trial under the strict auditor; not where
    schedules are explored. exploration: search all schedules of each trial; None for first-in, first-out.
    """

    spec: ProviderSpec
    trials: tuple[Trial, ...]
    not_demanded: frozenset[str] = frozenset()
    wants_places: bool = False
    wants_features: bool = False
    watched: int = 0
    exploration: Exploration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPiece:
    """The answer of a worker: each trial in its order, the summary of all, and the histories of those that failed.

    runs: by its number, each run that speaks for a failure. tally: of the schedules that were explored.
    error: in the place of all that, what ended the piece.
    """

    piece: Piece
    tried: tuple[Tried, ...] = ()
    summary: Summary | None = None
    kept: History | None = None
    runs: dict[int, Trial] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    error: LockrefError | None = None


def cut_into_pieces(
    trials: Iterator[Trial], make: Callable[[tuple[Trial, ...]], Piece], *, size: int = TRIALS_PER_PIECE
) -> Iterator[Piece]:
    """The pieces of a row of trials, taken as they are asked for. size: trials of one."""
    chunk: list[Trial] = []
    for trial in trials:
        chunk.append(trial)
        if len(chunk) == size:
            yield make(tuple(chunk))
            chunk.clear()
    if chunk:
        yield make(tuple(chunk))


def run_piece(piece: Piece) -> TriedPiece:
    """Run the trials of a piece and judge them in one call. What a worker runs."""
    try:
        if piece.exploration is not None:
            return _explored(piece, piece.exploration)
        outcomes = run_in_turn(_runs_of(piece), watched=piece.watched)
    except LockrefError as error:
        # Not raised in the parent: what was found before stands.
        return TriedPiece(piece=piece, error=error)
    return _judged(piece, [[(trial, outcome)] for trial, outcome in zip(piece.trials, outcomes, strict=True)])


def _runs_of(piece: Piece) -> list[Callable[[], RunOutcome]]:
    shared: dict[int, Shared] = {}
    runs: list[Callable[[], RunOutcome]] = []
    for trial in piece.trials:
        # One variant of the scenario is one object within a piece, also after its way to a worker.
        of = shared.get(id(trial.scenario))
        if of is None:
            of = shared[id(trial.scenario)] = Shared(trial.scenario, piece.spec, plan=None)
        runs.append(partial(run_simulated, trial.scenario, piece.spec, trial.seed, plan=trial.plan, shared=of))
    return runs


Ran = Sequence[tuple[Trial, RunOutcome]]
"""The runs of one trial: one, or each distinct history of its schedules."""


def _explored(piece: Piece, exploration: Exploration) -> TriedPiece:
    """Search all schedules of each trial. A history is judged once: it is all that a judge sees."""
    rows: list[Ran] = []
    tally = Tally()
    for trial in piece.trials:
        ran: list[tuple[Trial, RunOutcome]] = []
        met: set[str] = set()
        search = search_schedules(trial.scenario, piece.spec, trial.seed, exploration, plan=trial.plan)
        for order, outcome in enumerate(search):
            if outcome.digest not in met:
                met.add(outcome.digest)
                number = trial.number * exploration.schedules_max + order
                of = replace(trial, number=number, deviations=outcome.deviations, ties=exploration.ties)
                ran.append((of, outcome))
        rows.append(ran)
        tally = tally + search.tally
    return replace(_judged(piece, rows), tally=tally)


def _judged(piece: Piece, rows: Sequence[Ran]) -> TriedPiece:
    """The answer of a piece. rows: what ran of each of its trials."""
    flat = [each for ran in rows for each in ran]
    numbers = [trial.number for trial, _ in flat]
    events = to_table([outcome.recorder for _, outcome in flat], numbers)
    runs = runs_table({**outcome.run_row, "run": trial.number} for trial, outcome in flat)
    judgement = judge(events, runs)
    summary = Summary.of_runs(
        judgement,
        runs,
        event_count=len(events),
        fault_kinds={trial.number: _struck(outcome) for trial, outcome in flat},
        not_demanded=piece.not_demanded,
    )
    reach = reach_by_run(judgement.reach) if piece.wants_features else {}
    broken = broken_runs(judgement.verdicts, piece.not_demanded)
    tried = tuple(_together(piece, trial, ran, reach, broken) for trial, ran in zip(piece.trials, rows, strict=True))
    speaking = {finding.run for finding in summary.findings}
    kept = only_runs((events, runs), speaking) if speaking else None
    speakers = {trial.number: trial for trial, _ in flat if trial.number in speaking}
    return TriedPiece(piece=piece, tried=tried, summary=summary, kept=kept, runs=speakers)


def _together(
    piece: Piece, trial: Trial, ran: Ran, reach: dict[int, list[tuple[str, int]]], broken: frozenset[int]
) -> Tried:
    """The answer of all runs of one trial, together."""
    places: dict[tuple[str, str, int], RequestPlace] = {}
    features: frozenset[str] = frozenset()
    for of, outcome in ran:
        if piece.wants_features:
            features |= features_of(outcome.recorder, reach.get(of.number, ()))
        for place in places_of(outcome.recorder) if piece.wants_places else ():
            known = places.get(place.request)
            if known is None or place.at_ns < known.at_ns:
                places[place.request] = place
    return Tried(
        number=trial.number,
        trace=_trace_of([outcome for _, outcome in ran]),
        mattered=frozenset(
            fault for _, outcome in ran for fault, (_, _, mattered) in outcome.fault_counts.items() if mattered
        ),
        is_broken=any(of.number in broken for of, _ in ran),
        places=tuple(places.values()),
        features=features,
        request_timeout_ns=max((outcome.run_row["request_timeout_ns"] or 0 for _, outcome in ran), default=0),
    )


def _trace_of(outcomes: Sequence[RunOutcome]) -> str:
    """One hash of the traces of these runs, in whichever order they were met."""
    traces = sorted({trace_class(outcome.recorder) for outcome in outcomes})
    return traces[0] if len(traces) == 1 else hashlib.blake2b("/".join(traces).encode(), digest_size=16).hexdigest()


def _struck(outcome: RunOutcome) -> tuple[str, ...]:
    """The kinds of the faults that changed something, sorted: one that changed nothing explains no failure."""
    counts = outcome.fault_counts
    return tuple(sorted({fault.kind for fault in outcome.plan.faults if counts.get(fault.id, (0, 0, 0))[2]}))
