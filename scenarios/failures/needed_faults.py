"""The faults that a failure needs, where nobody has shrunk it: failures of liveness, and those beyond a budget.

Each fault that changed something is left out once, the last one first. A fault without which the clause still breaks
stays out for the others, so what remains breaks the clause without all of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from lockref.lab.loading import ProviderSpec
from reports.explanation.explanation import ToldFault
from scenarios import interrupts
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

    def told(self, faults: Iterable[ToldFault]) -> tuple[ToldFault, ...]:
        """The same faults, where those that are not needed changed nothing: no cause names them."""
        return tuple(replace(fault, mattered=0) if fault.id in self.unneeded else fault for fault in faults)


def needed_faults(
    failure: Failure,
    scenario: Scenario,
    spec: ProviderSpec,
    told: Iterable[ToldFault],
    *,
    is_spent: Callable[[], bool] = lambda: False,
) -> NeededFaults:
    """The faults that an unshrunk failure does not need, of those in `told` that changed something.

    A single fault is not left out, nor is one of a failure that was shrunk. is_spent: True once there is no time for
    another run. A Ctrl-C is raised between two runs.
    """
    struck = {fault.id for fault in told if fault.mattered}
    tried = [fault.id for fault in reversed(failure.plan.faults) if fault.id in struck]
    if failure.shrink is not None or len(tried) < 2:
        return NeededFaults()
    plan = failure.plan
    unneeded: list[str] = []
    for place, fault_id in enumerate(tried[:RUNS_MAX]):
        interrupts.raise_if_heard()
        if is_spent():
            return NeededFaults(unneeded=tuple(unneeded), untried=tuple(tried[place:]))
        without = plan.without([fault_id])
        outcome = run_simulated(
            scenario, spec, failure.seed, plan=without, schedule=Replay(failure.schedule), ties=failure.ties
        )
        if failure.clause in broken_clauses(outcome):
            plan = without
            unneeded.append(fault_id)
    return NeededFaults(unneeded=tuple(unneeded), untried=tuple(tried[RUNS_MAX:]))
