"""Contention on a real store: threads, processes, the wall clock.

All clients of a process are threads on one ThreadRuntime; they make their
locks, meet at a barrier, and start together. The protected resource lives in
the process that called `run_real`: for its own threads behind a mutex, for
those of worker processes at the end of a pipe. So the EFFECT rows are written
by the resource at the instant of application, in one order, in every case.

True time is the host's monotonic clock, which its processes share; a run that
spans hosts cannot be recorded in this way.

A real run injects no faults, and it is not replayable: what remains is its
history, which `lockref check` judges again at any time.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError, LockError, LockrefError, OutcomeUnknown
from lockref.history import SCHEMA, Recorder, TrueNs, runs_table, to_table
from lockref.provider import LockContext, LockEvent
from lockref.providers import ProviderSpec
from lockref.recording import Journal, RecordingStore, host_stamp
from lockref.runtime import NS_PER_S, Task, ThreadRuntime
from lockref.stores.port import ObjectStore, Outcome
from lockref.stores.uri import open_store, parse_store_uri
from scenarios.blame import blamed, is_providers_fault
from scenarios.cast import Cast
from scenarios.schema import CLIENTS_MAX, Scenario
from scenarios.settle import Settled, habits_of, settle
from scenarios.workloads import RESOURCES
from scenarios.workloads.client import Client
from scenarios.workloads.life import live, tasks_of
from scenarios.workloads.resource import Effect, LocalLink, ResourceHost, ResourceLink, Write
from scenarios.workloads.scarcity import runtime_for
from sim.streams import stream

NUMBERS_PER_PROCESS = 10**12
PROBE_TIMEOUT_NS = 5 * NS_PER_S
START_TIMEOUT_NS = 60 * NS_PER_S
POOL_MAX = 1024
GRACE_S = 15
"""How long after the end of the run its calls may still take; then it counts as cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOutcome:
    """The history of one real run. `unfinished`: the clients whose last call had not returned when it was cut off.

    is_interrupted: Ctrl-C cut it off.
    """

    events: pa.Table
    runs: pa.Table
    unfinished: tuple[str, ...] = ()
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What one process is to do; crosses to worker processes by pickling."""

    scenario: Scenario
    settled: Settled
    spec: ProviderSpec
    store_uri: str
    key: str
    names: tuple[str, ...]
    seed: int
    first_number: int


class _Crew:
    """The clients of one process."""

    def __init__(self, job: _Job, *, recorder: Recorder, link: ResourceLink, runtime: ThreadRuntime) -> None:
        self.job = job
        self.runtime = runtime
        self.recorder = recorder
        self.link = link
        self.request_timeout_ns = 0
        self.failures: list[BaseException] = []
        self._numbers = itertools.count(job.first_number)
        self._stores: dict[int, ObjectStore] = {}
        self._mutex = runtime.mutex()
        self._ready = runtime.event()
        self._go = runtime.event()
        self._waiting = 0
        self._tasks: dict[str, Task] = {}

    def gather(self) -> None:
        """Start every client and wait until all stand at the barrier."""
        for name in self.job.names:
            self._tasks[name] = self.runtime.spawn(lambda name=name: self._live(name), name="main")  # type: ignore[misc]
        if not self._ready.wait(START_TIMEOUT_NS):
            raise BackendUnavailable(
                f"{len(self.job.names) - self._waiting} of {len(self.job.names)} clients were not ready after "
                f"{START_TIMEOUT_NS // NS_PER_S} s: does {parse_store_uri(self.job.store_uri)} answer?"
            )
        self.raise_failure()

    def go(self) -> None:
        self._go.set()

    def finish(self, deadline_ns: int) -> tuple[str, ...]:
        """Wait for every client until `deadline_ns` of the monotonic clock; the names of those that still run."""
        for task in self._tasks.values():
            task.join(max(0, deadline_ns - self.runtime.monotonic_ns()))
        self.raise_failure()
        unfinished = self.unfinished()
        if not unfinished:
            for store in self._stores.values():
                store.close()
        return unfinished

    def unfinished(self) -> tuple[str, ...]:
        """The clients that still run."""
        return tuple(name for name, task in self._tasks.items() if task.is_alive())

    def raise_failure(self) -> None:
        """What a client's thread raised, raised again where somebody listens."""
        if self.failures:
            raise self.failures[0]

    def _store(self, request_timeout_ns: int) -> ObjectStore:
        """Equal timeouts share a client, and so its connections."""
        with self._mutex:
            self.request_timeout_ns = max(self.request_timeout_ns, request_timeout_ns)
            if request_timeout_ns not in self._stores:
                self._stores[request_timeout_ns] = open_store(
                    self.job.store_uri,
                    request_timeout_ns=request_timeout_ns,
                    pool_size=min(POOL_MAX, 2 * len(self.job.names)),
                )
            return self._stores[request_timeout_ns]

    def _arrive(self) -> None:
        with self._mutex:
            self._waiting += 1
            if self._waiting == len(self.job.names):
                self._ready.set()

    def _live(self, name: str) -> None:
        try:
            self._work(name)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            spec = self._spec_of(name)
            is_blamed = not isinstance(error, ConfigError) and is_providers_fault(error, spec)
            self.failures.append(blamed(error, spec, f"client {name}") if is_blamed else error)
            self._ready.set()

    def _spec_of(self, name: str) -> ProviderSpec:
        return Cast(self.job.scenario, self.job.spec).of(name)

    def _listens(self, work: Callable[[], None], name: str, task: str) -> Callable[[], None]:
        """`work` of a lock's own task; what a stranger's raises there ends the run as it does in a simulation."""

        def listened() -> None:
            try:
                work()
            except BaseException as error:
                spec = self._spec_of(name)
                if not is_providers_fault(error, spec):
                    raise
                self.failures.append(blamed(error, spec, f"task {name}/{task}"))

        return listened

    def _work(self, name: str) -> None:
        job, runtime = self.job, self.runtime
        mine: list[Client] = []
        spec = self._spec_of(name)
        journal = Journal(self.recorder, node=name, stamp=host_stamp(runtime), numbers=self._numbers)

        def heard(event: LockEvent) -> None:
            for client in mine:
                client.heard(event)

        habits = habits_of(job.scenario, job.settled, name)
        context = LockContext(
            runtime=runtime_for(_ListeningRuntime(runtime, self, name), habits),
            open_store=lambda timeout_ns: RecordingStore(self._store(timeout_ns), journal=journal, decode=spec.decode),
            settings=job.settled.lock_settings(key=job.key, options=job.scenario.lock.options),
            listener=heard,
        )
        provider = spec.factory(context)
        reads_first = RESOURCES[job.scenario.workload.kind]().reads_first
        life = job.scenario.workload.life
        tasks = tasks_of(life)
        mine += [
            Client(
                node=name,
                task=task,
                runtime=runtime,
                recorder=self.recorder,
                true_ns=runtime.monotonic_ns,
                next_number=journal.next_number,
                provider=provider,
                link=self.link,
                reads_first=reads_first,
                lock=job.key,
            )
            for task in tasks
        ]
        streams = [stream(job.seed, f"workload/{name}/{task}") for task in tasks]
        self._arrive()
        self._go.wait()
        live(life, mine, habits, streams)
        with suppress(LockError):
            provider.close()


class _ListeningRuntime:
    """A machine's runtime as a lock gets it: what its tasks raise is heard, not printed by a dying thread."""

    def __init__(self, runtime: ThreadRuntime, crew: _Crew, name: str) -> None:
        self._spawn = runtime.spawn
        self._crew = crew
        self._name = name
        # Taken over once: a bench measures what a lock asks of its clocks.
        self.random = runtime.random
        self.wall_ns, self.monotonic_ns, self.sleep = runtime.wall_ns, runtime.monotonic_ns, runtime.sleep
        self.mutex, self.event = runtime.mutex, runtime.event
        self.token_bytes, self.current_task = runtime.token_bytes, runtime.current_task
        self.process_id = runtime.process_id

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        return self._spawn(self._crew._listens(work, self._name, name), name=name)  # noqa: SLF001 - one object in two


def run_real(
    scenario: Scenario,
    spec: ProviderSpec,
    store_uri: str,
    *,
    clients: int | None = None,
    duration_ns: int | None = None,
    processes: int = 1,
    seed: int = 0,
) -> RealOutcome:
    """Run a scenario without faults against the store at `store_uri`.

    clients: total, default the scenario's. duration_ns: after it no client
    begins another cycle. processes: 1 keeps all clients in this process.
    seed: draws the clients' habits; the run itself is not replayable.
    Errors: CapabilityMissing for a scenario with faults; ConfigError for a bad
    store or count; BackendUnavailable if the store does not answer.
    KeyboardInterrupt while the clients contend cuts the run off.
    """
    count = scenario.clients if clients is None else clients
    shared_uri = _usable(scenario, store_uri, clients=count, processes=processes)
    runtime = ThreadRuntime()
    run_id = runtime.token_bytes(6).hex()
    key = f"lockref-{run_id}/.hoodie/.locks/table_lock.json"
    _probe(shared_uri, key)
    settled = settle(scenario, seed)
    if duration_ns is not None:
        settled = settled.lasting(duration_ns)
    names = tuple(f"n{number}" for number in range(1, count + 1))
    recorder = Recorder()
    host = ResourceHost(RESOURCES[scenario.workload.kind](), recorder=recorder, true_ns=runtime.monotonic_ns, lock=key)
    link = LocalLink(host, runtime.mutex())
    jobs = [
        _Job(
            scenario=scenario,
            settled=settled,
            spec=spec,
            store_uri=shared_uri,
            key=key,
            names=names[part::processes],
            seed=seed,
            first_number=1 + part * NUMBERS_PER_PROCESS,
        )
        for part in range(processes)
    ]
    start_ns = runtime.monotonic_ns()
    is_interrupted, end_ns = False, 0
    if processes == 1:
        crew = _Crew(jobs[0], recorder=recorder, link=link, runtime=runtime)
        # Standard output is the command's own.
        with redirect_stdout(sys.stderr):
            crew.gather()
            start_ns = runtime.monotonic_ns()
            crew.go()
            try:
                unfinished = crew.finish(_deadline(start_ns, settled))
            except KeyboardInterrupt:
                is_interrupted, unfinished = True, crew.unfinished()
        tables, request_timeout_ns = [to_table([recorder])], crew.request_timeout_ns
    else:
        told = _run_workers(jobs, link, runtime)
        tables, unfinished, request_timeout_ns = told.tables, tuple(told.unfinished), told.request_timeout_ns
        tables.insert(0, to_table([recorder]))
        if told.cut_ns is not None:
            # Processes stop one after the other; up to here every record is whole.
            is_interrupted, end_ns = True, told.cut_ns
            tables = [table.filter(pc.less_equal(table["at_ns"], end_ns)) for table in tables]
    events = _one_run(tables)
    row = {
        **settled.run_row(scenario, spec),
        "run": 0,
        "seed": seed,
        "world": "real",
        "backend": str(parse_store_uri(store_uri)),
        "clients": count,
        "request_timeout_ns": request_timeout_ns,
        "faults_end_ns": start_ns,
        "end_ns": end_ns or runtime.monotonic_ns(),
        "is_cut_off": is_interrupted or bool(unfinished),
    }
    return RealOutcome(events=events, runs=runs_table([row]), unfinished=unfinished, is_interrupted=is_interrupted)


def require_undisturbed(scenario: Scenario) -> None:
    """Raise CapabilityMissing for a scenario with faults: it is known before any server is started."""
    if scenario.disturbs:
        raise CapabilityMissing(
            f"scenario {scenario.name!r} injects faults, which only the simulated world can: "
            "run it with `lockref sim`, or take a scenario without faults such as contention"
        )


def _usable(scenario: Scenario, store_uri: str, *, clients: int, processes: int) -> str:
    """The address that all openings of the run share. Raises what `run_real` raises for requests it cannot serve."""
    require_undisturbed(scenario)
    if not 1 <= clients <= CLIENTS_MAX:
        raise ConfigError(f"{clients} clients; expected 1 to {CLIENTS_MAX}")
    if not 1 <= processes <= clients:
        raise ConfigError(f"{processes} processes for {clients} clients; expected 1 to {clients}")
    address = parse_store_uri(store_uri)
    if address.scheme == "memory":
        if processes > 1:
            raise CapabilityMissing("a store in memory belongs to one process: take file:, s3: or gs: for several")
        # Without a name each opening would give a store of its own.
        store_uri = f"memory:{address.container or 'run'}"
    return store_uri


def _deadline(start_ns: int, settled: Settled) -> int:
    return start_ns + settled.duration_ns + GRACE_S * NS_PER_S


def _probe(store_uri: str, key: str) -> None:
    """One read before the clients start: a store that does not answer is one error, not a hundred."""
    store = open_store(store_uri, request_timeout_ns=PROBE_TIMEOUT_NS)
    reply = store.read(key)
    store.close()
    if reply.outcome is not Outcome.APPLIED:
        status = f"status {reply.status}, " if reply.status is not None else ""
        raise BackendUnavailable(
            f"{parse_store_uri(store_uri)} does not serve reads ({status}{reply.outcome.name.lower()}: "
            f"{reply.reason or 'no reason given'}) within {PROBE_TIMEOUT_NS // NS_PER_S} s"
        )


def _one_run(tables: list[pa.Table]) -> pa.Table:
    """Several recorders' rows as one run, in the order of true time. The sort is stable: each thread's order stays."""
    joined = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    joined = joined.take(pc.sort_indices(joined, sort_keys=[("at_ns", "ascending")]))
    rows = len(joined)
    columns = {"run": pa.array([0] * rows, pa.int64()), "seq": pa.array(range(rows), pa.int64())}
    return pa.table([columns.get(field.name, joined.column(field.name)) for field in SCHEMA], schema=SCHEMA)


# Worker processes.


class _PipeLink:
    """The resource at the other end of a pipe; one request at a time and process."""

    def __init__(self, pipe: Connection, runtime: ThreadRuntime) -> None:
        self._pipe = pipe
        self._mutex = runtime.mutex()

    def _ask(self, request: Write | None) -> object:
        with self._mutex:
            try:
                self._pipe.send(request)
                return self._pipe.recv()
            except (EOFError, OSError) as error:
                raise OutcomeUnknown("the resource's process is gone") from error

    def state(self) -> str:
        return str(self._ask(None))

    def write(self, write: Write) -> Effect:
        effect = self._ask(write)
        assert isinstance(effect, Effect), "the resource answers a write with its effect"
        return effect


def _worker(job: _Job, control: Connection, resource: Connection) -> None:
    """A worker process: gather, report ready, wait for the start, run, hand the history over."""
    # A terminal's Ctrl-C reaches every process; the one that was asked for the run passes it on in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runtime = ThreadRuntime()
    recorder = Recorder()
    crew = _Crew(job, recorder=recorder, link=_PipeLink(resource, runtime), runtime=runtime)
    try:
        with redirect_stdout(sys.stderr):
            crew.gather()
            control.send("ready")
            start_ns = int(control.recv())
            crew.go()
            try:
                unfinished = crew.finish(_deadline(start_ns, job.settled))
            except KeyboardInterrupt:
                unfinished = crew.unfinished()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except LockrefError as error:
        control.send((type(error), str(error)))
        return
    sink = pa.BufferOutputStream()
    table = to_table([recorder])
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    control.send((sink.getvalue().to_pybytes(), unfinished, crew.request_timeout_ns))


def _serve(link: ResourceLink, pipe: Connection) -> Callable[[], None]:
    """Answer one worker's requests until it hangs up."""

    def serve() -> None:
        while True:
            try:
                request = pipe.recv()
                pipe.send(link.state() if request is None else link.write(request))
            except (EOFError, OSError):
                return

    return serve


@dataclass(slots=True)
class _HandedOver:
    """What the workers of a run told, together. cut_ns: when Ctrl-C came, while all of them still recorded."""

    tables: list[pa.Table] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    request_timeout_ns: int = 0
    cut_ns: int | None = None

    def add(self, answer: object) -> None:
        assert isinstance(answer, tuple), "a worker hands over bytes, names and a timeout"
        body, names, timeout_ns = answer
        self.tables.append(pa.ipc.open_stream(body).read_all())
        self.unfinished += names
        self.request_timeout_ns = max(self.request_timeout_ns, timeout_ns)


def _run_workers(jobs: list[_Job], link: ResourceLink, runtime: ThreadRuntime) -> _HandedOver:
    # Spawned, not forked: a fork in a process with threads may inherit a held mutex.
    context = multiprocessing.get_context("spawn")
    controls: list[Connection] = []
    workers = []
    for number, job in enumerate(jobs):
        control, control_there = context.Pipe()
        resource, resource_there = context.Pipe()
        worker = context.Process(
            target=_worker, args=(job, control_there, resource_there), name=f"lockref-{number}", daemon=True
        )
        worker.start()
        control_there.close()
        resource_there.close()
        runtime.spawn(_serve(link, resource), name=f"resource-{number}")
        controls.append(control)
        workers.append(worker)
    try:
        for control in controls:
            _received(control, START_TIMEOUT_NS // NS_PER_S + GRACE_S)
        start_ns = TrueNs(runtime.monotonic_ns())
        for control in controls:
            control.send(start_ns)
        told = _HandedOver()
        patience_s = jobs[0].settled.duration_ns // NS_PER_S + 4 * GRACE_S
        for control in controls:
            try:
                answer = _received(control, patience_s)
            except KeyboardInterrupt:
                told.cut_ns = runtime.monotonic_ns()
                for worker in workers:
                    worker.terminate()
                # A second Ctrl-C is not waited out.
                answer = _received(control, GRACE_S)
            told.add(answer)
        return told
    finally:
        for worker in workers:
            worker.join(1)
            if worker.is_alive():
                worker.kill()


def _received(control: Connection, patience_s: float) -> object:
    """A worker's message; its error is raised here."""
    try:
        if not control.poll(patience_s):
            raise BackendUnavailable(f"a worker process did not answer within {patience_s:g} s")
        message = control.recv()
    except EOFError as error:
        raise BackendUnavailable("a worker process ended before its work was done; its last words are above") from error
    if isinstance(message, tuple) and isinstance(message[0], type):
        raise message[0](message[1])
    return message
