"""From tallies to what people and gates read: `results.json`, the failure blocks, the run folder."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from lockref.cli.console import Console, printable
from lockref.cli.exit_codes import INCONCLUSIVE, NOT_LIVE, exit_code, worst
from lockref.cli.failures import Stored
from lockref.errors import BackendUnavailable
from reports.checks.spec import CLAUSES, FAIRNESS, LIVENESS, SAFETY
from reports.checks.verdicts import counted, joint_verdict
from reports.formats.block import failure_block
from reports.formats.github import annotation_lines
from reports.formats.junit import junit_xml
from reports.formats.results import Failure, Results, judged
from reports.formats.speed import speed_lines
from reports.history_files import write_history

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from lockref.cli.run_folder import RunFolder
    from lockref.errors import LockrefError
    from reports.checks.summary import Finding, Tally
    from scenarios.campaign import CampaignResult
    from scenarios.definition.schema import Scenario

STATEMENT_MAX = 1000
_TOLD_OF_EACH = {"title", "verdict", "liveness", "fairness_claims", "runs", "statement", "speed", "answers", "reasons"}
BLOCKS_MAX = 3
"""Failure blocks shown on the terminal; the rest is counted and stands in results.json."""


def tallied_results(
    tally: Tally,
    *,
    title: str,
    scenario: str,
    provider: str,
    backend: str = "",
    provenance: Mapping[str, object],
    store_failure: Callable[[Finding], Stored] | None = None,
    again: str = "",
    seeds: Mapping[int, int] = MappingProxyType({}),
) -> Results:
    """The one account of judged runs.

    store_failure: keeps a failure for `lockref replay`. Without it failures are
    named by clause and run; `again` is the line that judges the history once
    more, and `seeds` knows the seeds of runs that had one.
    """
    results = judged(tally, title=title, classes=tally.classes, events=tally.events)
    for finding in tally.findings:
        stored = store_failure(finding) if store_failure else Stored(id=f"{finding.clause}-{finding.run}", replay=again)
        evidence = stored.evidence
        if evidence is not None:
            finding = evidence.finding
        failure = Failure(
            id=stored.id,
            clause=finding.clause,
            message=str(finding.witness.get("text") or CLAUSES[finding.clause]),
            run=finding.run,
            seed=finding.run if store_failure else seeds.get(finding.run),
            scenario=scenario,
            provider=provider,
            backend=backend,
            begin_ns=evidence.begin_ns if evidence else 0,
            at_ns=finding.at_ns,
            similar=finding.similar,
            replay=stored.replay,
            notes=list(stored.notes),
            witness=finding.witness,
            timeline=evidence.timeline if evidence else None,
        )
        failure.block = failure_block(failure)
        results.failures.append(failure)
    results.notices += sorted(
        {_blame(finding) for finding in tally.findings if finding.witness.get("blame") == "store"}
    )
    results.provenance = dict(provenance)
    return results


def _blame(finding: Finding) -> str:
    """A verdict on a run in which the store was guilty must not read as one on the lock."""
    advice = finding.witness.get("advice")
    return (
        f"{finding.witness['text']} ({finding.clause}): that is the store's fault, and what broke after it may be"
        f"{f'; {advice}' if advice else ''}"
    )


def campaign_results(
    campaign: CampaignResult, *, provenance: Mapping[str, object], store_failure: Callable[[Finding], Stored]
) -> Results:
    """The account of a campaign of seeds."""
    return tallied_results(
        campaign.tally,
        title=f"{campaign.scenario.name} under {campaign.provider}",
        scenario=campaign.scenario.name,
        provider=campaign.provider,
        provenance={**provenance, "digest": campaign.digest},
        store_failure=store_failure,
    )


def judge_thresholds(scenario: Scenario, events: pa.Table, runs: pa.Table, results: Results) -> None:
    """Hold the kept histories to the scenario's `thresholds`. They count as liveness: broken, or never measured."""
    if not scenario.thresholds:
        return
    from reports.checks import measure
    from scenarios.definition.thresholds import check_thresholds

    measured = measure(events, runs)
    for kept in check_thresholds(scenario.thresholds, calls=measured.calls, handoffs=measured.handoffs):
        results.notices.append(f"threshold {kept.verdict}: {kept}")
        results.liveness = joint_verdict([results.liveness, kept.verdict])
        if kept.verdict == "inconclusive":
            results.reasons.append(f"threshold {kept}")


def write_run(
    folder: RunFolder, events: pa.Table, runs: pa.Table, results: Results, *, allowed: Collection[int] = ()
) -> None:
    """A history, its results and JUnit into a run folder. `allowed`: the exit codes that the gate takes for success."""
    write_history(folder.path, events, runs)
    results.files = {"events": "events.parquet", "runs": "runs.parquet", "junit": "junit.xml"}
    results.write(folder.path / "results.json")
    folder.write("junit.xml", junit_xml([results], **gate(allowed)))


def gate(allowed: Collection[int]) -> dict[str, bool]:
    """What JUnit and annotations must know of `--allow-exit`, as their keyword arguments."""
    return {
        "allow_inconclusive": INCONCLUSIVE in allowed,
        "allow_not_live": NOT_LIVE in allowed,
        "allow_store_lost": BackendUnavailable.exit_code in allowed,
    }


def say_results(console: Console, results: Results) -> None:
    """The verdict in a few lines, the failure blocks last."""
    is_unlive = results.verdict != "violated" and results.worst == "violated"
    style = "bad" if is_unlive else {"held": "good", "violated": "bad"}.get(results.verdict, "head")
    # Safety gives the word, unless the lock is safe because it does not go on.
    word = "NOT LIVE" if is_unlive else results.verdict.upper()
    console.say(
        f"{word:<13}{printable(results.title)}: {printable(results.statement, limit=STATEMENT_MAX)}",
        style=style,
    )
    for reason in results.untold_reasons:
        console.say(f"  {printable(reason)}")
    for line in speed_lines(results.speed) if results.speed is not None else ():
        console.say(f"  {printable(line)}")
    for notice in results.notices:
        console.say(f"  {printable(notice, limit=300)}")
    for what, names in (("safety", SAFETY), ("liveness and fairness", (*LIVENESS, *FAIRNESS))):
        broken = [f"{name} {clause.violated:,}" for name, clause in results.broken.items() if name in names]
        if broken:
            console.say(f"  {what} broken in runs: {', '.join(broken)}")
    spared = [
        f"{name} (broken in {clause.violated:,})" if clause.violated else name
        for name, clause in results.spared.items()
    ]
    if spared:
        console.say(f"  not demanded here, for no lock is known to keep it: {', '.join(spared)}", style="dim")
    for failure in results.failures[:BLOCKS_MAX]:
        console.say()
        console.say(failure.block)
    rest = len(results.failures) - BLOCKS_MAX
    if rest > 0:
        console.say(f"\n+{rest} more distinct failure{'s' if rest > 1 else ''}: see results.json")


def code_of(results: Sequence[Results], allowed: Sequence[int] = ()) -> int:
    """The exit code that speaks for all of them."""
    return worst(
        exit_code(
            safety=each.verdict,
            liveness=each.liveness,
            fairness=each.fairness_claims,
            is_store_lost=each.is_store_lost,
            allowed=allowed,
        )
        for each in results
    )


def conclude(
    console: Console,
    folder: RunFolder,
    results: Sequence[Results],
    *,
    digest: str = "",
    allowed: Sequence[int] = (),
    failed: LockrefError | None = None,
    skipped: Mapping[str, str] = MappingProxyType({}),
    errors: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """End a command that judged runs: describe its folder, print the document or the folder's path; its exit code.

    skipped: scenarios that do not apply to the lock, with the reason.
    errors: scenarios that could not be run to their end, with the error; they have been told.
    failed: what ended it early. It is raised again where nothing was judged
    before; otherwise it is said, and what was judged still counts: a proven
    failure is not hidden by a server that then went away.
    """
    if failed is not None and not results:
        raise failed
    code = code_of(results, allowed)
    if failed is not None:
        code = worst((code, failed.exit_code))
    if errors:
        console.say(f"{counted(len(errors), 'scenario')} could not be run: {', '.join(errors)}", style="bad")
    elif failed is not None:
        console.say(f"ended early: {printable(str(failed), limit=4000, keep_newlines=True)}", style="bad")
    if len(results) + len(skipped) + len(errors) > 1:
        ended: Counter[str] = Counter(each.worst for each in results)
        ended.update({"not applicable": len(skipped), "could not be run": len(errors)})
        console.say("in all: " + ", ".join(f"{number:,} {how}" for how, number in ended.items() if number))
    document = document_of(results, digest=digest, folder=folder.path)
    if errors:
        document["errors"] = [{"scenario": name, "error": error} for name, error in errors.items()]
    if skipped:
        document["skipped"] = [{"scenario": name, "reason": reason} for name, reason in skipped.items()]
    status = "finished" if failed is None else "failed"
    folder.describe(status=status, verdict=document["verdict"], exit_code=code)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(results, **gate(allowed)):
            console.say(line)
    if console.as_json:
        console.document(document)
    else:
        console.say(f"history and results in {folder.path}", style="dim")
    return code


def check_line(history: Path) -> str:
    """The line that judges a recorded history once more: what a real run has in the place of a replay."""
    return f"lockref check {shlex.quote(str(history))}"


def document_of(results: Sequence[Results], *, digest: str, folder: Path | None) -> dict[str, object]:
    """The `--json` document: the joint verdict, and every scenario's own part where there are several."""
    speeds = [each.speed and each.speed.model_dump() for each in results]
    document: dict[str, object] = {
        "verdict": joint_verdict({each.verdict for each in results}),
        "liveness": joint_verdict({each.liveness for each in results}),
        "fairness_claims": joint_verdict({each.fairness_claims for each in results}),
        "runs": sum(each.runs for each in results),
        "clauses": _joint_clauses(results),
        "failures": [
            failure.model_dump(include={"id", "seed", "clause", "replay", "scenario", "provider", "message", "similar"})
            for each in results
            for failure in each.failures
        ],
        "reasons": [reason for each in results for reason in each.reasons],
        "speed": speeds[0] if len(results) == 1 else None,
        "answers": [answers.model_dump() for each in results for answers in each.answers],
        "notices": [notice for each in results for notice in each.notices],
        "digest": digest,
        "folder": str(folder) if folder else None,
    }
    if len(results) > 1:
        document["scenarios"] = [
            {
                **each.model_dump(include=_TOLD_OF_EACH),
                "demanded": [name for name in each.clauses if name not in each.spared],
                "not_demanded": {name: clause.verdict for name, clause in each.spared.items()},
            }
            for each in results
        ]
    return document


def _joint_clauses(results: Sequence[Results]) -> dict[str, dict[str, object]]:
    joint: dict[str, dict[str, object]] = {}
    for name in CLAUSES:
        told = [each.clauses[name] for each in results if name in each.clauses]
        parts = [part for part in told if part.is_demanded]
        if told:
            joint[name] = {
                "verdict": joint_verdict({part.verdict for part in parts}),
                "runs": sum(part.runs for part in parts),
                "violated": sum(part.violated for part in parts),
                **({} if parts else {"is_demanded": False}),
            }
    return joint
