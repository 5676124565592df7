"""`lockref sim --explore faults`: a fault at each place where it may strike, then a second one after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockref.cli.jobs.search.ending import account_of_search, end_search, tell_new
from lockref.cli.jobs.shown.console import printable
from lockref.cli.jobs.shown.results import begin_run
from lockref.errors import ConfigError
from lockref.host_processes import cores
from lockref.runtime import NS_PER_S
from lockref.words import counted
from scenarios import interrupts
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import require_applicable
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.runs import provenance
from scenarios.search.placing import PLACED_MAX, search_placements
from scenarios.search.schedules import Exploration

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.checks.summary import Finding
    from reports.formats.results import Results
    from scenarios.search.placing import FaultPlacing
    from scenarios.search.result import SearchResult
    from sim.kernel.exploring import Preempt

SEEDS = range(1, 2)
"""One seed: where a fault strikes decides more than what the seed draws."""


def place_faults(
    console: Console,
    scenarios: Sequence[str],
    *,
    provider: str,
    placing: FaultPlacing,
    window_ns: int | None,
    preempt: Preempt | None,
    schedules_max: int | None,
    seeds: range | None,
    processes: int | None,
    max_time_ns: int | None,
    demands: tuple[str, ...],
    shrink_for: int,
    allowed: Sequence[int],
) -> int:
    """Search each scenario, store and tell what broke. Returns the exit code.

    scenarios: files, or names of the catalogue. placing: what was asked for. window_ns, preempt, schedules_max: of the
    schedules, where they are searched, too. seeds: default the scenario's pinned one, else 1. The others: as of
    `simulate`.
    Errors: ConfigError for a scenario or a lock that does not load; KeyboardInterrupt after Ctrl-C, when what was tried
    is stored.
    """
    if not scenarios:
        raise ConfigError("name a scenario: faults are placed among the requests of one world at a time")
    fleet = load_fleet(provider)
    fleet.require_virtual_time()
    spec = fleet.spec
    loaded = {name: fleet.on(load_scenario(name).demanding(demands)) for name in scenarios}
    require_applicable(loaded, spec)
    exploration = None
    if placing.policy is not None:
        exploration = Exploration.by(placing.policy, window_ns=window_ns, preempt=preempt, schedules_max=schedules_max)
    about = _about(scenarios, provider, placing, exploration)
    is_over = interrupts.time_limit(None if max_time_ns is None else max_time_ns / NS_PER_S)
    budget, groups = ShrinkBudget(shrink_for), FailureGroups()
    results: list[Results] = []
    searches: list[SearchResult] = []

    # Under several schedules a placement has several histories.
    unit = "placement" if exploration is None else "run"

    def tell(result: SearchResult, new: Sequence[Finding]) -> None:
        tell_new(console, result, new)
        console.progress(
            f"{printable(result.scenario)}: {counted(result.summary.runs, unit)} judged, {len(result.traces):,} traces"
        )

    with begin_run("sim", about) as folder:
        for scenario in loaded.values():
            part = folder if len(loaded) == 1 else folder.part(scenario.name)
            result = search_placements(
                scenario,
                spec,
                scenario.seeds(seeds, SEEDS),
                faults_max=placing.faults_max or PLACED_MAX,
                goes_on=placing.faults_max is not None,
                exploration=exploration,
                of_requests=placing.of_requests,
                processes=processes or cores(),
                is_over=is_over,
                on_progress=tell,
            )
            searches.append(result)
            if result.error is None or result.summary.runs:
                results.append(
                    account_of_search(
                        console, result, spec, part, about=about, allowed=allowed, budget=budget, groups=groups
                    )
                )
            if result.is_interrupted or interrupts.was_heard():
                break
        return end_search(console, folder, results, searches, allowed=allowed)


def _about(
    scenarios: Sequence[str], provider: str, placing: FaultPlacing, exploration: Exploration | None
) -> dict[str, object]:
    """The provenance of the command. exploration: of the schedules; None where they are not searched."""
    asked: dict[str, object] = {"scenarios": list(scenarios), "provider": provider, "explore": str(placing)}
    if exploration is not None:
        ties = exploration.ties
        asked |= {"window_ns": ties.window_ns, "preempt": ties.preempt, "schedules_max": exploration.schedules_max}
    return provenance(asked)
