"""Many seeds of one scenario, in one process or several, with one answer.

Seeds are cut into chunks of fixed size, and results come back in the order of
the seeds whichever process finished first; so a batch's history, its digest
and its lowest failing seed do not depend on the number of processes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lockref.errors import ConfigError
from lockref.history import batch_digest, runs_table, to_table
from lockref.lab.loading import ProviderSpec
from scenarios import interrupts
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan, is_same_for_all_seeds
from scenarios.definition.schema import Scenario
from scenarios.executor import executor_for
from scenarios.search.schedules import Exploration, run_under
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.processes.cpu_watch import ticking
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.auditor import real_world_forbidden

CHUNK = 50
"""Seeds per piece of work: some tenths of a second, and a batch that is judged in one call."""


RUNS_PER_COLLECTION = 10
"""After so many runs what their locks left is collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The history of many runs; `run` is the seed."""

    outcomes: tuple[RunOutcome, ...]

    @property
    def events(self) -> pa.Table:
        return to_table([outcome.recorder for outcome in self.outcomes], [outcome.seed for outcome in self.outcomes])

    @property
    def runs(self) -> pa.Table:
        return runs_table(outcome.run_row for outcome in self.outcomes)

    @property
    def digest(self) -> str:
        return batch_digest(outcome.digest for outcome in self.outcomes)


def run_seeds(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    substrate: str = "greenlet",
    *,
    watched: int = 0,
    exploration: Exploration | None = None,
) -> list[RunOutcome]:
    """Run seeds in this process, with nothing shared between them but a plan that no seed would change.

    watched: so many of the first seeds run under the strict auditor, which no
        way of importing a clock escapes and which takes three times as long.
    exploration: each seed under the schedule that this policy draws for it; None for first-in, first-out.
    Errors: as `run_simulated`; DeterminismError if the lock reaches for real time, entropy or threads.
    """
    plan = draw_plan(scenario, draw_scenario(scenario, seeds[0]), seeds[0]) if is_same_for_all_seeds(scenario) else None
    shared = Shared(scenario, spec, plan=plan)
    if exploration is None:
        run = partial(run_simulated, scenario, spec, shared=shared, substrate=substrate)
    else:
        run = partial(run_under, scenario, spec, exploration=exploration, shared=shared, substrate=substrate)
    return run_in_turn([partial(run, seed) for seed in seeds], watched=watched)


def run_in_turn(runs: Sequence[Callable[[], RunOutcome]], *, watched: int = 0) -> list[RunOutcome]:
    """Make runs in this process, one after the other, where the lock cannot reach the real world.

    watched: as of `run_seeds`. Errors: as there; KeyboardInterrupt between two runs, if one was heard.
    """
    # Collected between runs only: a lock may leave cycles, and a finaliser
    # in the middle of a run would be one more thing that no seed decides. Often
    # enough that the next worlds get memory which the processor still has at
    # hand. What was made meanwhile is all in the youngest generation; looking
    # through the older ones would cost a fifth of the whole.
    parts = [(runs[:watched], True)] if watched else []
    parts += [
        (runs[start : start + RUNS_PER_COLLECTION], False) for start in range(watched, len(runs), RUNS_PER_COLLECTION)
    ]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        outcomes: list[RunOutcome] = []
        for part, is_strict in parts:
            # A lock that catches everything catches a Ctrl-C, too.
            interrupts.raise_if_heard()
            with ticking(), real_world_forbidden(is_strict=is_strict):
                outcomes += [run() for run in part]
            gc.collect(0)
        return outcomes
    finally:
        gc.collect(0)
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """The seeds of one chunk, as a worker gets them."""

    scenario: Scenario
    spec: ProviderSpec
    seeds: Sequence[int]
    substrate: str
    watched: int


def _run_piece(piece: _Piece) -> list[RunOutcome]:
    return run_seeds(piece.scenario, piece.spec, piece.seeds, piece.substrate, watched=piece.watched)


def simulate_in_chunks(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    chunk: int = CHUNK,
    substrate: str = "greenlet",
    watched: int = 1,
) -> Iterator[list[RunOutcome]]:
    """Run the seeds; chunks of outcomes in the order of the seeds, as soon as they are there.

    watched: so many seeds of the first chunk run under the strict auditor: what a lock always does shows in one run.
    A caller that has seen enough closes the iterator, and no further chunk is begun.
    """
    if jobs < 1 or chunk < 1:
        raise ConfigError(f"{jobs} processes and {chunk} seeds per chunk; expected at least 1 of each")
    pieces = [
        _Piece(
            scenario=scenario,
            spec=spec,
            seeds=seeds[start : start + chunk],
            substrate=substrate,
            watched=watched if start == 0 else 0,
        )
        for start in range(0, len(seeds), chunk)
    ]
    return executor_for(jobs, len(pieces)).map(_run_piece, pieces)


def simulate_many(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    substrate: str = "greenlet",
    watched: int = 1,
) -> Batch:
    """Run all seeds and keep everything. For more than ten thousand, judge each chunk of `simulate_in_chunks`.

    watched: as there.
    """
    chunks = simulate_in_chunks(scenario, spec, seeds, jobs=jobs, substrate=substrate, watched=watched)
    return Batch(outcomes=tuple(outcome for chunk in chunks for outcome in chunk))
