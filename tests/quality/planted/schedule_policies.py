"""Which policy finds a planted bug first: `python -m tests.quality.planted.schedule_policies [SEEDS] [PART]`.

Each bug (whose name contains PART) runs in its own scenario under each policy, seed after seed, until a clause of its
own breaks: the first seed that shows it and the processor time until then, simulating and judging. After SEEDS seeds
(40 by default) the bug has escaped. `plain` is `lockref sim` without an exploration. Prints Markdown.
"""

from __future__ import annotations

import gc
import sys
import time

from scenarios.definition.load import load_scenario
from scenarios.failures.judged_run import broken_clauses
from scenarios.search.schedules import Exploration, run_under
from scenarios.worlds.laboratory import Shared
from scenarios.worlds.simulated import run_simulated
from sim.explore.policies import parse_policy
from sim.kernel.exploring import Preempt, Ties
from tests.quality.planted.registry import BUGS, Bug
from tests.quality.planted.scheduled_bugs import SCHEDULED

SEEDS = 40
MS = 1_000_000
POLICIES: tuple[tuple[str, str, int, Preempt], ...] = (
    ("random", "random", MS, "calls"),
    ("pct:3", "pct:3", MS, "calls"),
    ("pos", "pos", MS, "calls"),
    ("random 50ms", "random", 50 * MS, "calls"),
    ("pos 50ms", "pos", 50 * MS, "calls"),
)
"""Name, policy, window in nanoseconds, and where tasks lose the processor."""


def first(bug: Bug, exploration: Exploration | None, seeds: int) -> tuple[int | None, float]:
    """The first seed that shows the bug, None if it escaped, and processor seconds."""
    scenario, spec = load_scenario(bug.scenario), bug.spec
    shared = Shared(scenario, spec, plan=None)
    began = time.process_time()
    if exploration is not None:
        exploration = exploration.counted(scenario, spec, 1)
    for seed in range(1, seeds + 1):
        if exploration is None:
            outcome = run_simulated(scenario, spec, seed, shared=shared)
        else:
            outcome = run_under(scenario, spec, seed, exploration, shared=shared)
        if broken_clauses(outcome) & set(bug.clauses.split()):
            return seed, time.process_time() - began
    return None, time.process_time() - began


def main(arguments: list[str]) -> int:
    """Print the table and its sums."""
    seeds = next((int(text) for text in arguments if text.isdecimal()), SEEDS)
    part = next((text for text in arguments if not text.isdecimal()), "")
    bugs = [bug for bug in (*SCHEDULED, *BUGS) if part in bug.lock]
    explorations: dict[str, Exploration | None] = {"plain": None}
    for name, policy, window_ns, preempt in POLICIES:
        explorations[name] = Exploration(policy=parse_policy(policy), ties=Ties(window_ns=window_ns, preempt=preempt))
    explorations["pos, statements"] = Exploration(
        policy=parse_policy("pos"), ties=Ties(window_ns=50 * MS, preempt="statements")
    )
    found = dict.fromkeys(explorations, 0)
    firsts = dict.fromkeys(explorations, 0)
    spent = dict.fromkeys(explorations, 0.0)
    _row("bug", "scenario", *explorations)
    _row(*["---"] * (2 + len(explorations)))
    for bug in bugs:
        cells = []
        for name, exploration in explorations.items():
            if name == "pos, statements" and bug not in SCHEDULED:
                cells.append("")
                continue
            seed, seconds = first(bug, exploration, seeds)
            gc.collect()
            found[name] += seed is not None
            firsts[name] += seed == 1
            spent[name] += seconds
            cells.append(f"{'-' if seed is None else seed} ({seconds:.2f} s)")
        _row(bug.lock, bug.scenario, *cells)
    _row(f"found, of {len(bugs)}", "", *found.values())
    _row("at the first seed", "", *firsts.values())
    _row("CPU s", "", *(f"{seconds:.0f}" for seconds in spent.values()))
    return 0


def _row(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
