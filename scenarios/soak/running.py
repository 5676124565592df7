"""One stretch of a soak on one server: the server, the clients at work, their samples, and the history meanwhile."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lockref.clouds.admission import MEASURED, Admission
from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from lockref.lab.loading import ProviderSpec
from lockref.lab.spool import SPOOL, remove_spool
from lockref.lab.windows import Windows
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import counted
from reports.history_files import write_runs
from scenarios import interrupts
from scenarios.backends import is_started_here, resolve_backend
from scenarios.backends.hosts import host_of
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.definition.units import constant
from scenarios.injection.feasible import needs_server
from scenarios.soak.keeping import LATE_NS, WINDOW_MAX_NS, HistoryKeeper, window_ns
from scenarios.soak.plans import plan_at_low_rate
from scenarios.soak.sampling import Sampler, interval_ns
from scenarios.soak.watching import ServerWatch
from scenarios.workloads import DELTA_LOG
from scenarios.worlds.contention import strike_notices
from scenarios.worlds.judged_result import Steps
from scenarios.worlds.real import require_counts, run_real
from sim.faults.plan import FaultPlan

SOAK: Final = Path(__file__).with_name("soak.yaml")
"""The scenario of a soak for which the user names no other."""

CYCLES_MAX: Final = 10**9
"""The clients of a soak work until its time is over, whatever number of cycles the scenario has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """The lock, the server and the clients of a soak. faults: a scenario whose faults strike; None for none.

    every_ns: between two times at which they strike.

    clients, processes: default those of the scenario, and one process; with faults a process for each client.
    """

    backend: str
    scenario: Scenario
    spec: ProviderSpec
    clients: int | None = None
    processes: int | None = None
    faults: Scenario | None = None
    every_ns: int = 0
    seed: int = 0
    via: str = "native"
    admission: Admission = MEASURED

    @property
    def client_count(self) -> int:
        """The number of clients that share the lock."""
        return self.scenario.clients if self.clients is None else self.clients


@dataclass(slots=True, kw_only=True)
class Soaked:
    """The end of one stretch. Its history and its samples stand in its folder.

    error: what ended it early; what was measured until then is kept. is_interrupted: Ctrl-C ended it.
    """

    server: str
    version: str
    clients: int
    notes: list[str] = field(default_factory=list)
    error: LockrefError | None = None
    is_interrupted: bool = False


def soak_scenario(name: str | None) -> Scenario:
    """The scenario of that name or file; None for the soak's own. Its faults are left out: those strike at a low rate.

    Raises ConfigError as `load_scenario`, and for commits to a Delta log: what lands is read from the whole history.
    """
    scenario = load_scenario(SOAK if name is None else name)
    if scenario.workload.kind == DELTA_LOG:
        raise ConfigError(f"scenario {scenario.name!r} commits to a Delta log, which no soak can judge")
    workload = scenario.workload.model_copy(update={"cycles": constant(CYCLES_MAX, str(CYCLES_MAX))})
    return scenario.model_copy(update={"workload": workload, "faults": [], "swarm": None, "heal_at": None})


def soak_plan(settings: SoakSettings, *, lasting_ns: int) -> FaultPlan | None:
    """The faults of a soak that lasts so long; None without `faults`. Raises ConfigError as `plan_at_low_rate`."""
    if settings.faults is None:
        return None
    return plan_at_low_rate(settings.faults, every_ns=settings.every_ns, lasting_ns=lasting_ns, seed=settings.seed)


def soak_on(settings: SoakSettings, *, lasting_ns: int, folder: Path, progress: Steps) -> Soaked:
    """Soak for so long. folder: of this stretch. progress: told what begins.

    Errors: what `resolve_backend` and `run_real` raise before the clients begin.
    """
    spec, scenario = settings.spec, settings.scenario
    plan = soak_plan(settings, lasting_ns=lasting_ns)
    is_struck = plan is not None and bool(plan.faults)
    clients = settings.client_count
    processes = clients if is_struck else 1 if settings.processes is None else settings.processes
    require_counts(clients=clients, processes=processes)
    is_ours = is_started_here(settings.backend)
    if is_ours:
        progress(f"starting {settings.backend} (the first start on a machine installs it)")
    runtime = ThreadRuntime()
    with (
        resolve_backend(
            settings.backend, via=settings.via, stands_on=spec.stands_on, admission=settings.admission
        ) as running,
        ExitStack() as stack,
    ):
        length_ns = WINDOW_MAX_NS if is_struck else window_ns(lasting_ns)
        windows = Windows(origin_ns=runtime.monotonic_ns(), length_ns=length_ns)
        keeper = stack.enter_context(HistoryKeeper(folder, windows, runtime))
        sampler = stack.enter_context(Sampler(folder, interval_ns(lasting_ns), runtime, lambda: running.processes))
        watch = stack.enter_context(
            ServerWatch(
                running,
                stands_on=spec.stands_on,
                key=f"lockref-soak/{spec.default_lock_key}",
                is_struck=plan is not None and any(needs_server(fault) for fault in plan.faults),
                runtime=runtime,
            )
        )
        progress(
            f"{counted(clients, 'client')}, {counted(processes, 'process')}, {lasting_ns / 1e9:g} s on "
            f"{running.name} {running.version}".rstrip(),
            lasting_ns=lasting_ns,
        )
        outcome = run_real(
            scenario,
            spec,
            running.uri,
            clients=clients,
            duration_ns=lasting_ns,
            processes=processes,
            seed=settings.seed,
            plan=plan,
            server=running.server if is_ours else None,
            folder=folder,
            raise_if_interrupted=watch.raise_if_gone(interrupts.raise_if_heard),
            keeper=keeper,
        )
        write_runs(folder, outcome.runs)
        remove_spool(folder / SPOOL)
    soaked = Soaked(server=running.name, version=running.version, clients=clients)
    soaked.notes += list(running.notices)
    if plan is not None:
        soaked.notes += strike_notices(plan, outcome.fault_counts)
    soaked.notes += [f"{worker}; its clients count as crashed from then on" for worker in outcome.lost]
    late_ns = max((int(each or 0) for each in outcome.runs["host_late_ns"].to_pylist()), default=0)
    if late_ns > LATE_NS:
        soaked.notes.append(
            f"a process was stopped for {late_ns / NS_PER_S:.0f} s: what it did then may be missing from the "
            f"history, which allows for {LATE_NS // NS_PER_S} s; a clause that breaks there proves nothing"
        )
    if keeper.failure is not None:
        soaked.notes.append(f"the history was kept at the end alone: {keeper.failure}")
    if sampler.failure is not None:
        soaked.notes.append(f"the sampling ended early: {sampler.failure}")
    if is_ours:
        soaked.notes.append(host_of(spec.stands_on).notice)
    soaked.error = watch.gone or (BackendUnavailable(str(outcome.lost[0])) if outcome.lost else None)
    soaked.is_interrupted = outcome.is_interrupted and soaked.error is None
    return soaked
