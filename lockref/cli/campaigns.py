"""From a campaign to what people and gates read: `results.json`, the failure blocks, the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lockref.cli.console import Console, printable
from lockref.cli.exit_codes import exit_code, worst
from lockref.cli.failures import store_failure
from reports.checks.spec import CLAUSES
from reports.formats.block import failure_block
from reports.formats.junit import junit_xml
from reports.formats.results import Clause, Failure, Reach, Results, statement

if TYPE_CHECKING:
    from lockref.cli.run_folder import RunFolder
    from lockref.providers import ProviderSpec
    from scenarios.campaign import CampaignResult

BLOCKS_MAX = 3
"""Failure blocks shown on the terminal; the rest is counted and stands in results.json."""


def results_of(
    campaign: CampaignResult, spec: ProviderSpec, *, provenance: Mapping[str, object], store: bool = True
) -> Results:
    """The one account of a campaign. Distinct failures are stored for `lockref replay` on the way."""
    scenario = campaign.scenario
    clauses = {
        name: Clause(
            verdict=campaign.clause_verdict(name),
            runs=counts["held"] + counts["violated"],
            violated=counts["violated"],
            inconclusive=counts["inconclusive"],
            not_applicable=counts["not_applicable"],
            text=CLAUSES[name],
        )
        for name, counts in sorted(campaign.verdicts.items(), key=lambda item: list(CLAUSES).index(item[0]))
    }
    failures = []
    for finding in campaign.findings:
        identity = store_failure(scenario, spec, finding) if store else f"{finding.clause}-{finding.seed}"
        failure = Failure(
            id=identity,
            clause=finding.clause,
            message=str(finding.witness.get("what") or finding.witness.get("message") or CLAUSES[finding.clause]),
            run=finding.seed,
            seed=finding.seed,
            scenario=scenario.name,
            provider=spec.name,
            at_ns=finding.at_ns,
            similar=finding.similar,
            replay=f"lockref replay {identity}" if store else "",
            witness=finding.witness,
        )
        failure.block = failure_block(failure)
        failures.append(failure)
    return Results(
        title=f"{scenario.name} under {spec.name}",
        verdict=campaign.verdict,  # type: ignore[arg-type]
        liveness="held" if campaign.is_live else "violated",
        statement=statement(
            verdict=campaign.verdict,  # type: ignore[arg-type]
            runs=campaign.run_count,
            violated=campaign.broken_runs,
            reasons=campaign.reasons,
        ),
        reasons=campaign.reasons,
        runs=campaign.run_count,
        events=campaign.event_count,
        cut_off=campaign.cut_off,
        clauses=clauses,
        classes=dict(campaign.classes),
        reach=[
            Reach(situation=name, runs=runs, count=count, is_required=name in scenario.must_happen)
            for name, (runs, count) in sorted(campaign.reach.items())
        ],
        failures=failures,
        provenance={**provenance, "digest": campaign.digest},
    )


def write_campaign(folder: RunFolder, campaign: CampaignResult, results: Results) -> None:
    """History, results and JUnit of a campaign into its run folder."""
    events, runs = campaign.kept
    pq.write_table(events, folder.path / "events.parquet", compression="zstd")
    pq.write_table(runs, folder.path / "runs.parquet", compression="zstd")
    results.files = {"events": "events.parquet", "runs": "runs.parquet", "junit": "junit.xml"}
    results.write(folder.path / "results.json")
    folder.write("junit.xml", junit_xml([results]))


def say_results(console: Console, results: Results) -> None:
    """The verdict in a few lines, the failure blocks last."""
    style = {"held": "good", "violated": "bad"}.get(results.verdict, "head")
    console.say(f"{results.verdict.upper():<13}{printable(results.title)}: {results.statement}", style=style)
    for reason in results.reasons:
        console.say(f"  {printable(reason)}")
    broken = [f"{name} {clause.violated:,}" for name, clause in results.clauses.items() if clause.violated]
    if broken:
        console.say(f"  broken in runs: {', '.join(broken)}")
    for failure in results.failures[:BLOCKS_MAX]:
        console.say()
        console.say(failure.block)
    rest = len(results.failures) - BLOCKS_MAX
    if rest > 0:
        console.say(f"\n+{rest} more distinct failure{'s' if rest > 1 else ''}: see results.json")


def code_of(results: Sequence[Results], allowed: Sequence[int] = ()) -> int:
    """The exit code that speaks for all of them."""
    return worst(
        exit_code(verdict=each.verdict, is_live=each.liveness != "violated", allowed=allowed) for each in results
    )
