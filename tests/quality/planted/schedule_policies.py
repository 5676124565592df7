"""Which policy finds a planted bug first: `python -m tests.quality.planted.schedule_policies [SEEDS] [PART]`.

Each bug (whose name contains PART) runs in its own scenario under each policy, seed after seed, until a clause of its
own breaks: the first seed that shows it and the processor time until then, simulating and judging. After SEEDS seeds
(40 by default) the bug has escaped. A systematic policy searches fewer seeds, but many schedules of each. `plain` is
`lockref sim` without an exploration. Prints Markdown.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator

from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_MS
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.failures.judged_run import broken_clauses
from scenarios.search.schedules import Exploration, run_under, search_schedules
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.explore.policies import parse_policy
from sim.kernel.exploring import Preempt, Ties
from tests.quality.planted.registry import BUGS, Bug
from tests.quality.planted.scheduled_bugs import SCHEDULED

SEEDS = 40
SEARCHED_SEEDS = 2
SCHEDULES_MAX = 400
"""A systematic policy searches fewer seeds, each by so many runs at most."""

EXPLORATIONS: tuple[tuple[str, int, Preempt], ...] = (
    ("random", 1, "calls"),
    ("pct:3", 1, "calls"),
    ("pos", 1, "calls"),
    ("random", 10, "calls"),
    ("pct:3", 10, "calls"),
    ("pos", 10, "calls"),
    ("random", 50, "calls"),
    ("pct:3", 50, "calls"),
    ("pos", 50, "calls"),
    ("random", 200, "calls"),
    ("pct:3", 200, "calls"),
    ("pos", 200, "calls"),
    ("delay:2", 1, "calls"),
    ("delay:2", 50, "calls"),
    ("exhaustive", 1, "calls"),
    ("exhaustive", 50, "calls"),
    ("pos", 50, "statements"),
)
"""Policy, window in milliseconds, and where tasks lose the processor."""


def first(bug: Bug, exploration: Exploration | None, seeds: int) -> tuple[int | None, float]:
    """The first seed that shows the bug, None if it escaped, and processor seconds."""
    scenario, spec = load_scenario(bug.scenario), bug.spec
    shared = Shared(scenario, spec, plan=None)
    began = time.process_time()
    if exploration is not None:
        exploration = exploration.counted(scenario, spec, 1)
        if exploration.policy.is_systematic:
            seeds = min(seeds, SEARCHED_SEEDS)
    for seed in range(1, seeds + 1):
        for outcome in _outcomes(scenario, spec, seed, exploration, shared):
            if broken_clauses(outcome) & set(bug.clauses.split()):
                return seed, time.process_time() - began
    return None, time.process_time() - began


def _outcomes(
    scenario: Scenario, spec: ProviderSpec, seed: int, exploration: Exploration | None, shared: Shared
) -> Iterator[RunOutcome]:
    """The runs of one seed: one, or those of its search that differ."""
    if exploration is None:
        yield run_simulated(scenario, spec, seed, shared=shared)
    elif exploration.policy.is_systematic:
        met: set[str] = set()
        for outcome in search_schedules(scenario, spec, seed, exploration, shared=shared):
            if outcome.digest not in met:
                met.add(outcome.digest)
                yield outcome
    else:
        yield run_under(scenario, spec, seed, exploration, shared=shared)


def main(arguments: list[str]) -> int:
    """Print the table, a row for each exploration."""
    seeds = next((int(text) for text in arguments if text.isdecimal()), SEEDS)
    part = next((text for text in arguments if not text.isdecimal()), "")
    bugs = [bug for bug in (*SCHEDULED, *BUGS) if part in bug.lock]
    explorations: dict[str, Exploration | None] = {"plain": None}
    for policy, window_ms, preempt in EXPLORATIONS:
        explorations[f"{policy} {window_ms} ms{', statements' if preempt == 'statements' else ''}"] = Exploration(
            policy=parse_policy(policy),
            ties=Ties(window_ns=window_ms * NS_PER_MS, preempt=preempt),
            schedules_max=SCHEDULES_MAX,
        )
    _row("policy, window", *(f"{bug.lock} `{bug.scenario}`" for bug in bugs), "found", "CPU s")
    _row(*["---"] * (3 + len(bugs)))
    for name, exploration in explorations.items():
        cells, found, spent = [], 0, 0.0
        for bug in bugs:
            seed, seconds = first(bug, exploration, seeds)
            gc.collect()
            found += seed is not None
            spent += seconds
            cells.append(f"{'-' if seed is None else seed} ({seconds:.1f})")
        _row(name, *cells, found, f"{spent:.1f}")
    return 0


def _row(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
