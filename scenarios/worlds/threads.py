"""The clients of one process of a real run: threads that meet at a barrier and start together.

An error that a client's thread raises, or a task that its lock has spawned, is
kept, and `ClientThreads` raises it in the thread that waits for the clients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lockref.clouds.uri import cloud_of, open_store, parse_store_uri
from lockref.dynamodb.table import TABLE
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.history import Recorder
from lockref.lab.loading import ProviderSpec
from lockref.lab.recording import Journal, host_stamp, recorded_port
from lockref.lab.windows import Windows
from lockref.ports import Channel, PortKind
from lockref.provider import DEFAULT_STORE
from lockref.runtime import NS_PER_S, Task, ThreadRuntime
from lockref.services import ServiceKind, service_kind
from lockref.stores.client import OBJECT_STORE, StoreChannel
from reports.checks.thresholds.limits import TASKS_LEFT, measures_of
from scenarios.definition.draw import DrawnScenario, profile_of
from scenarios.definition.mixture import Mixture
from scenarios.definition.schema import DeclaredNode, Scenario
from scenarios.injection.announcing import Announcements, AnnouncingChannel, RoutedChannel
from scenarios.injection.routes import Routes, through
from scenarios.workloads import DELTA_LOG, reads_first
from scenarios.workloads.delta.committer import Committer
from scenarios.workloads.delta.item_queue import QUEUE
from scenarios.workloads.delta.landings import LandingChannel
from scenarios.workloads.delta.log_files import Log
from scenarios.workloads.delta.log_rows import open_rows
from scenarios.workloads.delta.places import LogPlaces, lock_key_of, table_of
from scenarios.workloads.delta.protocols import PROTOCOLS
from scenarios.workloads.delta.queue_worker import QUEUE_PROTOCOLS, QueueWorker
from scenarios.workloads.delta.writer import Writer
from scenarios.workloads.resource import RESOURCE, RESOURCE_TIMEOUT_NS, OfOneLock, ProtectedResource, resource_services
from scenarios.worlds.attribution import attributed, is_providers_fault
from scenarios.worlds.latency import LatentChannel
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.client_process import ClientProcess, Surroundings
from sim.kernel.streams import Stream, stream
from sim.machine.nodes import PROCESSES_PER_NODE

P = TypeVar("P")

START_TIMEOUT_NS = 60 * NS_PER_S
POOL_MAX = 1024
LOG_TIMEOUT_NS = 20 * NS_PER_S
"""The time-out of one request to a Delta log or to its rows: a small server answers a crowd late, unthrottled."""
GRACE_S = 15
"""How long after the end of the run its calls may still take; then it counts as cut off."""
TASK_END_NS = NS_PER_S
"""A task that a closed lock has told to end may take so long to do so."""
LOOK_NS = NS_PER_S
"""How often whoever waits for the end of a run looks for a Ctrl-C that Python dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of one process; it crosses to worker processes by pickling.

    places: of the logs, where the clients commit to such. is_log_struck: the run has a fault plan, so requests to a log
    go through the process that injects. routes: how its only client reaches the store in such a run.
    node: the program of a process that is no client; its only name is the node's.
    windows: of a run that is recorded in such. is_on_a_network: a store in memory answers as late as over a network, so
    that requests overlap.
    """

    scenario: Scenario
    drawn: DrawnScenario
    spec: ProviderSpec
    store_uri: str
    key: str
    names: tuple[str, ...]
    seed: int
    first_number: int
    places: LogPlaces | None = None
    is_log_struck: bool = False
    routes: Routes = field(default_factory=Routes)
    incarnation: int = 1
    node: DeclaredNode | None = None
    windows: Windows | None = None
    is_on_a_network: bool = True


def process_stream(seed: int, label: str, client: str, incarnation: int) -> Stream:
    """The random stream of a client's process: that of client n3 equals that of the third node of a simulation.

    So a plan from a simulation meets clients that want the lock when they did there.
    """
    return stream(seed, f"{label}/{client}/{PROCESSES_PER_NODE * int(client[1:]) + incarnation}")


class ClientThreads:
    """The clients of one process."""

    def __init__(self, job: Job, *, recorder: Recorder, resource: Channel, runtime: ThreadRuntime) -> None:
        self.job = job
        self.runtime = runtime
        self.recorder = recorder
        self.resource = resource
        self.request_timeout_ns = 0
        self.failures: list[BaseException] = []
        self._numbers = itertools.count(job.first_number)
        self._channels: dict[tuple[str, int], Channel] = {}
        self._mutex = runtime.mutex()
        self._ready = runtime.event()
        self._go = runtime.event()
        self._waiting = 0
        self._begun_ns = 0
        self._tasks: dict[str, Task] = {}
        # The tasks that locks start; kept only where somebody asks how many of them are left.
        self._lock_tasks: list[tuple[str, Task]] = []
        self._keeps_tasks = TASKS_LEFT in measures_of(job.scenario.thresholds)
        assert job.routes == Routes() or len(job.names) == 1, "a fault strikes the process of one client"
        port = job.routes.announce_port
        self._announcements = Announcements(port, runtime.mutex()) if port else None

    def gather(self) -> None:
        """Start every client and wait until all stand at the barrier."""
        for name in self.job.names:
            self._tasks[name] = self.runtime.spawn(lambda name=name: self._run(name), name="main")  # type: ignore[misc]
        ready_ns = self.runtime.monotonic_ns() + START_TIMEOUT_NS
        with beat.under_way(f"provider {self.job.spec.name!r}, {self.job.scenario.name}"):
            while not (is_ready := self._ready.wait(LOOK_NS)) and self.runtime.monotonic_ns() < ready_ns:
                beat.beat()
        if not is_ready:
            raise BackendUnavailable(
                f"{len(self.job.names) - self._waiting} of {len(self.job.names)} clients were not ready after "
                f"{START_TIMEOUT_NS // NS_PER_S} s: does {parse_store_uri(self.job.store_uri)} answer?"
            )
        self.raise_failure()

    def go(self, begun_ns: int = 0) -> None:
        """Let the clients begin. begun_ns: since the run began; much where this process follows one that crashed."""
        self._begun_ns = begun_ns
        self._go.set()

    def finish(self, start_ns: int, raise_if_interrupted: Callable[[], None] = lambda: None) -> tuple[str, ...]:
        """Wait for every client as long as the run may last that began at `start_ns`; who still runs then.

        raise_if_interrupted: asked every second; raises a KeyboardInterrupt that Python dropped.
        """
        deadline_ns = start_ns + self.job.drawn.duration_ns + GRACE_S * NS_PER_S
        with beat.under_way(f"provider {self.job.spec.name!r}, {self.job.scenario.name}"):
            for task in self._tasks.values():
                left_ns = deadline_ns - self.runtime.monotonic_ns()
                while left_ns > 0 and not task.join(min(left_ns, LOOK_NS)):
                    # A lock that hangs in C code and keeps the interpreter lets this thread run no more.
                    beat.beat()
                    raise_if_interrupted()
                    left_ns = deadline_ns - self.runtime.monotonic_ns()
        self.raise_failure()
        unfinished = self.unfinished()
        if not unfinished:
            for channel in self._channels.values():
                channel.close()
        return unfinished

    def tasks_left(self) -> tuple[str, ...]:
        """`NODE/TASK` of the tasks that locks have started and that still run, where every client has ended.

        A task that is about to end is waited for.
        """
        if self.unfinished():
            return ()
        until_ns = self.runtime.monotonic_ns() + TASK_END_NS
        return tuple(
            name for name, task in self._lock_tasks if not task.join(max(0, until_ns - self.runtime.monotonic_ns()))
        )

    def unfinished(self) -> tuple[str, ...]:
        """The clients that still run."""
        return tuple(name for name, task in self._tasks.items() if task.is_alive())

    def raise_failure(self) -> None:
        """Raise the error of a client's thread again, in the thread that waits for it."""
        if self.failures:
            raise self.failures[0]

    def _channel(self, kind: ServiceKind, request_timeout_ns: int, *, client: str) -> Channel:
        """The channel of a lock. A session belongs to one client; connections to anything else are shared."""
        owner = client if kind.has_sessions else ""

        def opened(pool_size: int) -> Channel:
            uri, ways = self.job.store_uri, self.job.routes.endpoints
            if not ways:
                return way_to(uri, pool_size)
            return RoutedChannel({op: way_to(through(uri, endpoint), pool_size) for op, endpoint in ways.items()})

        def way_to(uri: str, pool_size: int) -> Channel:
            return kind.channel(parse_store_uri(uri), owner, request_timeout_ns, pool_size)

        with self._mutex:
            self.request_timeout_ns = max(self.request_timeout_ns, request_timeout_ns)
        if kind.has_sessions:
            return way_to(self.job.store_uri, 1)
        return self._shared(kind.port.name, request_timeout_ns, opened)

    def _shared(self, what: str, request_timeout_ns: int, opened: Callable[[int], Channel]) -> Channel:
        """Equal timeouts share a client, and so its connections. opened: makes one for so many connections."""
        asked = what, request_timeout_ns
        with self._mutex:
            if asked not in self._channels:
                self._channels[asked] = opened(min(POOL_MAX, 2 * len(self.job.names)))
            return self._channels[asked]

    def _resource(self, name: str, journal: Journal, lock: str) -> ProtectedResource:
        """One client's way to what its lock protects."""
        job, runtime = self.job, self.runtime
        workload, places = job.scenario.workload, job.places
        if workload.kind != DELTA_LOG:
            service = resource_services(workload.lock_names(job.key))[lock]
            return RESOURCE.over(OfOneLock(self.resource, service), RESOURCE_TIMEOUT_NS)
        assert places is not None, "a run with a Delta log says where that is"
        rows = None
        if job.is_log_struck:
            log = OBJECT_STORE.over(OfOneLock(self.resource, RESOURCE.name), RESOURCE_TIMEOUT_NS)
            if workload.needs:
                declared = job.scenario.declared_for_work()
                assert declared is not None, "a log that needs rows declares them"
                rows = TABLE.over(OfOneLock(self.resource, declared), RESOURCE_TIMEOUT_NS)
        else:
            log = OBJECT_STORE.over(self._log_channel(places, name), LOG_TIMEOUT_NS)
            if workload.needs:
                rows = TABLE.over(self._rows_channel(places), LOG_TIMEOUT_NS)
        writer = Writer(log=Log(log, table_of(workload, name, job.key)), runtime=runtime, rows=rows)
        if workload.has_queue:
            items = stream(job.seed, f"workload/{name}/items")
            return QueueWorker(
                QUEUE.over(OfOneLock(self.resource, QUEUE.name), RESOURCE_TIMEOUT_NS),
                writer,
                QUEUE_PROTOCOLS[workload.protocol],
                items=lambda: workload.items.draw(items),
                batch=workload.batch,
                recorder=self.recorder,
                stamp=journal.stamp,
                next_number=journal.next_number,
            )
        checkpoints = stream(job.seed, f"workload/{name}/checkpoint")
        return Committer(
            writer,
            PROTOCOLS[workload.protocol],
            recorder=self.recorder,
            stamp=journal.stamp,
            next_number=journal.next_number,
            checkpoint_delay_ns=lambda: workload.checkpoint_delay.draw(checkpoints),
        )

    def _log_channel(self, places: LogPlaces, client: str) -> Channel:
        """A client's own way to the log, which writes down what lands."""
        objects = self._shared(
            "log",
            LOG_TIMEOUT_NS,
            lambda pool_size: StoreChannel(
                open_store(places.objects, request_timeout_ns=LOG_TIMEOUT_NS, pool_size=pool_size)
            ),
        )
        return LandingChannel(objects, self.recorder, self.runtime.monotonic_ns, client=client)

    def _rows_channel(self, places: LogPlaces) -> Channel:
        """A client's own way to the rows of the log."""
        return self._shared(
            "rows",
            LOG_TIMEOUT_NS,
            lambda pool_size: open_rows(
                places, wall_ns=self.runtime.wall_ns, request_timeout_ns=LOG_TIMEOUT_NS, pool_size=pool_size
            ),
        )

    def _port(self, kind: PortKind[P], timeout_ns: int, service: str, *, journal: Journal, mixture: Mixture) -> P:
        """The port that a client's process opens. Errors: CapabilityMissing for a service that no real run has."""
        if service not in ("", DEFAULT_STORE):
            raise CapabilityMissing(f"a real run has no {service!r}, only one {mixture.stands_on}")
        served = service_kind(kind.name)
        channel = self._channel(served, timeout_ns, client=journal.node)
        if self.job.is_on_a_network and cloud_of(parse_store_uri(self.job.store_uri)).is_in_process:
            drawn = process_stream(self.job.seed, f"latency/{kind.name}", journal.node, self.job.incarnation)
            channel = LatentChannel(channel, drawn, self.runtime.sleep)
        if self._announcements is not None:
            channel = AnnouncingChannel(channel, self._announcements, journal.node)
        own_ns = 0 if served.bounds_requests else timeout_ns
        return recorded_port(kind, channel, own_ns, journal=journal, decode=mixture.decode)

    def _arrive(self) -> None:
        with self._mutex:
            self._waiting += 1
            if self._waiting == len(self.job.names):
                self._ready.set()

    def _run(self, name: str) -> None:
        try:
            self._run_process(name)
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            spec = self._spec_of(name)
            is_the_locks = not isinstance(error, ConfigError) and is_providers_fault(error, spec)
            self.failures.append(attributed(error, spec, f"client {name}") if is_the_locks else error)
            self._ready.set()

    def _spec_of(self, name: str) -> ProviderSpec:
        return Mixture(self.job.scenario, self.job.spec).of(name)

    def listened_to(self, work: Callable[[], None], name: str, task: str) -> Callable[[], None]:
        """`work` of a lock's own task; what a stranger's raises there ends the run as it does in a simulation."""

        def listened() -> None:
            try:
                work()
            except BaseException as error:
                spec = self._spec_of(name)
                if not is_providers_fault(error, spec):
                    raise
                self.failures.append(attributed(error, spec, f"task {name}/{task}"))

        return listened

    def started(self, client: str, name: str, task: Task) -> None:
        """Take note of a task that a client's lock has started."""
        if self._keeps_tasks:
            with self._mutex:
                self._lock_tasks = [(label, each) for label, each in self._lock_tasks if each.is_alive()]
                self._lock_tasks.append((f"{client}/{name}", task))

    def _run_process(self, name: str) -> None:
        job, runtime = self.job, self.runtime
        mixture = Mixture(job.scenario, job.spec)
        stamp = host_stamp(runtime)
        journal = Journal(self.recorder, node=name, stamp=stamp, numbers=self._numbers)
        profile = profile_of(job.scenario, job.drawn, name)

        def open_port(kind: PortKind[P], timeout_ns: int, service: str) -> P:
            return self._port(kind, timeout_ns, service, journal=journal, mixture=mixture)

        around = Surroundings(
            node=name,
            runtime=_ListeningRuntime(runtime, self, name),
            client_runtime=runtime,
            settings=job.drawn.lock_settings(job.scenario.lock, key=lock_key_of(job.scenario.workload, name, job.key)),
            open_store=lambda timeout_ns: open_port(OBJECT_STORE, timeout_ns, ""),
            open_port=open_port,
            open_resource=lambda lock: self._resource(name, journal, lock),
            reads_first=reads_first(job.scenario.workload.kind),
            asks=job.scenario.workload.asks,
            recorder=self.recorder,
            stamp=stamp,
            next_number=journal.next_number,
            calls=journal.calls,
            stream=lambda task: process_stream(job.seed, f"workload/{task}", name, job.incarnation),
        )
        running = ClientProcess(around, job.scenario, mixture.of(name), profile)
        self._arrive()
        self._go.wait()
        running.run(replace(profile, last_start_ns=max(0, profile.last_start_ns - self._begun_ns)))


class _ListeningRuntime:
    """A machine's runtime as a lock gets it: what its tasks raise is heard, not printed by a dying thread."""

    def __init__(self, runtime: ThreadRuntime, threads: ClientThreads, name: str) -> None:
        self._spawn = runtime.spawn
        self._threads = threads
        self._name = name
        # Taken over once: a bench measures what a lock asks of its clocks.
        self.random = runtime.random
        self.wall_ns, self.monotonic_ns, self.sleep = runtime.wall_ns, runtime.monotonic_ns, runtime.sleep
        self.mutex, self.event = runtime.mutex, runtime.event
        self.token_bytes, self.current_task = runtime.token_bytes, runtime.current_task
        self.process_id = runtime.process_id
        self.process_mark, self.has_ended = runtime.process_mark, runtime.has_ended

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        task = self._spawn(self._threads.listened_to(work, self._name, name), name=name)
        self._threads.started(self._name, name, task)
        return task
