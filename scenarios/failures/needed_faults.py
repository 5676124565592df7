"""The faults that a failure needs, where nobody has shrunk it: failures of liveness, and those beyond a budget.

Each fault that changed something is left out once, the last one first. A fault without which the clause still breaks
stays out for the others, so what remains breaks the clause without all of those.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lockref.lab.loading import ProviderSpec
from scenarios.definition.schema import Scenario
from scenarios.failures.judged_run import broken_clauses
from scenarios.worlds.simulated import run_simulated
from sim.explore.replay import Failure
from sim.kernel.schedules import Replay

RUNS_MAX: Final = 16
"""So many faults of one failure are left out, in a run of some milliseconds to some tenths of a second each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededFaults:
    """Ids of faults. unneeded: the clause breaks without all of these. untried: whether it does is not known."""

    unneeded: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()


def needed_faults(failure: Failure, scenario: Scenario, spec: ProviderSpec, struck: Collection[str]) -> NeededFaults:
    """The faults that an unshrunk failure does not need. struck: the ids of those that changed something.

    A single fault is not left out, nor is one of a failure that was shrunk.
    """
    tried = [fault.id for fault in reversed(failure.plan.faults) if fault.id in struck]
    if failure.shrink is not None or len(tried) < 2:
        return NeededFaults()
    plan, unneeded = failure.plan, []
    for fault_id in tried[:RUNS_MAX]:
        without = plan.without([fault_id])
        outcome = run_simulated(scenario, spec, failure.seed, plan=without, schedule=Replay(failure.schedule))
        if failure.clause in broken_clauses(outcome):
            plan = without
            unneeded.append(fault_id)
    return NeededFaults(unneeded=tuple(unneeded), untried=tuple(tried[RUNS_MAX:]))
