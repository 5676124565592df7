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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockref.errors import CapabilityMissing
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.spec import VIOLATED
from scenarios.batch import run_seeds
from scenarios.definition.load import judged_catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario

ORIGINAL, BASELINE, HARDENED = "hudi-jvm", "hudi", "hardened"
CHUNK = 50


@dataclass(slots=True)
class Account:
    """What the runs of one lock came to. digests: of each run.

    verdicts: by clause and verdict, the number of runs. together: by the clauses that one run broke, the runs that
    broke just those, and the first of their seeds.
    """

    digests: list[str] = field(default_factory=list)
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    together: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def broken(self) -> dict[str, int]:
        """By clause, the number of runs that broke it."""
        return {clause: counts[VIOLATED] for clause, counts in sorted(self.verdicts.items()) if counts[VIOLATED]}

    def add(self, verdicts: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the judge, of whole runs."""
        clauses: dict[int, list[str]] = {}
        for row in verdicts:
            self.verdicts.setdefault(row["clause"], Counter())[row["verdict"]] += 1
            if row["verdict"] == VIOLATED:
                clauses.setdefault(row["run"], []).append(row["clause"])
        for seed, names in sorted(clauses.items()):
            count, first = self.together.get(key := " ".join(sorted(names)), (0, seed))
            self.together[key] = count + 1, first


def played(scenario: Scenario, lock: str, seeds: Sequence[int]) -> Account:
    """The runs of these seeds, judged."""
    spec = load_provider(lock)
    account = Account()
    for start in range(0, len(seeds), CHUNK):
        outcomes = run_seeds(scenario, spec, seeds[start : start + CHUNK])
        account.digests += [outcome.digest for outcome in outcomes]
        runs = runs_table(outcome.run_row for outcome in outcomes)
        events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
        account.add(judge(events, runs).verdicts.to_pylist())
    return account


def compare(scenarios: Mapping[str, Scenario], seeds: Sequence[int], locks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each scenario: why a lock does not take part, else what its runs came to, and the histories in common.

    broken: by lock and clause. verdicts: by lock, clause and verdict. together: by lock and the clauses that one run
    broke, the number of such runs and their first seed.
    """
    for name, scenario in scenarios.items():
        row: dict[str, Any] = {"scenario": name, "seeds": len(seeds), "broken": {}, "not_applicable": {}}
        row |= {"verdicts": {}, "together": {}}
        digests: dict[str, list[str]] = {}
        for lock in locks:
            if reason := inapplicable(scenario, load_provider(lock)):
                row["not_applicable"][lock] = reason
                continue
            account = played(scenario, lock, seeds)
            digests[lock] = account.digests
            row["broken"][lock] = account.broken
            row["verdicts"][lock] = {clause: dict(counts) for clause, counts in sorted(account.verdicts.items())}
            row["together"][lock] = account.together
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
