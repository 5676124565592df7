"""The failures that a search has found, stored like those of a campaign: shrunk, with an id that replays them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from lockref.lab.loading import ProviderSpec
from reports.checks.summary import Finding
from scenarios.definition.schema import Scenario
from scenarios.failures.failure_store import FailureRecord, FailureStore
from scenarios.failures.groups import FailureGroups
from scenarios.failures.judged_run import JudgedRun
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.failures.stored_failures import FAILURES
from scenarios.search.trials import Trial
from scenarios.worlds.simulated import run_simulated
from sim.kernel.schedules import Replay


class FailingTrials:
    """Stores failures of which the trial is known, and not a seed alone. A variant of a scenario has its own store."""

    def __init__(
        self,
        trials: Mapping[int, Trial],
        spec: ProviderSpec,
        *,
        folder: Path = FAILURES,
        is_in_a_hurry: bool = False,
        budget: ShrinkBudget | None = None,
        groups: FailureGroups | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """trials: by number, those that speak for a failure. The others: as of `FailureStore`."""
        self._trials = trials
        self._spec = spec
        self._folder = folder
        self._is_in_a_hurry = is_in_a_hurry
        self._budget = ShrinkBudget() if budget is None else budget
        self._groups = FailureGroups() if groups is None else groups
        self._on_progress = on_progress
        self._stores: list[tuple[Scenario, FailureStore]] = []

    @property
    def is_short_of_time(self) -> bool:
        """Has a failure been left as it was found, or larger than it need be, for want of time?"""
        return any(store.is_short_of_time for _, store in self._stores)

    def store(self, finding: Finding) -> FailureRecord:
        """Keep what a trial found. A failure that does not come again is named, with a note in place of a replay."""
        trial = self._trials[finding.run]
        schedule = None if trial.ties is None else Replay(trial.deviations)
        outcome = run_simulated(
            trial.scenario, self._spec, trial.seed, plan=trial.plan, schedule=schedule, ties=trial.ties
        )
        broken = JudgedRun(outcome).instants
        if finding.clause not in broken:
            why = "the plan does not give it again: the lock keeps state between runs, or is not deterministic"
            return FailureRecord(
                id=f"{finding.clause}-{finding.run}",
                seed=trial.seed,
                replay="",
                notes=(("no replay", why),),
                needs=finding.fault_kinds,
                broken={finding.clause: finding.at_ns},
            )
        # From here on the run is known by its seed, as every stored one is.
        return replace(self._store_of(trial.scenario).keep(replace(finding, run=trial.seed), outcome), broken=broken)

    def _store_of(self, scenario: Scenario) -> FailureStore:
        for known, store in self._stores:
            if known == scenario:
                return store
        store = FailureStore(
            scenario,
            self._spec,
            folder=self._folder,
            is_in_a_hurry=self._is_in_a_hurry,
            budget=self._budget,
            groups=self._groups,
            on_progress=self._on_progress,
        )
        self._stores.append((scenario, store))
        return store
