"""Did a scenario show what it says it shows?

`expect` makes known-bad scenarios regression tests, too: a lock that should
break there and no longer does is news, as is one that should hold and breaks.
A clause counts as violated if any run of the batch broke it; a build's
expectation as a whole ("held") covers every safety and liveness clause.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from reports.checks import Judgement
from reports.checks.spec import Verdict, joint_verdict
from scenarios.schema import Scenario


def clause_verdicts(judgement: Judgement) -> dict[str, Verdict]:
    """Each clause over all runs: violated, else inconclusive, else held, else not applicable."""
    counted = judgement.verdicts.group_by(["clause", "verdict"]).aggregate([])
    seen: dict[str, set[str]] = {}
    for row in counted.to_pylist():
        seen.setdefault(row["clause"], set()).add(row["verdict"])
    return {clause: joint_verdict(verdicts) for clause, verdicts in sorted(seen.items())}


def unreached(scenario: Scenario, judgement: Judgement) -> list[str]:
    """What `must_happen` names and no run reached: then the batch proves nothing."""
    happened = judgement.reach.filter(pc.greater(judgement.reach["count"], pa.scalar(0)))
    reached = set(happened["situation"].to_pylist())
    return [situation for situation in scenario.must_happen if situation not in reached]


def surprises(scenario: Scenario, provider: str, judgement: Judgement) -> Iterator[str]:
    """Where the batch differs from what the scenario expects of this build; nothing if it expects nothing."""
    verdicts = clause_verdicts(judgement)
    for situation in unreached(scenario, judgement):
        yield f"{situation} never happened"
    for clause, expected in scenario.expected(provider).items():
        if clause:
            found = verdicts.get(clause, "not_applicable")
            if found != expected:
                yield f"{clause} is {found}, expected {expected}"
        elif expected == "held":
            broken = [name for name, verdict in verdicts.items() if verdict == "violated"]
            if broken:
                yield f"{', '.join(broken)} violated, expected to hold"
        elif expected not in verdicts.values():
            yield f"no clause is {expected}"
