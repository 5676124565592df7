"""The runs of a gate: a few seeds of each scenario first, then more where they are worth most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lockref.errors import LockrefError
from lockref.lab.loading import ProviderSpec
from lockref.runtime import ThreadRuntime
from reports.checks.spec import VIOLATED
from reports.checks.verdicts import decide
from scenarios import interrupts
from scenarios.campaign import Cluster, run_campaigns
from scenarios.campaigns.orders import Order
from scenarios.campaigns.result import CampaignResult
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario
from scenarios.gate.abilities import Abilities
from scenarios.gate.demands import Demands, demands_on, not_demanded_of
from scenarios.gate.observed import with_observed
from scenarios.gate.searches import Searched, search, searched_worlds
from scenarios.gate.shares import ScenarioProgress, next_round
from scenarios.gate.spending import FIRST_SEEDS, FirstRuns, further_seeds
from scenarios.worlds.judged_result import JudgedResult

_monotonic_ns: Final = ThreadRuntime().monotonic_ns


@dataclass(slots=True, kw_only=True)
class Explored:
    """One scenario of a gate.

    demands: what it asks of this lock. misfit: why it says nothing about the lock; "" if it does.
    source: the file, if it is the user's own; what that demands has to come about. "" for one of the catalogue.
    result: its runs, judged; None where none was made, because of the misfit or of `error`.
    searched: in the place of a result, of a world that is searched and has no seeds of its own (`searches`).
    searched_ns: real time of that search.
    """

    scenario: Scenario
    demands: Demands
    misfit: str = ""
    source: str = ""
    result: CampaignResult | None = None
    searched: Searched | None = None
    searched_ns: int = 0
    error: LockrefError | None = None

    @property
    def judged(self) -> CampaignResult | Searched | None:
        """The runs, judged, in whichever way they were made; None where nothing was run."""
        return self.result if self.searched is None else self.searched

    @property
    def spent_ns(self) -> int:
        """Real time of its runs, over all processes."""
        return self.searched_ns if self.result is None else self.result.spent_ns

    @property
    def reference(self) -> str:
        """The word by which a command line names it."""
        return self.source or self.scenario.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """All scenarios, in their order, and the lock's abilities as all runs together have shown them.

    cut: why it ended before all was run that was planned; "" if it did not. is_interrupted: a Ctrl-C ended it.
    """

    explored: Sequence[Explored]
    abilities: Abilities
    cut: str = ""
    is_interrupted: bool = False


def explore(
    spec: ProviderSpec,
    abilities: Abilities,
    scenarios: Mapping[str, Scenario],
    *,
    own: Mapping[str, str] = MappingProxyType({}),
    seeds: Sequence[int] | None = None,
    processes: int = 1,
    cluster: Cluster | None = None,
    is_over: Callable[[], bool] = lambda: False,
    left_ns: Callable[[], int] | None = None,
    on_progress: Callable[[CampaignResult], None] = lambda _result: None,
    on_plan: Callable[[int], None] = lambda _seeds: None,
    on_searched: Callable[[Searched], None] = lambda _result: None,
) -> Exploration:
    """Run every scenario that says something about the lock.

    abilities: as it was asked. What it shows in any run counts everywhere, so demands are settled at the end.
    own: the files of scenarios that are the user's own, by name: all that these demand has to come about.
    seeds: of each scenario; None for as many as `spending` deals out. cluster: runs them in the place of processes.
    is_over: asked between pieces of work; True ends.
    left_ns: the real time that is left, of which all is to be used (`shares`); None to end after what was dealt out.
    on_plan: told, before each round, how many seeds it will run. on_searched: told how far a search is.
    A Ctrl-C ends the exploration, and what was run stands.
    """
    exploration = _Explorer(
        spec,
        abilities,
        scenarios,
        own=own,
        processes=processes,
        cluster=cluster,
        is_over=is_over,
        on_progress=on_progress,
        on_plan=on_plan,
        on_searched=on_searched,
    )
    exploration.run_first_seeds(seeds)
    if seeds is None:
        exploration.run_planned_seeds()
    exploration.search_worlds()
    cut = exploration.why_cut()
    if seeds is None and left_ns is not None:
        exploration.run_until_the_time_is_over(left_ns)
    return exploration.concluded(cut)


class _Explorer:
    """The runs of one gate so far: of each scenario, and the abilities of the lock as all of them show these."""

    def __init__(
        self,
        spec: ProviderSpec,
        abilities: Abilities,
        scenarios: Mapping[str, Scenario],
        *,
        own: Mapping[str, str],
        processes: int,
        cluster: Cluster | None,
        is_over: Callable[[], bool],
        on_progress: Callable[[CampaignResult], None],
        on_plan: Callable[[int], None],
        on_searched: Callable[[Searched], None],
    ) -> None:
        """The arguments are those of `explore`."""
        self._spec = spec
        self._has = abilities.has
        self._abilities = abilities
        self._processes = processes
        self._cluster = cluster
        self._is_over = is_over
        self._on_progress = on_progress
        self._on_plan = on_plan
        self._on_searched = on_searched
        self._is_interrupted = False
        self._parts = [
            Explored(
                scenario=scenario,
                demands=demands_on(scenario, self._has),
                misfit=inapplicable(scenario, spec),
                source=own.get(name, ""),
            )
            for name, scenario in scenarios.items()
        ]
        run = [part for part in self._parts if not part.misfit and part.demands.is_run]
        self._searching = [part for part in run if part.scenario.name in searched_worlds() and not part.source]
        self._running = [part for part in run if not any(part is other for other in self._searching)]

    def run_first_seeds(self, seeds: Sequence[int] | None) -> None:
        """Run each scenario over `seeds`, or over the first few where the caller names none."""
        self._run({part.scenario.name: part.scenario.seeds(seeds, range(1, FIRST_SEEDS + 1)) for part in self._running})

    def run_planned_seeds(self) -> None:
        """Run the further seeds that `spending` deals out from what the first ones have shown."""
        if self._must_end():
            return
        more = further_seeds({part.scenario.name: _first_runs(part) for part in self._running if _may_go_on(part)})
        self._run({name: range(FIRST_SEEDS + 1, FIRST_SEEDS + 1 + number) for name, number in more.items()})

    def search_worlds(self) -> None:
        """Search the small worlds that are parts of this gate."""
        for part in self._searching:
            if self._must_end():
                return
            began_ns = _monotonic_ns()
            result = search(part.scenario, self._spec, self._has, is_over=self._is_over, on_progress=self._on_searched)
            part.searched_ns = _monotonic_ns() - began_ns
            part.error = result.error
            if result.summary.runs:
                part.searched = result
            self._is_interrupted = result.is_interrupted or interrupts.was_heard()

    def run_until_the_time_is_over(self, left_ns: Callable[[], int]) -> None:
        """Run further seeds in rounds (`shares`), until too little time is left for one. left_ns: see `explore`."""
        while not self._must_end():
            going_on = [part for part in self._running if _may_go_on(part)]
            planned = next_round([_progress_of(part) for part in going_on], self._at_once() * left_ns())
            if not planned:
                return
            self._run({name: range(done + 1, done + 1 + number) for name, (done, number) in planned.items()})

    def _at_once(self) -> int:
        return self._processes if self._cluster is None else self._cluster.slots()

    def why_cut(self) -> str:
        """Why the exploration ended before all was run that was planned; "" if it did not."""
        if self._is_interrupted:
            return "Ctrl-C ended the gate"
        return "the time was over before all planned seeds were run" if self._is_over() else ""

    def concluded(self, cut: str) -> Exploration:
        """The exploration, after the last run. cut: see `Exploration`."""
        _excused(self._spec, self._running, self._abilities)
        return Exploration(
            explored=self._parts, abilities=self._abilities, cut=cut, is_interrupted=self._is_interrupted
        )

    def _must_end(self) -> bool:
        return self._is_interrupted or self._is_over()

    def _run(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Run the wanted seeds, by the name of the scenario, and settle what each scenario asks after them."""
        chosen = [part for part in self._running if wanted.get(part.scenario.name) and part.error is None]
        orders = [
            Order(
                scenario=part.scenario,
                spec=self._spec,
                seeds=wanted[part.scenario.name],
                keep=0,
                not_demanded=not_demanded_of(part.scenario, self._spec.stands_on, self._has),
            )
            for part in chosen
        ]
        self._on_plan(sum(len(order.seeds) for order in orders))
        results = run_campaigns(
            orders,
            earlier=[part.result for part in chosen],
            processes=self._processes,
            cluster=self._cluster,
            is_over=self._is_over,
            on_progress=self._on_progress,
        )
        with closing(results) as finished:
            # Not strict: a Ctrl-C ends the results early, and the campaigns that are left have none.
            for part, result in zip(chosen, finished, strict=False):
                part.result, part.error = result, result.error
                if result.is_interrupted or interrupts.was_heard():
                    self._is_interrupted = True
                    break
        self._abilities = _settled(self._spec, self._running, self._abilities)


def _progress_of(part: Explored) -> ScenarioProgress:
    assert part.result is not None, "only what ran goes on"
    return ScenarioProgress(
        name=part.scenario.name,
        seeds=part.result.seeds,
        spent_ns=part.result.spent_ns,
        has_failed=bool(part.result.summary.findings),
    )


def situation_counts(result: JudgedResult) -> dict[str, int]:
    """Situation to how often it came about in the runs of a campaign."""
    return {name: count for name, (_, count) in result.summary.reach.items()}


def _may_go_on(part: Explored) -> bool:
    """True for a scenario whose seeds are not pinned, that ran, and that is about such a lock."""
    return part.scenario.seed is None and part.result is not None and not part.demands.not_applicable


def _settled(spec: ProviderSpec, parts: Sequence[Explored], abilities: Abilities) -> Abilities:
    """The abilities after these runs; each scenario then asks what such a lock can keep, and no more."""
    for part in parts:
        if part.result is not None:
            abilities = abilities.seen_later(situation_counts(part.result), where=part.scenario.name)
    for part in parts:
        part.demands = demands_on(part.scenario, abilities.has)
        if part.result is not None:
            part.result.ask(part.scenario, spec, without=part.demands.without)
    return abilities


def _excused(spec: ProviderSpec, parts: Sequence[Explored], abilities: Abilities) -> None:
    """Settle, after the last run, which situations are not asked of the lock because of what it never did."""
    for part in parts:
        if part.result is None or part.source:
            continue
        part.demands = with_observed(part.demands, part.scenario, abilities.has, part.result.summary)
        part.result.ask(part.scenario, spec, without=part.demands.without)


def _first_runs(part: Explored) -> FirstRuns:
    assert part.result is not None, "only what ran is first_runs"
    summary = part.result.summary
    verdicts = decide(summary)
    return FirstRuns(
        runs=summary.runs,
        events=summary.events // max(1, summary.runs),
        is_broken=VIOLATED in (verdicts.safety, verdicts.liveness, verdicts.fairness),
        is_open=bool(summary.unreached),
    )
