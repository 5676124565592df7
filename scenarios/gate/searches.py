"""Searches of a gate, beside the seeds of its scenarios: for what no seed is likely to draw.

A lock that is careless only after a bad answer is right in nearly every run: a first fault must bring it there, and a
second one must strike the right request of the same client. So in a small world each way of going wrong is placed once
at each operation, and after it what makes a later request take effect under a successor (`scenarios.search.placing`).

A lock whose threads meet between two of its lines is wrong in few orders of their steps. So in a world of two threads
some schedules are drawn in which a thread may lose the processor at each line.

The number of runs is fixed, as that of events in `spending`: no clock decides what is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from lockref.lab.loading import ProviderSpec
from reports.checks.spec import CLAUSES, SAFETY
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.gate.demands import Ability, not_demanded_of
from scenarios.search.explored import Explored, explore_seeds
from scenarios.search.placing import search_placements
from scenarios.search.result import SearchResult
from scenarios.search.schedules import Exploration
from sim.explore.policies import parse_policy

PLACED: Final = "small-world"
DRAWN: Final = "two-threads"
"""The worlds of the searches, which are parts of a gate as scenarios are."""

PLACED_RUNS: Final = 600
DRAWN_SEEDS: Final = range(1, 25)
"""Both together take about a fifteenth of the processor time of a default gate."""

SEED: Final = 1
"""The seed of the world in which faults are placed."""

SCHEDULES: Final = Exploration.by(parse_policy("pos"), preempt="statements")

Searched = SearchResult | Explored


@cache
def searched_worlds() -> dict[str, Scenario]:
    """The worlds, by name."""
    return {name: load_scenario(name) for name in (PLACED, DRAWN)}


def search(
    world: Scenario,
    spec: ProviderSpec,
    has: Iterable[Ability],
    *,
    is_over: Callable[[], bool],
    on_progress: Callable[[Searched], None],
) -> Searched:
    """Search one of the worlds, and judge by what a lock with these abilities can keep.

    In this process: what a second one would save, its start would cost. is_over: asked between pieces of work.
    """
    able = frozenset(has)
    not_demanded = not_demanded_of(world, spec.stands_on, able)
    if world.name == DRAWN:
        # Each step may come a window late: how long somebody waits there says nothing of the lock.
        not_demanded |= set(CLAUSES).difference(SAFETY)
        return explore_seeds(
            world, spec, DRAWN_SEEDS, SCHEDULES, not_demanded=not_demanded, is_over=is_over, on_progress=on_progress
        )
    if Ability.TOKENS not in able:
        # Some faults strike between the guard's yes and the write: there only a token helps.
        not_demanded |= {"S4"}
    return search_placements(
        world,
        spec,
        [SEED],
        is_spread=True,
        trials_max=PLACED_RUNS,
        not_demanded=not_demanded,
        is_over=is_over,
        on_progress=lambda result, _new: on_progress(result),
    )
