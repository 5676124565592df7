"""Hudi's own class through the whole catalogue, beside the baseline and the hardened lock.

    python -m tests.evidence.peers.catalogue --seeds 1..20 --to catalogue.json
    python -m tests.evidence.peers.catalogue --seeds 1..10000 --scenario swarm --locks hudi-jvm,hudi

For each scenario: how many histories of the original are the baseline's, event by event, and in how many runs which
clause broke. A history counts as the same where its digest is: times, nodes, requests, contents, answers, beliefs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockref.errors import CapabilityMissing
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from scenarios.batch import run_seeds
from scenarios.definition.load import judged_catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario

ORIGINAL, BASELINE, HARDENED = "hudi-jvm", "hudi", "hardened"
CHUNK = 50


def broken(scenario: Scenario, lock: str, seeds: Sequence[int]) -> tuple[list[str], Counter[str]]:
    """The digest of each run, and by clause the number of runs that broke it."""
    spec = load_provider(lock)
    digests: list[str] = []
    counts: Counter[str] = Counter()
    for start in range(0, len(seeds), CHUNK):
        outcomes = run_seeds(scenario, spec, seeds[start : start + CHUNK])
        digests += [outcome.digest for outcome in outcomes]
        runs = runs_table(outcome.run_row for outcome in outcomes)
        events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
        counts.update(
            str(row["clause"]) for row in judge(events, runs).verdicts.to_pylist() if row["verdict"] == "violated"
        )
    return digests, counts


def compare(scenarios: Mapping[str, Scenario], seeds: Sequence[int], locks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each scenario: why a lock does not take part, else its broken clauses, and the histories in common."""
    for name, scenario in scenarios.items():
        row: dict[str, Any] = {"scenario": name, "seeds": len(seeds), "broken": {}, "not_applicable": {}}
        digests: dict[str, list[str]] = {}
        for lock in locks:
            if reason := inapplicable(scenario, load_provider(lock)):
                row["not_applicable"][lock] = reason
                continue
            digests[lock], counts = broken(scenario, lock, seeds)
            row["broken"][lock] = dict(sorted(counts.items()))
        if ORIGINAL in digests and BASELINE in digests:
            pairs = zip(seeds, digests[ORIGINAL], digests[BASELINE], strict=True)
            row["different"] = [seed for seed, original, baseline in pairs if original != baseline]
        yield row


def main() -> int:
    """Print a line for each scenario as it is done; with --to, write all rows.

    Returns 1 if any history differs, and the code of CapabilityMissing where a lock cannot be set up here.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1..20")
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--locks", default=f"{ORIGINAL},{BASELINE},{HARDENED}")
    parser.add_argument("--to", type=Path)
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("..")
    chosen = {each.name: each for each in map(load_scenario, asked.scenario)} or judged_catalogue()
    locks = asked.locks.split(",")
    try:
        for lock in locks:
            load_provider(lock).require_virtual_time()
    except CapabilityMissing as error:
        sys.stderr.write(f"{error}\n")
        return CapabilityMissing.exit_code
    rows = []
    for row in compare(chosen, range(int(first), int(last or first) + 1), locks):
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    if asked.to is not None:
        asked.to.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
    return 1 if any(row.get("different") for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
