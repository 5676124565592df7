"""One contention run on one store: start the server, measure it, contend, judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from lockref.clouds.admission import MEASURED, Admission
from lockref.clouds.uri import client_library, open_store, parse_store_uri
from lockref.errors import BackendUnavailable, ConfigError
from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_S
from lockref.words import counted
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios import interrupts
from scenarios.backends import RunningBackend, is_started_here, resolve_backend
from scenarios.backends.hosts import host_of
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.injection.feasible import possible
from scenarios.injection.unstruck import why_never_struck
from scenarios.workloads import DELTA_LOG
from scenarios.worlds.judged_result import JudgedResult, Steps
from scenarios.worlds.log_server import log_places
from scenarios.worlds.real import RealOutcome, require_counts, require_feasible, run_real
from sim.faults.plan import FaultPlan

CLIENTS_DEFAULT = 64
DURATION_DEFAULT_NS = 10 * NS_PER_S

_EASIER = ((1, 1), (4, 3), (16, 6))
"""The contenders of each attempt are divided by the first number, and its time is multiplied by the second."""

CROWD_MIN = 8
"""An attempt with fewer contenders than this is no crowd, so no attempt goes below it by itself."""

_UNSTRUCK_TOLD_MAX = 5
"""Faults that never struck of which the reason is told; the others are counted."""


def attempts(*, clients: int, duration_ns: int) -> Iterator[tuple[int, int]]:
    """Contenders and nanoseconds of each attempt to reach the floor of evidence: what was asked for comes first.

    A machine that is busy answers a large crowd too slowly to prove anything. Then a smaller crowd contends for longer.
    All attempts together last at most ten times as long as the first one.
    """
    for divisor, factor in _EASIER:
        yield max(clients // divisor, min(clients, CROWD_MIN)), factor * duration_ns


def contention_of(crowd: int) -> Scenario:
    """The contention scenario. One client alone shows how long a lock takes that nobody else wants, and no hand-off."""
    scenario = load_scenario("contention")
    if crowd > 1:
        return scenario
    alone = [demand for demand in scenario.must_happen if isinstance(demand, Mapping) and "grant" in demand]
    return scenario.model_copy(update={"must_happen": tuple(alone)})


def clients_of(scenario: Scenario, plan: FaultPlan) -> int:
    """The clients of a run for which nobody names a number: 64; where something strikes, those of the scenario."""
    return scenario.clients if _is_struck(scenario, plan) else CLIENTS_DEFAULT


def _is_struck(scenario: Scenario, plan: FaultPlan) -> bool:
    return bool(plan.faults) or scenario.disturbs


def arriving(scenario: Scenario, per_s: float, *, clients: int) -> Scenario:
    """The scenario as an open loop with so many intended lock calls per second of all clients.

    Each client's intended starts are twice the mean apart at most, drawn evenly. Those of many clients together are
    nearly independent arrivals; those of few clients come more evenly.
    Errors: ConfigError for a scenario whose clients cannot be in an open loop, or a rate without any time between two.
    """
    most_ns = round(2 * clients * NS_PER_S / per_s)
    workload = scenario.workload.model_dump(exclude_unset=True)
    for closed in (workload, *workload.get("clients", {}).values()):
        closed.pop("think", None)
    workload["arrivals"] = f"0ns..{most_ns}ns"
    try:
        changed = type(scenario.workload).model_validate(workload)
    except ValidationError as error:
        raise ConfigError(f"scenario {scenario.name!r} has no open loop: {error.errors()[0]['msg']}") from None
    return scenario.model_copy(update={"workload": changed})


@dataclass(slots=True, kw_only=True)
class Contention(JudgedResult):
    """A contention run, judged. place: what the user calls the store. client: the library that sent the requests."""

    outcome: RealOutcome
    place: str
    client: str
    clients: int

    @property
    def title(self) -> str:
        return f"{self.scenario} on {self.place} under {self.provider}"

    @property
    def history(self) -> tuple[pa.Table, pa.Table]:
        return self.outcome.events, self.outcome.runs

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            "backend": self.server,
            "backend_version": self.version,
            "client": self.client,
            "contenders": self.clients,
        }


def contend_on(
    backend: str,
    scenario: Scenario,
    spec: ProviderSpec,
    *,
    clients: int | None = None,
    duration_ns: int | None = None,
    processes: int | None = None,
    seed: int = 0,
    plan: FaultPlan | None = None,
    via: str = "native",
    admission: Admission = MEASURED,
    folder: Path,
    progress: Steps,
) -> Contention:
    """Contend for a lock on `backend`, the name of a server or the URI of a store, and judge the history.

    clients, duration_ns, processes: default 64 contenders for 10 s in one process; of a scenario with faults, its own
    clients and length, and a process for each client. seed: draws what the clients do, and the faults. plan: in the
    place of those. progress: told what begins. folder: where the run records. admission: as for
    `resolve_backend`.
    Ctrl-C while the clients contend cuts the run off: `is_interrupted`.
    Errors: what `run_real` and `resolve_backend` raise.
    """
    left_out = [] if plan is not None else left_out_notices(scenario, seed)
    plan = require_feasible(scenario, seed=seed, plan=plan, stands_on=spec.stands_on)
    if clients is None:
        clients = clients_of(scenario, plan)
    if duration_ns is None:
        duration_ns = scenario.duration.most if _is_struck(scenario, plan) else DURATION_DEFAULT_NS
    if processes is None:
        processes = clients if _is_struck(scenario, plan) else 1
    require_counts(clients=clients, processes=processes)
    is_ours = is_started_here(backend)
    is_log = scenario.workload.kind == DELTA_LOG
    has_rows = bool(scenario.workload.needs)
    if is_ours:
        progress(f"starting {backend} (the first start on a machine installs it)")
    with resolve_backend(backend, via=via, stands_on=spec.stands_on, admission=admission) as running:
        progress(
            f"{counted(clients, 'contender')}, {counted(processes, 'process')}, "
            f"{duration_ns / 1e9:g} s on {running.name} {running.version}".rstrip(),
            lasting_ns=duration_ns,
        )
        outcome = run_real(
            scenario,
            spec,
            running.uri,
            clients=clients,
            duration_ns=duration_ns,
            processes=processes,
            seed=seed,
            plan=plan,
            server=running.server if is_ours else None,
            folder=folder,
            raise_if_interrupted=interrupts.raise_if_heard,
            places=log_places(running, has_rows=has_rows) if is_log else None,
        )
    told = [*strike_notices(plan, outcome.fault_counts), *left_out]
    return _judged(outcome, running, scenario, spec, clients=clients, backend=backend, told=told)


def _judged(
    outcome: RealOutcome,
    running: RunningBackend,
    scenario: Scenario,
    spec: ProviderSpec,
    *,
    clients: int,
    backend: str,
    told: Sequence[str],
) -> Contention:
    """The run that is over, judged. told: the notices about its faults. The rest: see `contend_on`."""
    is_ours = is_started_here(backend)
    notes = [*_store_notices(running, is_ours=is_ours), *told, *_loss_notices(outcome)]
    if is_ours:
        notes.append(host_of(spec.stands_on).notice)
    return Contention(
        outcome=outcome,
        summary=Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs),
        scenario=scenario.name,
        provider=spec.name,
        place=backend if is_ours else running.name,
        client=client_library(parse_store_uri(running.uri)),
        clients=clients,
        server=running.name,
        version=running.version,
        capabilities=_capabilities(running),
        notes=notes,
        is_interrupted=outcome.is_interrupted,
        # The record has the crash of each client of a worker that died. The others were judged.
        error=BackendUnavailable(str(outcome.lost[0])) if outcome.lost else None,
    )


def _store_notices(running: RunningBackend, *, is_ours: bool) -> list[str]:
    measured = running.measured
    notices = [f"the store {finding.sentence}" for finding in measured.ignored] if measured else []
    if measured and measured.credentials and not is_ours:
        notices.append(measured.credentials)
    return [*notices, *running.notices]


def _loss_notices(outcome: RealOutcome) -> list[str]:
    """The gaps in the record: workers that died, and calls that were cut off."""
    notices = [f"{worker}; its clients count as crashed from then on" for worker in outcome.lost]
    if outcome.unfinished:
        notices.append(
            f"{len(outcome.unfinished)} clients had not returned from their last call when the run was cut off"
        )
    return notices


def left_out_notices(scenario: Scenario, seed: int) -> list[str]:
    """Notices of the faults that the seed drew and no real run can carry out."""
    _, left_out = possible(draw_plan(scenario, draw_scenario(scenario, seed), seed))
    return [f"left out: {fault.id} {fault.kind}: {why}" for fault, why in left_out]


def strike_notices(plan: FaultPlan, counts: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """The number of a plan's faults that struck, and how often each of them did; and of those that never did, why."""
    if not plan.faults:
        return []
    never = [fault for fault in plan.faults if not counts[fault.id][1]]
    each = ", ".join(f"{fault.id} {fault.kind} {counts[fault.id][1]}×" for fault in plan.faults)
    told = [f"{len(plan.faults) - len(never)} of {len(plan.faults)} faults struck: {each}"]
    told += [
        f"{fault.id} {fault.kind} never struck: {why_never_struck(fault, counts[fault.id][0], heal_ns=plan.heal_ns)}"
        for fault in never[:_UNSTRUCK_TOLD_MAX]
    ]
    if len(never) > _UNSTRUCK_TOLD_MAX:
        told.append(f"{len(never) - _UNSTRUCK_TOLD_MAX} more faults never struck")
    return told


def _capabilities(running: RunningBackend) -> dict[str, object]:
    """The store's dialect, and what it did when it was asked before the run (H23)."""
    if running.measured is None:
        # Nobody has asked a ZooKeeper: it has one dialect.
        return {"dialect": parse_store_uri(running.uri).scheme, "measured": {}}
    with closing(open_store(running.uri, request_timeout_ns=NS_PER_S)) as store:
        dialect = store.capabilities.dialect
    return {"dialect": dialect, "measured": running.measured.facts()}
