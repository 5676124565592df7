"""Schedules of one simulated world: one that a policy draws, or all of them.

`Exploration` is a value that can be sent to another process. A run under it is a `RunOutcome` like any other: its
deviations from first-in, first-out and its `ties` are stored with a failure, which is replayed and shrunk from them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lockref.durations import plain_duration
from lockref.errors import ConfigError
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
from sim.kernel.exploring import Preempt, Ties

SCHEDULES_MAX: Final = 10_000
"""Runs of one seed's search, unless somebody says otherwise."""

DRAWN_WINDOW_NS: Final = 50 * NS_PER_MS
SEARCHED_WINDOW_NS: Final = NS_PER_MS
"""The windows where nobody says one. A schedule that is drawn finds more in a wide one (docs/search.md has figures); a
search of all schedules comes to its end in a narrow one."""

RUNS_PER_COLLECTION: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The schedules to run.

    ties: the steps that a schedule may reorder. schedules_max: bound on the runs of one seed's search.
    decisions: about how many decisions a run has; 0 where nobody has counted them (`counted`).
    """

    policy: Policy
    ties: Ties
    schedules_max: int = SCHEDULES_MAX
    decisions: int = 0

    @classmethod
    def by(
        cls,
        policy: Policy,
        *,
        window_ns: int | None = None,
        preempt: Preempt | None = None,
        schedules_max: int | None = None,
    ) -> Exploration:
        """The exploration that a policy makes, with what fits it in the place of each None.

        Raises ConfigError for a bound on the runs of a policy that runs each seed once.
        """
        if schedules_max is not None and not policy.is_systematic:
            raise ConfigError(f"--schedules-max bounds the search of a seed; {policy} runs each seed once")
        usual_ns = SEARCHED_WINDOW_NS if policy.is_systematic else DRAWN_WINDOW_NS
        ties = Ties(
            window_ns=usual_ns if window_ns is None else window_ns,
            preempt=preempt or ("waits" if policy.is_systematic else "calls"),
        )
        return cls(policy=policy, ties=ties, schedules_max=SCHEDULES_MAX if schedules_max is None else schedules_max)

    @property
    def options(self) -> str:
        """The options of a command line that explore a seed likewise."""
        window = plain_duration(self.ties.window_ns).replace(" ", "")
        options = f"--explore {self.policy} --tie-window {window} --preempt {self.ties.preempt}"
        return f"{options} --schedules-max {self.schedules_max}" if self.policy.is_systematic else options

    @property
    def needs_count(self) -> bool:
        """The policy asks for the number of decisions, which nobody has counted."""
        return self.policy.name == PCT and not self.decisions

    def counted(self, scenario: Scenario, spec: ProviderSpec, seed: int) -> Exploration:
        """The same, with the decisions counted in one run if the policy asks for their number."""
        if not self.needs_count:
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
