"""Fuzzing: trials that showed something new are kept and changed, as long as time is left.

Generations have a fixed size, and what one generation has shown decides the next one. A generation draws from a stream
of its own, named after its number. So a fuzzing of so many runs does the same on one core and on many, and one that was
interrupted goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.checks.summary import Finding
from scenarios.definition.draw import Draws, draw_scenario
from scenarios.definition.fault_plan import written_faults
from scenarios.definition.schema import Scenario
from scenarios.executor import executor_for
from scenarios.search.corpus import Corpus, CorpusFolder, Entry
from scenarios.search.mutations import changed
from scenarios.search.result import SearchResult, begun
from scenarios.search.trials import TRIALS_PER_PIECE, Piece, Trial, run_piece
from sim.faults.plan import FaultPlan
from sim.kernel.streams import Stream, stream

GENERATION: Final = 2 * TRIALS_PER_PIECE
"""Trials of one generation. It does not depend on the number of processes."""

YOUNGEST: Final = 0.5
"""The share of changes that start from one of the entries that were changed least."""

OnFuzzed = Callable[[SearchResult, Sequence[Finding], Corpus], None]
"""Called after each piece, with the failures that it was the first to show."""


def fuzz(
    scenario: Scenario,
    spec: ProviderSpec,
    *,
    seed: int = 1,
    runs_max: int | None = None,
    processes: int = 1,
    folder: Path | None = None,
    is_resumed: bool = False,
    not_demanded: frozenset[str] = frozenset(),
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnFuzzed = lambda _result, _new, _corpus: None,
) -> SearchResult:
    """Fuzz one lock in the world of one scenario.

    runs_max: so many runs, whole generations; None for no bound. folder: where the corpus is kept; None for nowhere.
    is_resumed: go on with the corpus of the folder. is_over: asked after each piece of work; True ends the fuzzing.
    A Ctrl-C ends it, and what was tried stands (`is_interrupted`). Errors: ConfigError for a folder that holds another
    corpus; a lock that raises what is no LockError ends the fuzzing with `error` set.
    """
    base = scenario if scenario.swarm is None else scenario.model_copy(update={"swarm": None})
    asked: dict[str, Any] = {"scenario": base.model_dump(mode="json", by_alias=True), "lock": spec.name, "seed": seed}
    kept = None if folder is None else CorpusFolder(folder, asked)
    result = begun(scenario.name, spec.name, how="fuzzed", not_demanded=not_demanded)
    fuzzing = _Fuzzing(base, spec, seed, result=result, folder=kept, processes=processes)
    if kept is not None and is_resumed:
        fuzzing.resume()
    elif kept is not None:
        kept.begin()
    try:
        fuzzing.run(runs_max, is_over, on_progress)
    except KeyboardInterrupt:
        result.is_interrupted = True
    fuzzing.conclude()
    return result


class _Fuzzing:
    """One fuzzing under way. runs: of it and of those that it goes on with."""

    def __init__(
        self,
        scenario: Scenario,
        spec: ProviderSpec,
        seed: int,
        *,
        result: SearchResult,
        folder: CorpusFolder | None,
        processes: int,
    ) -> None:
        self._scenario = scenario
        self._spec = spec
        self._seed = seed
        self._result = result
        self._folder = folder
        self._processes = processes
        self._corpus = Corpus()
        self._generation = 0
        self._runs = 0
        self._resumed = 0

    def resume(self) -> None:
        """Take over what the folder holds."""
        assert self._folder is not None, "only what is kept can be resumed"
        self._corpus, state = self._folder.load()
        self._generation, self._runs, self._resumed = state.generation, state.runs, state.runs

    def run(self, runs_max: int | None, is_over: Callable[[], bool], tell: OnFuzzed) -> None:
        """Generation after generation. Each piece is absorbed as it comes, in the order of its trials."""
        while runs_max is None or self._runs < runs_max:
            count = GENERATION if runs_max is None else min(GENERATION, runs_max - self._runs)
            trials = self._next(count)
            pieces = [
                self._piece(trials[start : start + TRIALS_PER_PIECE]) for start in range(0, count, TRIALS_PER_PIECE)
            ]
            with closing(executor_for(self._processes, len(pieces)).map(run_piece, pieces)) as answers:
                for answer in answers:
                    new = self._result.absorb(answer)
                    if answer.error is not None:
                        return
                    by_number = {trial.number: trial for trial in answer.piece.trials}
                    for tried in answer.tried:
                        # What breaks is not changed further: its like would only break again.
                        if tried.is_broken:
                            continue
                        entry = self._corpus.offer(
                            by_number[tried.number],
                            tried.features,
                            places=tried.places,
                            patience_ns=tried.request_timeout_ns,
                        )
                        if entry is not None and self._folder is not None:
                            self._folder.keep(entry)
                    tell(self._result, new, self._corpus)
            self._runs += count
            self._generation += 1
            if self._folder is not None:
                self._folder.note(self._corpus, generation=self._generation, runs=self._runs)
            if is_over():
                return

    def conclude(self) -> None:
        """Write down what the fuzzing came to."""
        corpus, result = self._corpus, self._result
        result.counts = {
            "runs": self._runs,
            "resumed": self._resumed,
            "corpus": len(corpus.entries),
            "features": len(corpus.features),
            "traces": len(result.traces),
        }
        before = f", {self._resumed:,} of them before" if self._resumed else ""
        result.notes.append(
            f"fuzzed: {counted(self._runs, 'run')}{before}; {counted(len(corpus.entries), 'trial')} showed something "
            f"new, {counted(len(corpus.features), 'feature')} in all"
        )

    def _piece(self, trials: Sequence[Trial]) -> Piece:
        return Piece(
            spec=self._spec,
            trials=tuple(trials),
            not_demanded=self._result.summary.not_demanded,
            wants_features=True,
            wants_places=True,
            watched=1 if trials[0].number == 0 else 0,
        )

    def _next(self, count: int) -> list[Trial]:
        """The trials of the next generation."""
        rng = stream(self._seed, f"fuzz/{self._generation}")
        return list(self._drawn(rng, count))

    def _drawn(self, rng: Stream, count: int) -> Iterator[Trial]:
        others = [entry.trial for entry in self._corpus.entries]
        for number in range(self._runs, self._runs + count):
            if number == 0:
                yield self._plain(0)
            elif not others:
                yield changed(self._plain(number), (), rng, number=number)
            else:
                entry = self._chosen(rng)
                entry.chosen += 1
                yield changed(
                    entry.trial, others, rng, number=number, places=entry.places, patience_ns=entry.patience_ns
                )

    def _chosen(self, rng: Stream) -> Entry:
        """The entry to change: any, or one of those that were changed least, which are mostly the youngest."""
        entries = self._corpus.entries
        if rng.random() < YOUNGEST:
            least = min(entry.chosen for entry in entries)
            entries = [entry for entry in entries if entry.chosen == least]
        return rng.choice(entries)

    def _plain(self, number: int) -> Trial:
        """The scenario as it is, with its own faults."""
        seed = self._seed
        heal_ns = draw_scenario(self._scenario, seed).heal_at_ns
        plan = FaultPlan.of(*written_faults(self._scenario, Draws(seed)), heal_ns=heal_ns)
        return Trial(number=number, scenario=self._scenario, seed=seed, plan=plan)
