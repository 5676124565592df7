"""A stored failure, explained: it is run again in virtual time, and its cause is told from that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lockref.errors import ConfigError, Location
from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.explanation.explain import Subject, explain_run
from reports.explanation.explanation import Explanation, ToldFault
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.schema import Scenario
from scenarios.failures.judged_run import JudgedRun
from scenarios.failures.needed_faults import NeededFaults, needed_faults
from scenarios.failures.stored_failures import load_failed
from scenarios.failures.told_faults import told_faults
from scenarios.worlds.simulated import run_simulated
from sim.explore.replay import Failure
from sim.faults.fault import Fault
from sim.kernel.schedules import Replay

ANOTHER_TRACE = (
    "this version of the lock or of lockref makes other events than those that were stored; told is what happens now"
)
OTHER_LOCK = "told is what {name} does under the plan that broke {stored}"


def explain(path: Path, *, provider: str | None = None, may_import: bool = False, name: str = "") -> Explanation:
    """The explanation of the stored failure in a file; nothing but the file is needed.

    provider, may_import: see `load_failed`. name: how the user named it, for the line that shows it again; default its
    id.
    Errors: ConfigError for a file that this version cannot read, a lock that cannot be loaded, code that may not be
        imported, and a failure that no longer happens.
    """
    failure, scenario, spec = load_failed(path, provider=provider, may_import=may_import)
    return explain_loaded(failure, scenario, spec, path=path, provider=provider, name=name)


def explain_loaded(
    failure: Failure, scenario: Scenario, spec: ProviderSpec, *, path: Path, provider: str | None = None, name: str = ""
) -> Explanation:
    """The explanation of a failure that was read from a file already, and of its lock. The rest is as in `explain`.

    Errors: ConfigError for a failure that no longer happens.
    """
    outcome = run_simulated(
        scenario, spec, failure.seed, plan=failure.plan, schedule=Replay(failure.schedule), ties=failure.ties
    )
    judged = JudgedRun(outcome)
    if failure.clause not in judged.broken:
        raise ConfigError(
            f"{failure.id} no longer fails: {failure.clause} holds under {spec.name}, so there is nothing to explain; "
            "`lockref replay` says more",
            location=Location(str(path)),
        )
    shown = judged.shown_under(failure.clause)
    told = told_faults(failure.plan, planned_faults(failure, scenario), outcome.fault_counts)
    needed = needed_faults(failure, scenario, spec, told)
    told = needed.told(told)
    explanation = explain_run(
        Subject(
            id=failure.id,
            scenario=scenario.name,
            provider=spec.name,
            seed=failure.seed,
            replay=f"lockref replay {name or failure.id}",
        ),
        events=shown.events,
        grants=shown.grants,
        run=dict(outcome.run_row),
        finding=shown.finding,
        faults=told,
    )
    notices = (*_notices(failure, spec, provider, outcome.digest), *_on_faults(needed, told))
    return replace(explanation, notices=(*notices, *explanation.notices))


def planned_faults(failure: Failure, scenario: Scenario) -> dict[str, Fault]:
    """By id, the faults that the scenario gave this seed, before any shrinking."""
    plan = draw_plan(scenario, draw_scenario(scenario, failure.seed), failure.seed)
    return {fault.id: fault for fault in plan.faults}


def _on_faults(needed: NeededFaults, told: Sequence[ToldFault]) -> Iterator[str]:
    """Notes on a failure that was not shrunk: the faults that it does not need, and how many were not tried."""
    spare = [fault for fault in told if fault.id in needed.unneeded]
    if spare:
        names = dict.fromkeys(f"{fault.kind.replace('_', ' ')} of {fault.target or 'the store'}" for fault in spare)
        yield f"the clause also breaks without {counted(len(spare), 'fault')} of the plan: {', '.join(names)}"
    if needed.untried:
        yield f"not tried: whether it breaks without {counted(len(needed.untried), 'more fault')} of the plan"


def _notices(failure: Failure, spec: ProviderSpec, provider: str | None, digest: str) -> list[str]:
    if provider is not None:
        return [OTHER_LOCK.format(name=spec.name, stored=failure.provider.name)]
    return [] if digest == failure.digest else [ANOTHER_TRACE]
