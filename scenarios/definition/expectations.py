"""Did a scenario show what it says it shows?

`expect` makes known-bad scenarios regression tests, too: a lock that should
break there and no longer does is news, as is one that should hold and breaks.
A clause counts as violated if any run of the batch broke it; a build's
expectation as a whole ("held") covers every safety and liveness clause, and
asks that safety could be decided: a batch that proves nothing holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.checks.verdicts import Counts, decide, scarce
from scenarios.definition.schema import Scenario


def surprises(scenario: Scenario, provider: str, counts: Counts) -> Iterator[str]:
    """The differences between the batch and the scenario's expectation of this build; empty if it expects nothing.

    counts: of the batch's runs, all of this scenario and this provider.
    """
    decided = decide(counts)
    verdicts = decided.clauses
    unreached = counts.unreached
    for missing in unreached.values():
        for situation, shortfall in missing.items():
            yield f"{situation} never happened" if not shortfall.found else f"only {scarce(situation, shortfall)}"
    for clause, expected in scenario.expected(provider).items():
        if clause:
            found = verdicts.get(clause, "not_applicable")
            if found != expected:
                yield f"{clause} is {found}, expected {expected}"
        elif expected == "held":
            broken = [name for name, verdict in verdicts.items() if verdict == "violated"]
            if broken:
                yield f"{', '.join(broken)} violated, expected to hold"
            # Situations that never happened have been reported already.
            elif decided.safety == "inconclusive" and not unreached:
                yield f"inconclusive, expected to hold: {'; '.join(decided.reasons)}"
        elif expected not in verdicts.values():
            yield f"no clause is {expected}"
