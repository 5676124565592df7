"""How many seeds until a planted bug is found, and where: `python -m tests.quality.planted.seeds_to_detection`.

    python -m tests.quality.planted.seeds_to_detection [RANGES] [SEEDS]          # 8 and 100 by default
    python -m tests.quality.planted.seeds_to_detection --witnesses [SEEDS] [PART] # 20 by default

The first prints for each bug and its scenario, over RANGES disjoint ranges of
SEEDS seeds each, the median and the 95th percentile of the first seed that
broke a predicted clause, counted within its range, and the share of single
seeds that do. The second tries each bug (whose name contains PART) against the
whole catalogue, as `lockref sim --all` would: which scenarios convict it, by
which clauses, from which seed on. A bug with one witness only hangs on that
scenario. Both print Markdown; the exit code is 1 if a bug escaped.
"""

from __future__ import annotations

import statistics
import sys

from scenarios.campaign import run_campaign
from scenarios.definition.load import catalogue, load_scenario
from tests.quality.planted.registry import BUGS, Bug, first_seed

RATIO_SEEDS = 40
WITNESS_SEEDS = 20
LONG = ("contention", "writers")
"""Runs in which nothing goes wrong: long, and no witness that the others are not."""


def measure(bug: Bug, ranges: int, seeds: int) -> tuple[list[int], str]:
    """The detections, one per range that had any, and the ratio of failing seeds among the first few."""
    firsts = []
    for number in range(ranges):
        start = 1 + number * seeds
        found = first_seed(bug, range(start, start + seeds))
        if found is not None:
            firsts.append(found[0] - start + 1)
    result = run_campaign(load_scenario(bug.scenario), bug.spec, range(1, 1 + RATIO_SEEDS), keep_runs=0)
    counts = [result.summary.verdicts.get(clause, {}).get("violated", 0) for clause in bug.clauses.split()]
    return firsts, f"{max(counts) / RATIO_SEEDS:.0%}"


def witnesses(bug: Bug, seeds: int) -> list[tuple[int, str, str]]:
    """(first seed, scenario, clauses) of every scenario of the catalogue that convicts the bug; the quickest first."""
    found = []
    for path in catalogue():
        if path.stem in LONG:
            continue
        scenario = load_scenario(path)
        result = run_campaign(
            scenario, bug.spec, range(1, 1 + seeds), keep_runs=0, not_demanded=scenario.not_demanded(bug.spec.stands_on)
        )
        broken = result.summary.findings
        if broken:
            clauses = " ".join(sorted({each.clause for each in broken}))
            found.append((min(each.run for each in broken), scenario.name, clauses))
    return sorted(found)


def _row(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def tell_witnesses(seeds: int, part: str) -> int:
    """Print who convicts which bug; 1 if one escaped the whole catalogue."""
    escaped = 0
    _row("bug", "ids", "witnesses", "scenario: clauses @ first seed")
    _row(*["---"] * 4)
    for bug in BUGS:
        if part not in bug.lock:
            continue
        seen = witnesses(bug, seeds)
        escaped += not seen
        shown = "; ".join(f"{name}: {clauses} @ {first}" for first, name, clauses in seen[:4]) or "escaped"
        rest = f"; and {len(seen) - 4} more" if len(seen) > 4 else ""
        _row(bug.lock, bug.ids, len(seen), shown + rest)
    return 1 if escaped else 0


def tell_seeds(ranges: int, seeds: int) -> int:
    """Print how many seeds each bug needs in its scenario; 1 if one escaped in some range."""
    escaped = 0
    _row("bug", "ids", "scenario", "clauses", "median", "p95", "caught", "seeds that fail")
    _row(*["---"] * 8)
    for bug in BUGS:
        firsts, ratio = measure(bug, ranges, seeds)
        escaped += len(firsts) < ranges
        middle = f"{statistics.median(firsts):g}" if firsts else "-"
        high = sorted(firsts)[min(len(firsts) - 1, int(0.95 * len(firsts)))] if firsts else "-"
        _row(bug.lock, bug.ids, bug.scenario, bug.clauses, middle, high, f"{len(firsts)}/{ranges}", ratio)
    return 1 if escaped else 0


def main(arguments: list[str]) -> int:
    """Print the table that was asked for; 1 if a bug escaped."""
    if arguments[:1] == ["--witnesses"]:
        numbers = [int(text) for text in arguments[1:] if text.isdecimal()]
        parts = [text for text in arguments[1:] if not text.isdecimal()]
        return tell_witnesses(numbers[0] if numbers else WITNESS_SEEDS, parts[0] if parts else "")
    ranges, seeds = [int(text) for text in arguments] if arguments else (8, 100)
    return tell_seeds(ranges, seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
