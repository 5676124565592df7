"""What the gate says of correct locks: `python -m tests.quality.planted.correct_locks [SEEDS] [LOCK...]`.

Every scenario, judged as `lockref sim --all` does, against every correct lock
that is known; 30 seeds by default. Prints Markdown: in how many scenarios each
lock holds, which ones are inconclusive for it or do not apply, and which ones
accuse it. The exit code is 1 if any does. A violation beside which the verdict
tells that the plan left what a lock is promised is no accusation: it is counted
as inconclusive.
"""

from __future__ import annotations

import sys

from lockref.lab.loading import load_provider
from reports.checks.verdicts import decide
from scenarios.campaign import run_campaign
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.mixture import Mixture
from tests.quality.planted.registry import CORRECT

FEWER = {"contention": 2, "writers": 2}
"""Long runs without faults."""


def verdict_on(lock: str, name: str, seeds: int) -> str:
    """held, inconclusive, not applicable, or the clauses that accuse the lock in this scenario."""
    scenario, spec = load_scenario(name), load_provider(lock)
    if Mixture(scenario, spec).misfit:
        return "not applicable"
    total = FEWER.get(name, seeds)
    summary = run_campaign(
        scenario, spec, range(1, 1 + total), keep_runs=0, not_demanded=scenario.not_demanded(spec.stands_on)
    ).summary
    accusations = {finding.clause for finding in summary.findings if not finding.witness.get("beyond_promise")}
    if accusations:
        return "accused: " + " ".join(sorted(accusations))
    if summary.findings:
        return "inconclusive"
    return decide(summary).safety


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a correct lock is accused anywhere."""
    seeds = int(arguments[0]) if arguments else 30
    names = [path.stem for path in catalogue()]
    accused = 0
    sys.stdout.write("| lock | held | inconclusive | not applicable | accused |\n|---|--:|---|---|---|\n")
    for lock in arguments[1:] or CORRECT:
        said: dict[str, list[str]] = {}
        for name in names:
            verdict = verdict_on(lock, name, seeds)
            kind, _, clauses = verdict.partition(": ")
            said.setdefault(kind, []).append(name.split("-")[0] + (f" ({clauses})" if clauses else ""))
        accused += len(said.get("accused", ()))
        cells = [", ".join(said.get(kind, ())) or "–" for kind in ("inconclusive", "not applicable", "accused")]
        held = len(said.get("held", ()))
        sys.stdout.write(f"| {lock.rpartition(':')[2]} | {held} | " + " | ".join(cells) + " |\n")
        sys.stdout.flush()
    return 1 if accused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
