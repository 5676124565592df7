"""How many seeds until a planted bug is found: `python -m tests.quality.seeds_to_detection [RANGES] [SEEDS]`.

For each bug and its scenario, over RANGES disjoint ranges of SEEDS seeds each
(8 and 100 by default): the median and the 95th percentile of the first seed
that broke a predicted clause, counted within its range, and the share of
single seeds that do. Prints Markdown.
"""

from __future__ import annotations

import statistics
import sys

from scenarios.campaign import run_campaign
from scenarios.load import load_scenario
from tests.quality.planted.registry import BUGS, Bug, first_seed

RATIO_SEEDS = 40


def measure(bug: Bug, ranges: int, seeds: int) -> tuple[list[int], str]:
    """The detections, one per range that had any, and the ratio of failing seeds among the first few."""
    firsts = []
    for number in range(ranges):
        start = 1 + number * seeds
        found = first_seed(bug, range(start, start + seeds))
        if found is not None:
            firsts.append(found[0] - start + 1)
    result = run_campaign(load_scenario(bug.scenario), bug.spec, range(1, 1 + RATIO_SEEDS), keep_runs=0)
    counts = [result.tally.verdicts.get(clause, {}).get("violated", 0) for clause in bug.clauses.split()]
    return firsts, f"{max(counts) / RATIO_SEEDS:.0%}"


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a bug escaped in some range."""
    ranges, seeds = [int(text) for text in arguments] if arguments else (8, 100)
    escaped = 0
    sys.stdout.write("| bug | ids | scenario | clauses | median | p95 | caught | seeds that fail |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    for bug in BUGS:
        firsts, ratio = measure(bug, ranges, seeds)
        escaped += len(firsts) < ranges
        middle = f"{statistics.median(firsts):g}" if firsts else "-"
        high = sorted(firsts)[min(len(firsts) - 1, int(0.95 * len(firsts)))] if firsts else "-"
        row = (bug.lock, bug.ids, bug.scenario, bug.clauses, middle, high, f"{len(firsts)}/{ranges}", ratio)
        sys.stdout.write("| " + " | ".join(str(cell) for cell in row) + " |\n")
        sys.stdout.flush()
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
