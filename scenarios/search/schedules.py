"""Schedules of one simulated world: one that a policy draws, or all of them.

`Exploration` is a value that can be sent to another process. A run under it is a `RunOutcome` like any other: its
deviations from first-in, first-out and its `ties` are stored with a failure, which is replayed and shrunk from them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_MS
from scenarios import interrupts
from scenarios.definition.schema import Scenario
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.processes.cpu_watch import ticking
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.auditor import real_world_forbidden
from sim.explore.exhaustive import Search, Tally
from sim.explore.policies import PCT, CountedDecisions, Policy
from sim.faults.plan import FaultPlan
from sim.kernel.exploring import Ties

SCHEDULES_MAX: Final = 10_000
"""Runs of one seed's search, unless somebody says otherwise."""

WINDOW_NS: Final = NS_PER_MS
USUAL_TIES: Final = Ties(window_ns=WINDOW_NS)
RUNS_PER_COLLECTION: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The schedules to run.

    ties: the steps that a schedule may reorder. schedules_max: bound on the runs of one seed's search.
    decisions: about how many decisions a run has; 0 where nobody has counted them (`counted`).
    """

    policy: Policy
    ties: Ties = USUAL_TIES
    schedules_max: int = SCHEDULES_MAX
    decisions: int = 0

    def counted(self, scenario: Scenario, spec: ProviderSpec, seed: int) -> Exploration:
        """The same, with the decisions counted in one run if the policy asks for their number."""
        if self.policy.name != PCT or self.decisions:
            return self
        counting = CountedDecisions()
        run_simulated(scenario, spec, seed, schedule=counting, ties=self.ties)
        return replace(self, decisions=counting.decisions)


def run_under(
    scenario: Scenario,
    spec: ProviderSpec,
    seed: int,
    exploration: Exploration,
    *,
    plan: FaultPlan | None = None,
    shared: Shared | None = None,
    substrate: str = "greenlet",
) -> RunOutcome:
    """Run one seed under the schedule that a policy draws for it. Arguments and errors: as `run_simulated`."""
    schedule = exploration.policy.schedule(seed, decisions=exploration.decisions)
    return run_simulated(
        scenario, spec, seed, plan=plan, shared=shared, schedule=schedule, substrate=substrate, ties=exploration.ties
    )


class ScheduleSearch:
    """All schedules of one seed and plan, as a systematic policy searches them.

    Iterate for the outcomes; no two are equivalent. tally: what the search has come to so far. Whoever leaves the
    iteration early has not exhausted the search.
    """

    def __init__(
        self,
        scenario: Scenario,
        spec: ProviderSpec,
        seed: int,
        exploration: Exploration,
        *,
        plan: FaultPlan | None,
        shared: Shared | None,
    ) -> None:
        self._scenario = scenario
        self._spec = spec
        self._seed = seed
        self._exploration = exploration
        self._plan = plan
        self._shared = Shared(scenario, spec, plan=plan) if shared is None else shared
        self._search: Search = exploration.policy.search(exploration.schedules_max)

    @property
    def tally(self) -> Tally:
        return self._search.tally

    def __iter__(self) -> Iterator[RunOutcome]:
        for number, schedule in enumerate(self._search):
            interrupts.raise_if_heard()
            with ticking(), real_world_forbidden(is_strict=False):
                outcome = run_simulated(
                    self._scenario,
                    self._spec,
                    self._seed,
                    plan=self._plan,
                    shared=self._shared,
                    schedule=schedule,
                    ties=self._exploration.ties,
                )
            if number % RUNS_PER_COLLECTION == 0:
                # A lock may leave cycles, as in `scenarios.batch`.
                gc.collect(0)
            schedule.end_instant()
            if not schedule.is_pruned:
                yield outcome


def search_schedules(
    scenario: Scenario,
    spec: ProviderSpec,
    seed: int,
    exploration: Exploration,
    *,
    plan: FaultPlan | None = None,
    shared: Shared | None = None,
) -> ScheduleSearch:
    """The search over all schedules of one seed. plan: in the place of what the seed draws. shared: as `run_simulated`.

    Errors while it is iterated: as `run_simulated`; KeyboardInterrupt.
    """
    return ScheduleSearch(scenario, spec, seed, exploration, plan=plan, shared=shared)
