"""From one run and its finding to the explanation: which clause is told by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lockref.words import counted
from reports.checks.spec import CLAUSES, COMMITS
from reports.checks.summary import Finding
from reports.explanation import commits, liveness, safety
from reports.explanation.diagram import diagram_of
from reports.explanation.explanation import Explanation, ToldFault
from reports.explanation.facts import RunFacts
from reports.explanation.table import event_rows
from reports.explanation.telling import Cause, Teller, plain

TOLD_BY: Final[Mapping[str, Callable[[Teller], Cause]]] = {
    "S1": safety.store_fault,
    "S2": safety.token_order,
    "S3": safety.belief,
    "S4": safety.effect,
    "S5": safety.takeover,
    "S6": safety.ownership,
    "S7": safety.answers,
    "L1": liveness.waited,
    "L2": liveness.waited,
    "L3": liveness.waited,
    "L4": liveness.loss_notice,
    "L5": liveness.long_call,
    "L6": liveness.orphan,
    "F1": liveness.fairness,
    "F2": liveness.fairness,
    **dict.fromkeys(COMMITS, commits.log),
}
"""By clause, the function that tells its cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The failure that is explained, as people know it. replay: the line that shows it again, empty if none does."""

    id: str
    scenario: str
    provider: str
    seed: int | None
    replay: str = ""


def cause_of(
    events: pa.Table, grants: pa.Table, run: Mapping[str, Any], finding: Finding, faults: Sequence[ToldFault]
) -> Cause:
    """The cause of one finding. The arguments are those of `explain_run`."""
    return cause_in(RunFacts(events, grants, run, finding, faults))


def cause_in(facts: RunFacts) -> Cause:
    """The cause of the finding of a run whose facts have been read."""
    return _told(Teller(facts))


def explain_run(
    subject: Subject,
    *,
    events: pa.Table,
    grants: pa.Table,
    run: Mapping[str, Any],
    finding: Finding,
    faults: Sequence[ToldFault],
) -> Explanation:
    """The explanation of one finding.

    events, grants: of the run that shows it (`lockref.history.SCHEMA`, `reports.checks.facts.tables.grants_table`).
    run: its row of `RUNS_SCHEMA`. faults: its plan in words, in the plan's order.
    """
    facts = RunFacts(events, grants, run, finding, faults)
    tell = Teller(facts)
    cause = _told(tell)
    notices = tell.departures()
    if facts.is_cut:
        notices.append(f"the run is long: the {len(facts.rows):,} events nearest to the failure were looked at")
    rows, left_out = event_rows(tell)
    if left_out:
        notices.append(f"{counted(left_out, 'event')} of the table left out, farthest from the failure")
    message = str(finding.witness.get("text") or CLAUSES[finding.clause])
    return Explanation(
        id=subject.id,
        clause=finding.clause,
        demand=CLAUSES[finding.clause],
        scenario=subject.scenario,
        provider=subject.provider,
        seed=subject.seed,
        message=plain(message),
        sentence=cause.sentence,
        paragraph=cause.paragraph,
        events=rows,
        diagram=diagram_of(tell),
        faults=tuple(plain(fault.text) for fault in faults),
        replay=subject.replay,
        notices=tuple(notices),
    )


def _told(tell: Teller) -> Cause:
    cause = TOLD_BY[tell.facts.finding.clause](tell)
    return Cause(parts=cause.parts, sentences=(tell.store_before(), *cause.sentences))
