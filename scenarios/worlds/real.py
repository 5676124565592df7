"""Contention on a real store: threads, processes, the wall clock.

All clients of a process are threads on one ThreadRuntime; they make their
locks, meet at a barrier, and start together. The protected resource lives in
the process that called `run_real`: for its own threads behind a mutex, for
those of worker processes at the end of a pipe. So the EFFECT rows are written
by the resource at the instant of application, in one order, in every case. A Delta
log lies in a real store instead; `scenarios.workloads.delta.landings` tells who
writes its EFFECT rows.

True time is the host's monotonic clock, which its processes share; a run that
spans hosts cannot be recorded in this way.

A real run carries out the scenario's fault plan (`scenarios.injection`), each client
then in a process of its own. It is not replayable: what remains is its history,
which `lockref check` judges again at any time. So every process writes
its part of the record into a spool while it happens (`lockref.lab.spool`), and the
row that describes the run stands beside it before the first client is let go.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lockref.clouds.uri import cloud_of, open_store, parse_store_uri
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError, OutcomeUnknown
from lockref.history import REQUESTS_PER_PROCESS, SCHEMA, Recorder, RunRow, digests, runs_table
from lockref.lab.loading import ProviderSpec
from lockref.lab.spool import SPOOL, begin_spool, last_event_ns, read_spool
from lockref.lab.windows import Windows, last_event_of, recorder_of
from lockref.ports import Channel
from lockref.provider import DEFAULT_STORE, LockSettings, StateDecoder
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.services import DEFAULT_KIND, service_kind
from lockref.stores.address import StoreAddress
from lockref.temporary_folders import owned_folder
from lockref.words import ABSENT, Kind, detail
from reports.checks.situation_names import STRUCK
from reports.checks.thresholds.limits import TASKS_LEFT, measures_of
from reports.history_files import write_runs
from scenarios.backends.server_process import RestartableServer
from scenarios.definition.draw import Draws, draw_scenario
from scenarios.definition.fault_plan import draw_plan, written_faults
from scenarios.definition.mixture import Mixture, node_options
from scenarios.definition.schema import CLIENTS_MAX, DeclaredNode, Scenario
from scenarios.injection.feasible import require_possible, require_reachable, struck_processes
from scenarios.injection.session import Injection
from scenarios.workloads import DELTA_LOG, RESOURCES
from scenarios.workloads.delta.item_queue import QUEUE, ItemQueue
from scenarios.workloads.delta.landings import settle
from scenarios.workloads.delta.log_files import Log
from scenarios.workloads.delta.places import LogPlaces, places_beside, table_of
from scenarios.workloads.delta.struck_log import struck_log
from scenarios.workloads.resource import ByService, LocalChannel, ResourceHost, resource_services
from scenarios.worlds.host_watch import HostWatch
from scenarios.worlds.injected import injected_workers, injection_of
from scenarios.worlds.processes.companions import Companions
from scenarios.worlds.processes.workers import LostWorker, Reports, Workers
from scenarios.worlds.threads import LOG_TIMEOUT_NS, ClientThreads, Job
from sim.faults.counts import fault_effects
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.kernel.streams import stream

PROBE_TIMEOUT_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOutcome:
    """The history of one real run. `unfinished`: the clients whose last call had not returned when it was cut off.

    is_interrupted: Ctrl-C cut it off. lost: the worker processes that died; the record has a FAULT row of kind crash
    for each of their clients. plan: what disturbed it; fault_counts: fault id to (armed, fired, mattered).
    """

    events: pa.Table
    runs: pa.Table
    plan: FaultPlan = EMPTY_PLAN
    fault_counts: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    is_interrupted: bool = False
    lost: tuple[LostWorker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEvents:
    """Events of a run that stand in its folder already: how many, and when the last fault struck; None: none did."""

    count: int
    last_fault_ns: int | None


class WindowKeeper(Protocol):
    """Keeps the events of a run that is recorded in windows, and takes them out of the spool while the run goes on."""

    @property
    def windows(self) -> Windows: ...

    def keep_rest(self, *, until_ns: int | None) -> KeptEvents:
        """Keep all that is left in the spool, up to an instant; None for all. The run has ended, and records no more.

        Raises HistoryUnreadable for a spool that was damaged.
        """
        ...


def run_real(
    scenario: Scenario,
    spec: ProviderSpec,
    store_uri: str,
    *,
    clients: int | None = None,
    duration_ns: int | None = None,
    processes: int = 1,
    seed: int = 0,
    folder: Path | None = None,
    raise_if_interrupted: Callable[[], None] = lambda: None,
    places: LogPlaces | None = None,
    plan: FaultPlan | None = None,
    server: RestartableServer | None = None,
    keeper: WindowKeeper | None = None,
) -> RealOutcome:
    """Run a scenario against the store at `store_uri`, with its fault plan.

    clients: total, default the scenario's. duration_ns: after it no client
    begins another cycle. processes: 1 keeps all clients in this process.
    seed: draws what the clients do; the run itself is not replayable.
    raise_if_interrupted: asked every second while the clients contend; raises a KeyboardInterrupt that Python dropped.
    folder: where the record is while the run lasts, and stays if it is killed or fails: a spool and `runs.parquet`,
        which `write_history` replaces. Default a temporary one.
    places: of the logs, where the clients commit to such. Default beside the locks.
    plan: in the place of what the seed draws. server: the store's, where it was started here.
    keeper: of a long run. The clients then have processes of their own in any case, a store in memory answers at once,
        and the history stands in `folder`: `events` of the outcome is empty.
    Errors: ConfigError for a plan that no real run can carry out, for a bad store or count, and for faults of a
    process that has several clients; CapabilityMissing for faults on requests of a store without HTTP;
    BackendUnavailable if the store does not answer.
    KeyboardInterrupt while the clients contend cuts the run off.
    """
    count = scenario.clients if clients is None else clients
    mixture = Mixture(scenario, spec)
    plan = require_feasible(scenario, seed=seed, plan=plan, stands_on=mixture.stands_on)
    shared_uri = _usable(scenario, store_uri, plan, clients=count, processes=processes, server=server)
    if scenario.workload.kind == DELTA_LOG and places is None:
        places = places_beside(shared_uri)
    runtime = ThreadRuntime()
    drawn = draw_scenario(scenario, seed)
    job = Job(
        scenario=scenario,
        drawn=drawn if duration_ns is None else drawn.lasting(duration_ns),
        spec=spec,
        store_uri=shared_uri,
        key=f"lockref-{runtime.token_bytes(6).hex()}/{spec.default_lock_key}",
        names=tuple(f"n{number}" for number in range(1, count + 1)),
        seed=seed,
        first_number=1,
        places=places,
        is_log_struck=scenario.workload.kind == DELTA_LOG and bool(plan.faults),
        windows=None if keeper is None else keeper.windows,
        is_on_a_network=keeper is None,
    )
    # One request before the clients start: a service that does not answer is one error, not a hundred.
    service_kind(mixture.stands_on).require(parse_store_uri(shared_uri), job.key, PROBE_TIMEOUT_NS)
    has_struck_nodes = not struck_processes(plan).isdisjoint(mixture.nodes)
    jobs = _shared_out(job, processes, nodes=mixture.nodes if has_struck_nodes else {})
    row = _row(job, parse_store_uri(store_uri), processes=None if plan.faults else processes)
    with _recording(folder) as (kept, spool):
        recorder = recorder_of(job.windows, spool, 0, runtime.monotonic_ns())
        recorder.is_detailed = scenario.needs_detail
        # Nodes that a fault strikes have processes of their own.
        companions = _companions(
            job, {} if has_struck_nodes else mixture.nodes, mixture.decode, recorder, runtime, processes=processes
        )
        write_runs(kept, runs_table([row]))
        with companions, contextlib.ExitStack() as stack:
            # The injection ends first: what it has on its way needs the resource.
            count = sum(len(each.names) for each in jobs)
            resource = stack.enter_context(closing(_resource(jobs[0], recorder, runtime, clients=count)))
            injection = None
            if plan.faults:
                injection = stack.enter_context(
                    injection_of(plan, jobs, recorder=recorder, runtime=runtime, decode=mixture.decode, server=server)
                )
            with HostWatch(runtime) as host:
                reports = _contend(
                    jobs,
                    row,
                    recorder,
                    resource,
                    runtime=runtime,
                    kept=kept,
                    spool=spool,
                    raise_if_interrupted=raise_if_interrupted,
                    injection=injection,
                )
            row["host_late_ns"] = max(host.late_ns, reports.host_late_ns)
            if TASKS_LEFT in measures_of(scenario.thresholds) and reports.is_complete:
                row["tasks_left"] = sorted(reports.tasks_left)
        _record_what_clients_could_not(job, reports, recorder, spool)
        end_ns = runtime.monotonic_ns() if reports.cut_ns is None else reports.cut_ns
        if keeper is None:
            events, kept_events = read_spool(spool), None
        else:
            events, kept_events = SCHEMA.empty_table(), keeper.keep_rest(until_ns=reports.cut_ns)
    if injection is not None:
        row["fault_effects"] = fault_effects(injection.work.counts())
    outcome = _outcome(row, events, reports, end_ns, kept_events)
    return outcome if injection is None else replace(outcome, plan=plan, fault_counts=injection.work.counts())


def _record_what_clients_could_not(job: Job, reports: Reports, recorder: Recorder, spool: Path) -> None:
    """Record the crash of each lost process, and what nobody told the clients of their logs. job: of all clients.

    Errors: BackendUnavailable if a log cannot be read.
    """
    last_of = last_event_ns if job.windows is None else last_event_of
    reports.lost[:] = [_at_its_last_event(worker, last_of(spool, worker.number)) for worker in reports.lost]
    _record_crashes(recorder, reports.lost)
    workload = job.scenario.workload
    if job.places is not None and workload.kind == DELTA_LOG:
        _settle(job.places, {table_of(workload, name, job.key) for name in job.names}, recorder, spool)


def _companions(
    job: Job,
    nodes: Mapping[str, DeclaredNode],
    decode: StateDecoder,
    recorder: Recorder,
    runtime: ThreadRuntime,
    *,
    processes: int,
) -> Companions:
    """The nodes that are no clients, in this process. processes: how many have the clients."""
    store = parse_store_uri(job.store_uri)

    def settings(node: DeclaredNode) -> LockSettings:
        everybodys = job.drawn.lock_settings(job.scenario.lock, key=job.key)
        return replace(everybodys, options=node_options(job.scenario.workload, job.key, node))

    return Companions(
        nodes,
        settings=settings,
        channel=lambda node, kind, timeout_ns: kind.channel(store, node, timeout_ns, 1),
        decode=decode,
        recorder=recorder,
        runtime=runtime,
        first_number=1 + processes * REQUESTS_PER_PROCESS,
    )


def _row(job: Job, address: StoreAddress, *, processes: int | None) -> RunRow:
    """The row of the runs table that describes the run. job: of all clients.

    processes: None for a run with a fault plan: there each client has a process of its own, and some are kept from the
    lock on purpose.
    """
    row = job.drawn.run_row(job.scenario, job.spec, clients=len(job.names), lock=job.key)
    must_happen = row["must_happen"] if processes is not None else [*row["must_happen"], STRUCK]
    # The end of the run changes `is_cut_off`: a run that is killed stays cut off.
    return {
        **row,
        "run": 0,
        "seed": job.seed,
        "world": "real",
        "processes": processes,
        "backend": str(address),
        "must_happen": must_happen,
        "is_cut_off": True,
    }


def _shared_out(job: Job, processes: int, *, nodes: Mapping[str, DeclaredNode]) -> list[Job]:
    """The clients of a job shared out among processes, and each of the nodes in a process of its own."""
    clients = [replace(job, names=job.names[part::processes]) for part in range(processes)]
    others = [replace(job, names=(name,), node=node) for name, node in nodes.items()]
    return [
        replace(each, first_number=1 + part * REQUESTS_PER_PROCESS) for part, each in enumerate([*clients, *others])
    ]


def _contend(
    jobs: Sequence[Job],
    row: RunRow,
    recorder: Recorder,
    resource: Channel,
    *,
    runtime: ThreadRuntime,
    kept: Path,
    spool: Path,
    raise_if_interrupted: Callable[[], None],
    injection: Injection | None,
) -> Reports:
    """Let the clients of all jobs contend; what they reported.

    row: describes the run. It is written into `kept` when the clients are let go. resource: shared by all clients.
    """

    def began(request_timeout_ns: int) -> int:
        start_ns = runtime.monotonic_ns() if injection is None else injection.work.begin()
        row.update({"request_timeout_ns": request_timeout_ns, "faults_end_ns": start_ns})
        write_runs(kept, runs_table([row]))
        return start_ns

    if injection is not None:
        with injected_workers(jobs, injection, resource, runtime, spool, raise_if_interrupted) as workers:
            start_ns = began(workers.gather())
            reports = workers.run(start_ns)
        injection.work.raise_failure()
        end_ns = injection.work.end_ns()
        row["faults_end_ns"] = None if end_ns is None else start_ns + end_ns
        return reports
    if len(jobs) == 1 and jobs[0].windows is None:
        threads = ClientThreads(jobs[0], recorder=recorder, resource=resource, runtime=runtime)
        return _alone(threads, began, raise_if_interrupted)
    with Workers(jobs, resource, runtime, spool, raise_if_interrupted) as workers:
        return workers.run(began(workers.gather()))


def _resource(job: Job, recorder: Recorder, runtime: ThreadRuntime, *, clients: int) -> Channel:
    """The resource that the clients of all processes share. clients: how many these are."""
    workload = job.scenario.workload
    if workload.kind == DELTA_LOG:
        channels: dict[str, Channel] = {}
        if workload.has_queue:
            chooser = stream(job.seed, "workload/visibility")
            queue = ItemQueue(now_ns=runtime.monotonic_ns, visibility_ns=lambda: workload.visibility.draw(chooser))
            channels[QUEUE.name] = LocalChannel({QUEUE.name: queue}, runtime.mutex())
        if job.is_log_struck:
            assert job.places is not None, "a run with a Delta log says where that is"
            channels |= struck_log(job.scenario, job.places, recorder, runtime, clients=clients)
        return ByService(channels)
    made = RESOURCES[workload.kind]
    hosts = {
        service: ResourceHost(made(), recorder=recorder, true_ns=runtime.monotonic_ns, lock=lock)
        for lock, service in resource_services(workload.lock_names(job.key)).items()
    }
    return LocalChannel(hosts, runtime.mutex())


def _settle(places: LogPlaces, tables: Iterable[str], recorder: Recorder, spool: Path) -> None:
    """Record what the clients could not know of their logs. Errors: BackendUnavailable if a log cannot be read."""
    with closing(open_store(places.objects, request_timeout_ns=LOG_TIMEOUT_NS)) as store:
        try:
            settle(recorder, read_spool(spool), [Log(store, table) for table in sorted(tables)])
        except OutcomeUnknown as error:
            raise BackendUnavailable(f"a log cannot be read after the run: {error}") from error


def _outcome(row: RunRow, events: pa.Table, reports: Reports, end_ns: int, kept: KeptEvents | None) -> RealOutcome:
    """The history of a run that is over. row: what was known of it when its clients were let go.

    kept: the events, where they stand in its folder already.
    """
    if reports.cut_ns is not None:
        # Clients go on until their process ends, and processes end one after the other.
        events = events.filter(pc.less_equal(events["at_ns"], end_ns))
    row.update(
        {
            "request_timeout_ns": reports.request_timeout_ns,
            # A process that dies disturbs the run like any fault.
            "faults_end_ns": _last_fault_ns(events, row["faults_end_ns"], None if kept is None else kept.last_fault_ns),
            "end_ns": end_ns,
            "is_cut_off": reports.cut_ns is not None or bool(reports.unfinished),
            "digest": digests(events).get(0),
            "event_count": len(events) if kept is None else kept.count,
        }
    )
    return RealOutcome(
        events=events,
        runs=runs_table([row]),
        unfinished=tuple(reports.unfinished),
        is_interrupted=reports.cut_ns is not None,
        lost=tuple(reports.lost),
    )


def _last_fault_ns(events: pa.Table, planned_ns: int | None, kept_ns: int | None) -> int | None:
    """When the last fault struck or ended, after which nothing disturbs the run; not before the plan's own end.

    planned_ns: that end; None if a fault of the plan never ends. kept_ns: of events that are kept already.
    """
    if planned_ns is None:
        return None
    instants = events.filter(pc.equal(events["kind"], Kind.FAULT.name.lower()))["at_ns"]
    last_ns: int = max([*instants.to_pylist(), planned_ns, kept_ns or planned_ns])
    return last_ns


@contextmanager
def _recording(folder: Path | None) -> Iterator[tuple[Path, Path]]:
    """The folder of the run and the spool in it."""
    if folder is None:
        with (
            owned_folder("recording") as own,
            _recording(own) as made,
        ):
            yield made
        return
    spool = folder / SPOOL
    begin_spool(spool)
    yield folder, spool


def _alone(threads: ClientThreads, began: Callable[[int], int], raise_if_interrupted: Callable[[], None]) -> Reports:
    """Run all clients in this process. began: called when they are ready, answers the start."""
    reports = Reports()
    # Standard output is the command's own.
    with redirect_stdout(sys.stderr):
        threads.gather()
        start_ns = began(threads.request_timeout_ns)
        threads.go()
        try:
            reports.unfinished += threads.finish(start_ns, raise_if_interrupted)
            reports.tasks_left += threads.tasks_left()
        except KeyboardInterrupt:
            reports.cut_ns = threads.runtime.monotonic_ns()
            reports.unfinished += threads.unfinished()
    reports.request_timeout_ns = threads.request_timeout_ns
    return reports


def _at_its_last_event(worker: LostWorker, last_ns: int | None) -> LostWorker:
    """The worker as one that died right after the last event that it recorded, not when that was noticed.

    It did nothing in between. One that was frozen for that time could not even report that its grant was over.
    """
    return worker if last_ns is None else replace(worker, at_ns=last_ns + 1)


def _record_crashes(recorder: Recorder, lost: Sequence[LostWorker]) -> None:
    """A process that died took its clients along: the judge must know whose calls stay open, and who may take over."""
    for worker in lost:
        for client in worker.clients:
            fault = detail(id=f"worker-{worker.number}", kind="crash", phase="begin")
            recorder.event(Kind.FAULT, (worker.at_ns, ABSENT, ABSENT, ""), client, detail=fault)


def require_feasible(
    scenario: Scenario, *, seed: int = 0, plan: FaultPlan | None = None, stands_on: str = DEFAULT_KIND
) -> FaultPlan:
    """The plan of a real run, known before any server is started.

    plan: in the place of what the seed draws. stands_on: the kind of service that the lock is made for; only one with
    sessions has nodes that are no clients.
    Raises ConfigError for faults, services or nodes that no real run has; CapabilityMissing where processes cannot be
    stopped.
    """
    # Beside the store, a real run has what the clients' own work needs, and nothing else.
    has = {DEFAULT_STORE, scenario.declared_for_work()}
    for what, names in (
        ("services", [name for name in scenario.services if name not in has]),
        ("nodes", [] if service_kind(stands_on).has_sessions else list(scenario.nodes)),
    ):
        if names:
            raise ConfigError(
                f"scenario {scenario.name!r} declares the {what} {', '.join(names)}; "
                "only the simulated world has such: run it with `lockref sim`"
            )
    if plan is not None:
        return require_possible(scenario, plan)
    plan = draw_plan(scenario, draw_scenario(scenario, seed), seed)
    written = {fault.id for fault in written_faults(scenario, Draws(seed))}
    return require_possible(scenario, plan, drawn={fault.id for fault in plan.faults} - written)


def require_counts(*, clients: int, processes: int) -> None:
    """Raise ConfigError for a number of clients or processes that no run can have; no server need be started for it."""
    if not 1 <= clients <= CLIENTS_MAX:
        raise ConfigError(f"{clients} clients; expected 1 to {CLIENTS_MAX}")
    if not 1 <= processes <= clients:
        raise ConfigError(f"{processes} processes for {clients} clients; expected 1 to {clients}")


def _usable(
    scenario: Scenario,
    store_uri: str,
    plan: FaultPlan,
    *,
    clients: int,
    processes: int,
    server: RestartableServer | None,
) -> str:
    """The address that all openings of the run share. Raises what `run_real` raises for requests it cannot serve."""
    require_counts(clients=clients, processes=processes)
    if plan.faults and processes != clients:
        raise ConfigError(
            f"scenario {scenario.name!r} strikes processes, and each has one client then: "
            f"{clients} clients need {clients} processes, not {processes}"
        )
    address = parse_store_uri(store_uri)
    require_reachable(plan, address, server=server)
    if cloud_of(address).is_in_process:
        if processes > 1:
            raise CapabilityMissing(
                "a store in memory belongs to one process: take file:, s3:, gs: or dynamodb: for several"
            )
        # Without a name each opening would give a store of its own.
        store_uri = f"memory:{address.container or 'run'}"
    return store_uri
