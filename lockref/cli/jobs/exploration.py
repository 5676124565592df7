"""The schedules of scenarios, explored: random ones for many seeds, or all of a seed's that can make a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.results import begin_run, conclude, say_error, say_results, write_account
from lockref.errors import ConfigError, LockrefError
from lockref.host_processes import cores
from lockref.runtime import NS_PER_S
from lockref.words import counted
from scenarios import interrupts
from scenarios.campaign import default_processes
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import require_applicable
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.runs import provenance
from scenarios.search.explored import Explored, explore_seeds
from scenarios.search.schedules import Exploration

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder
    from sim.explore.policies import Policy
    from sim.kernel.exploring import Preempt

DRAWN_SEEDS: Final = range(1, 201)
SEARCHED_SEEDS: Final = range(1, 2)
"""Seeds where neither the command nor the scenario names any: a search runs a seed thousands of times."""


def explore(
    console: Console,
    scenarios: Sequence[str],
    *,
    policy: Policy,
    window_ns: int | None,
    preempt: Preempt | None,
    schedules_max: int | None,
    provider: str,
    seeds: range | None,
    processes: int | None,
    max_time_ns: int | None,
    keep_runs: int,
    demands: tuple[str, ...],
    shrink_for: int,
    allowed: Sequence[int],
) -> int:
    """Explore each scenario's schedules under one lock, judge them, and store the results. Returns the exit code.

    window_ns, preempt, schedules_max: None for what fits the policy. The other arguments: as `simulate`.
    Errors: as `simulate`; ConfigError for a policy that finds nothing to search.
    """
    exploration = Exploration.by(policy, window_ns=window_ns, preempt=preempt, schedules_max=schedules_max)
    if not scenarios:
        raise ConfigError("name a scenario; `lockref scenario list` shows the catalogue")
    fleet = load_fleet(provider)
    fleet.require_virtual_time()
    spec = fleet.spec
    loaded = {name: fleet.on(load_scenario(name).demanding(demands)) for name in scenarios}
    require_applicable(loaded, spec)
    about = provenance(
        {
            "scenarios": list(loaded),
            "provider": provider,
            "seeds": "" if seeds is None else f"{seeds.start}..{seeds.stop - 1}",
            "explore": str(policy),
            "window_ns": exploration.ties.window_ns,
            "preempt": exploration.ties.preempt,
            "schedules_max": exploration.schedules_max,
            "keep": keep_runs,
            "demands": list(demands),
        }
    )
    accounts = _Accounts(console, spec, exploration, about=about, allowed=allowed, shrink_for=shrink_for)
    is_over = interrupts.time_limit(None if max_time_ns is None else max_time_ns / NS_PER_S)
    with begin_run("sim", about) as folder:
        for name, scenario in loaded.items():
            numbers = scenario.seeds(seeds, SEARCHED_SEEDS if policy.is_systematic else DRAWN_SEEDS)
            at_once = min(cores(), len(numbers)) if policy.is_systematic else default_processes(len(numbers))
            result = explore_seeds(
                scenario,
                spec,
                numbers,
                exploration,
                processes=processes or at_once,
                keep_runs=keep_runs,
                is_over=is_over,
                on_progress=lambda result: _progress(console, result),
            )
            results = accounts.take(scenario, result, name, folder if len(loaded) == 1 else folder.part(scenario.name))
            if results is not None and (result.is_interrupted or interrupts.was_heard()):
                folder.describe(verdict=results.whole)
                raise KeyboardInterrupt
        return accounts.conclude(folder)


class _Accounts:
    """The account of each scenario of one command, and the errors that ended some early."""

    def __init__(
        self,
        console: Console,
        spec: ProviderSpec,
        exploration: Exploration,
        *,
        about: Mapping[str, object],
        allowed: Sequence[int],
        shrink_for: int,
    ) -> None:
        self._console = console
        self._spec = spec
        self._exploration = exploration
        self._about = about
        self._allowed = allowed
        self._groups = FailureGroups()
        self._budget = ShrinkBudget(shrink_for)
        self._results: list[Results] = []
        self._errors: dict[str, LockrefError] = {}

    def take(self, scenario: Scenario, result: Explored, source: str, part: RunFolder) -> Results | None:
        """Say and keep what came of a scenario; None where an error left nothing. source: as the user named it."""
        if result.error is not None:
            self._errors[scenario.name] = result.error
            if not result.summary.runs:
                return None
            say_error(self._console, scenario.name, result.error)
        store = FailureStore(
            scenario,
            self._spec,
            source=source,
            is_in_a_hurry=result.is_interrupted or interrupts.was_heard(),
            budget=self._budget,
            groups=self._groups,
            on_progress=self._console.progress,
            again=result.again,
            options=f" {self._exploration.options}",
        )
        results = write_account(result, part, about=self._about, allowed=self._allowed, failures=store)
        say_results(self._console, results)
        self._results.append(results)
        return results

    def conclude(self, folder: RunFolder) -> int:
        """End the command; its exit code."""
        for line in self._groups.lines():
            self._console.say(line)
        return conclude(
            self._console,
            folder,
            self._results,
            allowed=self._allowed,
            failed=next(iter(self._errors.values()), None),
            errors={name: str(error) for name, error in self._errors.items()},
        )


def _progress(console: Console, result: Explored) -> None:
    console.progress(
        f"{result.scenario}: {counted(result.tally.schedules, 'schedule')}, {result.searched:,} of "
        f"{counted(result.seeds, 'seed')}, {counted(len(result.summary.findings), 'distinct failure')}"
    )
