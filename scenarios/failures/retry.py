"""A stored failure of a simulation, tried again on a real server: what could be carried out, and what came of it.

A real run has no schedule that could be replayed. What it has is the failure's fault
plan, as far as a real server and real processes can be struck so, and what the seed
draws for the clients. So "not reproduced" never means "not there": the reasons say
what was different.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockref.errors import ConfigError
from reports.checks.verdicts import decide
from scenarios.failures.stored_failures import load_failed
from scenarios.injection.feasible import possible
from scenarios.worlds.contention import Contention, contend_on
from scenarios.worlds.judged_result import Steps
from sim.explore.replay import Failure
from sim.faults.plan import FaultPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOutcome:
    """The outcome of a retried failure.

    carried_out: the part of the failure's plan that was. left_out: the other faults, each with the reason. broken: the
    clauses that broke. reasons: why the failure was not reproduced, as far as that is known; empty if it was.
    """

    failure: Failure
    done: Contention
    carried_out: FaultPlan
    left_out: tuple[str, ...]
    broken: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def is_reproduced(self) -> bool:
        """True if the clause that broke in the simulation broke here, too."""
        return self.failure.clause in self.broken

    @property
    def is_complete(self) -> bool:
        """True if the whole plan was carried out, and all of it struck."""
        fired = [fired for _, fired, _ in self.done.outcome.fault_counts.values()]
        return not self.left_out and all(fired)


def retry_failure(
    path: Path,
    backend: str,
    *,
    provider: str | None = None,
    may_import: bool = False,
    folder: Path,
    progress: Steps,
) -> RetryOutcome:
    """Carry the plan of the stored failure out on `backend`, the name of a server or the URI of a store.

    provider, may_import: see `load_failed`.
    Errors: ConfigError for a file that this version cannot read, for a lock that cannot be loaded, and where nothing of
    the plan can be carried out on a real server; what `contend_on` raises.
    """
    failure, scenario, spec = load_failed(path, provider=provider, may_import=may_import)
    kept, left_out = possible(failure.plan)
    told = tuple(f"{fault.id} ({fault.kind.replace('_', ' ')}): {why}" for fault, why in left_out)
    if left_out and not kept.faults:
        raise ConfigError(f"{failure.id}: nothing of its plan can be carried out on a real server: {'; '.join(told)}")
    done = contend_on(backend, scenario, spec, seed=failure.seed, plan=kept, folder=folder, progress=progress)
    broken = tuple(sorted({finding.clause for finding in done.summary.findings}))
    reasons = () if failure.clause in broken else tuple(_reasons(failure, done, kept, told))
    return RetryOutcome(failure=failure, done=done, carried_out=kept, left_out=told, broken=broken, reasons=reasons)


def _reasons(failure: Failure, done: Contention, plan: FaultPlan, left_out: tuple[str, ...]) -> list[str]:
    """Why the failure did not come again, as far as anybody can tell."""
    reasons = [f"not carried out: {told}" for told in left_out]
    counts = done.outcome.fault_counts
    reasons += [f"never struck: {fault.id} ({fault.kind})" for fault in plan.faults if not counts[fault.id][1]]
    reasons += decide(done.summary).reasons
    if not reasons and failure.schedule:
        number = len(failure.schedule)
        reasons.append(f"every fault struck; of the {number} decisions of the stored schedule a real run has none")
    return reasons or ["every fault struck, and the clause held: the server's timing was another one"]
