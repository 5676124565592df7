"""Runs and CPU time until a planted bug is found, by how it is looked for.

    python -m tests.quality.planted.searches_compared [RUNS] [EVERY]     # 300 and 1 by default

For each bug of `pairs`, and each EVERYth bug of the registry whose lock fits the small world, five searches of at most
RUNS runs each: the seeds of the scenario that is known to expose it (somebody knew where to look), seeds of `swarm`,
one fault at each place of the small world, pairs of them (as far as `PAIRS_MAX` reaches after the singles), and fuzzing
from the small world. Any demanded clause counts. Prints Markdown: runs, and CPU seconds in parentheses; `-` where the
runs did not suffice. The last row has how many bugs each search found, and what it cost over all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from lockref.lab.loading import ProviderSpec, load_provider
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario
from scenarios.search.fuzzing import fuzz
from scenarios.search.placing import search_placements
from scenarios.search.result import SearchResult
from scenarios.search.worlds import small_world
from tests.quality.planted.registry import BUGS, HERE

PIECE = 20
PAIRS_MAX = 6_000
"""Runs of the search that goes on to pairs: the singles of the small world take 1,500 of them."""
PAIRS = ("pairs:RenewsBlindlyAfterALostGrant", "pairs:ReleasesBlindlyAfterALostRenewal")

Found = tuple[int | None, float]
"""Runs until the first failure, None if there was none; CPU seconds."""


def by_seeds(scenario: Scenario, spec: ProviderSpec, runs: int) -> int | None:
    """The first seed that breaks a demanded clause."""
    for start in range(1, runs + 1, PIECE):
        seeds = range(start, min(start + PIECE, runs + 1))
        not_demanded = scenario.not_demanded(spec.stands_on)
        result = run_campaign(scenario, spec, seeds, keep_runs=0, not_demanded=not_demanded, watched=0)
        if result.summary.findings:
            return min(finding.run for finding in result.summary.findings)
    return None


def by_search(search: Callable[..., SearchResult], spec: ProviderSpec, **more: object) -> int | None:
    """The first trial of a search that breaks a clause; the search ends with it."""
    found: list[int] = []

    def tell(result: SearchResult, *_: object) -> None:
        found.extend(finding.run for finding in result.summary.findings)

    search(small_world(), spec, is_over=lambda: bool(found), on_progress=tell, **more)
    return min(found) + 1 if found else None


def searches(spec: ProviderSpec, known: str, runs: int) -> dict[str, Callable[[], int | None]]:
    """By name, each way to look for a bug. known: the scenario that exposes it, if one is known."""
    return {
        "its scenario": lambda: by_seeds(load_scenario(known), spec, runs) if known else None,
        "swarm": lambda: by_seeds(load_scenario("swarm"), spec, runs),
        "faults:1": lambda: by_search(search_placements, spec, seeds=[1], faults_max=1, trials_max=runs),
        "faults": lambda: by_search(search_placements, spec, seeds=[1], faults_max=2, trials_max=PAIRS_MAX),
        "fuzz": lambda: by_search(fuzz, spec, runs_max=runs),
    }


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a bug escaped all searches."""
    runs, every = ([int(text) for text in arguments] + [300, 1][len(arguments) :])[:2]
    bugs = [*((lock, "") for lock in PAIRS), *((bug.lock, bug.scenario) for bug in BUGS[::every])]
    found: dict[str, list[Found]] = {}
    escaped = 0
    for number, (lock, known) in enumerate(bugs):
        spec = load_provider(f"{HERE}.{lock}")
        if inapplicable(small_world(), spec) or inapplicable(load_scenario("swarm"), spec):
            continue
        cells = []
        for name, search in searches(spec, known, runs).items():
            if name == "faults" and found["faults:1"][-1][0] is not None:
                # Pairs follow singles: what a single one shows costs the same.
                result = found["faults:1"][-1]
            else:
                began = time.process_time()
                result = (search(), time.process_time() - began)
            found.setdefault(name, []).append(result)
            cells.append("-" if result[0] is None else f"{result[0]:,} ({result[1]:.1f})")
        if number == 0:
            _row("bug", *found)
            _row(*["---"] * (len(found) + 1))
        _row(lock, *cells)
        escaped += all(cell == "-" for cell in cells)
    totals = (
        f"{sum(each is not None for each, _ in results)} of {len(results)} ({sum(cpu for _, cpu in results):.0f})"
        for results in found.values()
    )
    _row("**found (CPU s in all)**", *totals)
    return 1 if escaped else 0


def _row(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
