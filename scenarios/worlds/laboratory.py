"""A scenario's clients in one simulated world, before and while it runs.

Each client of `scenarios.workloads` lives on a node of its own. The protected resource is a service behind the same
network as the store. An omniscient observer asks every other client whenever one comes to believe that it holds the
lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from lockref.dynamodb.table import TABLE
from lockref.errors import ConfigError, LockrefError
from lockref.history import RunRow
from lockref.lab.loading import ProviderSpec, load_program
from lockref.ports import PortKind
from lockref.provider import LockContext, LockView
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore
from scenarios.definition.client_profile import ClientProfile
from scenarios.definition.draw import DrawnScenario, draw_scenario, is_drawn_alike, profile_of
from scenarios.definition.mixture import Mixture, node_options
from scenarios.definition.schema import DeclaredNode, Scenario
from scenarios.definition.units import Chooser
from scenarios.workloads import DELTA_LOG, RESOURCES
from scenarios.workloads.client import Client
from scenarios.workloads.cycles import forked_child
from scenarios.workloads.delta.committer import Committer
from scenarios.workloads.delta.item_queue import QUEUE, ItemQueue
from scenarios.workloads.delta.log_files import Log
from scenarios.workloads.delta.log_service import DeltaLogService
from scenarios.workloads.delta.places import lock_key_of, table_of
from scenarios.workloads.delta.protocols import PROTOCOLS
from scenarios.workloads.delta.queue_worker import QUEUE_PROTOCOLS, QueueWorker
from scenarios.workloads.delta.writer import Writer
from scenarios.workloads.resource import (
    RESOURCE,
    RESOURCE_TIMEOUT_NS,
    ProtectedResource,
    ResourceHost,
    resource_services,
)
from scenarios.worlds.processes.client_process import ClientProcess, Surroundings, close_quietly
from scenarios.worlds.processes.forking import inherited
from sim.faults.plan import FaultPlan
from sim.kernel.footprints import NODE
from sim.machine.network import NetworkModel
from sim.machine.nodes import Node, Process
from sim.services.resource import ResourceService
from sim.world import World

P = TypeVar("P")


def _tells_of_no_lock(_key: str, _body: bytes) -> tuple[LockView, ...]:
    """The decoder of a service in which only the clients' own work writes."""
    return ()


class Shared:
    """The part of all runs of one scenario and lock that no seed changes, and no run.

    plan: None where each seed draws its own. services: every service but the protected resource, by name.
    rows: the service that the clients' own work uses beside the protected resource; None without one.
    Raises ConfigError if a client's lock cannot live in a simulation.
    """

    __slots__ = ("_drawn", "_meant", "_profiles", "_row", "_scenario", "mixture", "network", "plan", "rows", "services")

    def __init__(self, scenario: Scenario, provider: ProviderSpec, *, plan: FaultPlan | None) -> None:
        self._scenario = scenario
        self.mixture = Mixture(scenario, provider)
        self.mixture.require_virtual_time()
        network = scenario.network
        self.network = NetworkModel(
            latency_ns=(network.latency.least, network.latency.most),
            loss=network.loss,
            duplication=network.duplication,
        )
        self.plan = plan
        self.services = scenario.services_on(self.mixture.stands_on)
        self.rows = scenario.declared_for_work()
        # By kind of port and by name, the service that is meant.
        self._meant: dict[tuple[str, str], str] = {}
        self._drawn = draw_scenario(scenario, 0) if is_drawn_alike(scenario) else None
        self._row: RunRow | None = None
        self._profiles: dict[str, ClientProfile] = {}

    def drawn(self, seed: int) -> DrawnScenario:
        """The numbers of one seed."""
        return draw_scenario(self._scenario, seed) if self._drawn is None else self._drawn

    def profile(self, drawn: DrawnScenario, client: str) -> ClientProfile:
        """One client's profile."""
        profile = self._profiles.get(client) if drawn is self._drawn else None
        if profile is None:
            profile = self._profiles[client] = profile_of(self._scenario, drawn, client)
        return profile

    def service_for(self, kind: str, name: str) -> str:
        """The service that is meant by a kind of port and a name; see `Scenario.service_for`, also for its errors."""
        meant = self._meant.get((kind, name))
        if meant is None:
            meant = self._scenario.service_for(kind, name, stands_on=self.mixture.stands_on)
            self._meant[kind, name] = meant
        return meant

    def run_row(self, drawn: DrawnScenario, lock: str) -> RunRow:
        """The columns of the runs table that do not depend on what happens in the run. lock: its name."""
        scenario, row = self._scenario, self._row
        if row is None or drawn is not self._drawn:
            row = drawn.run_row(scenario, self.mixture.under_test, clients=scenario.clients, lock=lock)
            self._row = row
        return row


class _Ports:
    """The ports that one process opens.

    opened: each client with what it was opened with, for a child that inherits it.
    """

    def __init__(self, laboratory: Laboratory, node: Node) -> None:
        self._laboratory = laboratory
        self._node = node
        self.opened: list[tuple[object, tuple[PortKind[object], int, str]]] = []

    def open_port(self, kind: PortKind[P], timeout_ns: int, service: str) -> P:
        client = self._laboratory.connect(self._node, kind, timeout_ns, service)
        self.opened.append((client, (kind, timeout_ns, service)))
        return client

    def open_store(self, timeout_ns: int) -> ObjectStore:
        return self.open_port(OBJECT_STORE, timeout_ns, "")


class Laboratory:
    """One world with a scenario's clients in it."""

    def __init__(self, scenario: Scenario, drawn: DrawnScenario, shared: Shared, world: World) -> None:
        self.scenario = scenario
        self.drawn = drawn
        self._shared = shared
        self.mixture = mixture = shared.mixture
        self.world = world
        self.settings = drawn.lock_settings(scenario.lock, key=mixture.under_test.default_lock_key)
        for name, declared in shared.services.items():
            # The rows of a log are no records of the lock, also for a decoder that reads an owner in any bytes.
            world.add(name, declared.make(), decode=_tells_of_no_lock if name == shared.rows else mixture.decode)
        self.reads_first = False
        # By lock, the service that it protects.
        workload = scenario.workload
        self._resources = resource_services(workload.lock_names(self.settings.key))
        self._writes_log = workload.kind == DELTA_LOG
        if self._writes_log:
            world.add(RESOURCE.name, DeltaLogService(world.recorder), decode=None)
            if workload.has_queue:
                chooser = world.stream("workload/visibility")
                queue = ItemQueue(now_ns=world.true_ns, visibility_ns=lambda: workload.visibility.draw(chooser))
                world.add(QUEUE.name, ResourceService(queue.handle), decode=None)
        else:
            for lock, name in self._resources.items():
                resource = RESOURCES[workload.kind]()
                self.reads_first = resource.reads_first
                host = ResourceHost(resource, recorder=world.recorder, true_ns=world.true_ns, lock=lock)
                world.add(name, ResourceService(host.handle), decode=None)
        self.request_timeout_ns = 0
        # Clients with the process they live in, so that `_observe` can leave out those whose process has crashed.
        self.clients: list[tuple[Client, Process]] = []
        self._running: list[ClientProcess] = []
        for name in scenario.client_names:
            self._populate(world.node(name))
        for name, declared_node in mixture.nodes.items():
            self._serve(world.node(name), declared_node)

    def _populate(self, node: Node) -> None:
        profile = self._shared.profile(self.drawn, node.name)
        node.start(lambda: self._run_process(node, profile))

    def _surroundings(self, node: Node, ports: _Ports) -> Surroundings:
        """The surroundings of the node's present process."""
        process, world, settings, workload = node.process, self.world, self.settings, self.scenario.workload
        key = lock_key_of(workload, node.name, settings.key)
        return Surroundings(
            node=node.name,
            runtime=process.runtime,
            client_runtime=process.client_runtime,
            settings=settings if key == settings.key else replace(settings, key=key),
            open_store=ports.open_store,
            open_port=ports.open_port,
            open_resource=lambda lock: self._resource(node, lock),
            reads_first=self.reads_first,
            asks=workload.asks,
            recorder=world.recorder,
            stamp=process.client_runtime.stamp,
            next_number=process.journal.next_number,
            calls=process.journal.calls,
            stream=lambda task: process.stream(f"workload/{task}"),
            on_belief=self._observe,
            virtual_ns=world.true_ns,
        )

    def _run_process(self, node: Node, profile: ClientProfile) -> None:
        """A process from start to end; a restart begins here anew, with nothing remembered."""
        process, ports = node.process, _Ports(self, node)
        spec = self.mixture.of(node.name)

        def fork(client: Client) -> None:
            self._fork(node, client, running.context, ports, profile)

        running = ClientProcess(
            self._surroundings(node, ports), self.scenario, spec, profile, on_fork=fork if spec.is_fork_safe else None
        )
        self._running.append(running)
        self.clients += [(client, process) for client in running.clients]
        if now_ns := self.world.kernel.now_ns:
            profile = replace(profile, last_start_ns=max(0, profile.last_start_ns - now_ns))
        running.run(profile)

    def _fork(
        self,
        parent: Node,
        client: Client,
        context: LockContext,
        ports: _Ports,
        profile: ClientProfile,
    ) -> None:
        """Fork the process of `parent` at this instant, in the task that asks; see the module `forking`."""
        world, tenure = self.world, client.tenure
        assert tenure is not None, "a client forks while it holds"
        child = world.fork(parent)
        childs_ports = _Ports(self, child)
        around = self._surroundings(child, childs_ports)
        mine: list[Client] = []
        childs = around.context(child.process.runtime, mine)
        forking = world.kernel.current
        task = child.start(lambda: self._run_child(mine[0], profile, around.stream("child")))
        provider = inherited(
            client.provider,
            kernel=world.kernel,
            replaced=[
                (forking, task),
                (parent, child),
                (parent.process, child.process),
                (parent.process.runtime, child.process.runtime),
                (parent.process.runtime.random, child.process.runtime.random),
                (parent.process.client_runtime, child.process.client_runtime),
                (context, childs),
                (context.runtime, childs.runtime),
                (context.open_store, childs.open_store),
                (context.open_port, childs.open_port),
                (context.listener, childs.listener),
                *((port, childs_ports.open_port(*asked)) for port, asked in ports.opened),
            ],
            left_behind=[each for each in parent.process.tasks if each is not forking],
        )
        heir = around.client("main", provider, claims=self.mixture.of(parent.name).claims)
        heir.inherit(tenure)
        mine.append(heir)
        self.clients.append((heir, child.process))

    def _run_child(self, heir: Client, profile: ClientProfile, stream: Chooser) -> None:
        """A forked child from its first step to its end."""
        forked_child(heir, profile, stream)
        close_quietly(heir.provider)

    def _serve(self, node: Node, declared: DeclaredNode) -> None:
        """A node that is no client: its program runs until the run ends; a restart makes it anew."""
        program = load_program(declared.program)
        settings = replace(self.settings, options=node_options(self.scenario.workload, self.settings.key, declared))

        def serve() -> None:
            ports = _Ports(self, node)
            context = LockContext(
                runtime=node.process.runtime,
                open_store=ports.open_store,
                open_port=ports.open_port,
                settings=settings,
            )
            try:
                program(context).run()
            except LockrefError:
                raise
            except Exception as error:  # A stranger's program may raise anything.
                words = " ".join(str(error).split())
                raise ConfigError(f"node {node.name!r}: its program raised {type(error).__name__}: {words}") from error

        node.start(serve, is_awaited=False)

    def connect(self, node: Node, kind: PortKind[P], timeout_ns: int, service: str) -> P:
        """A client of a service in the node's present process; see `LockContext.open`."""
        if not isinstance(timeout_ns, int) or timeout_ns <= 0:
            raise ConfigError(
                f"a service was opened with a request timeout of {timeout_ns!r}; "
                "expected a positive whole number of nanoseconds"
            )
        name = self._shared.service_for(kind.name, service)
        self.request_timeout_ns = max(self.request_timeout_ns, timeout_ns)
        return self.world.connect(node, name, kind, timeout_ns=timeout_ns)

    def _resource(self, node: Node, lock: str) -> ProtectedResource:
        if not self._writes_log:
            return self.world.connect(node, self._resources[lock], RESOURCE, timeout_ns=RESOURCE_TIMEOUT_NS)
        workload, process, connect = self.scenario.workload, node.process, self.world.connect
        rows = self._shared.rows
        writer = Writer(
            log=Log(
                connect(node, RESOURCE.name, OBJECT_STORE, timeout_ns=RESOURCE_TIMEOUT_NS),
                table_of(workload, node.name, self.settings.key),
            ),
            runtime=process.client_runtime,
            rows=None if rows is None else connect(node, rows, TABLE, timeout_ns=RESOURCE_TIMEOUT_NS),
        )
        if workload.has_queue:
            chooser = process.stream("workload/items")
            return QueueWorker(
                connect(node, QUEUE.name, QUEUE, timeout_ns=RESOURCE_TIMEOUT_NS),
                writer,
                QUEUE_PROTOCOLS[workload.protocol],
                items=lambda: workload.items.draw(chooser),
                batch=workload.batch,
                recorder=self.world.recorder,
                stamp=process.client_runtime.stamp,
                next_number=process.journal.next_number,
            )
        return Committer(
            writer,
            PROTOCOLS[workload.protocol],
            recorder=self.world.recorder,
            stamp=process.client_runtime.stamp,
            next_number=process.journal.next_number,
            checkpoint_delay_ns=lambda: workload.checkpoint_delay.draw(process.stream("workload/checkpoint")),
        )

    def tasks_left(self) -> list[str]:
        """The tasks of locks that still run, though every client of their process has closed its lock.

        A process that has crashed has none, and of one whose clients have not ended nobody knows.
        """
        processes = {process.node.name: process for _, process in self.clients if not process.is_dead}
        return sorted(
            f"{name}/{task.name}"
            for name, process in processes.items()
            if not any(task.is_clients and task.is_alive() for task in process.tasks)
            for task in process.tasks
            if not task.is_clients and task.is_alive()
        )

    def let_go(self) -> None:
        """After the run: what refers to each other is free at once, not only when the garbage is collected."""
        for running in self._running:
            running.clients.clear()
        self._running.clear()
        self.clients.clear()
        self.world.dissolve()

    def _observe(self, believer: Client) -> None:
        """A client has come to believe: ask all others.

        Asking a paused client is the point; asking one whose clocks stand still
        is not, for it reads them again only after they have caught up.
        """
        kernel = self.world.kernel
        now_ns = kernel.now_ns
        kernel.is_observed = True
        try:
            for client, process in self.clients:
                if client is not believer and not process.is_dead and not process.node.clock.is_frozen(now_ns):
                    kernel.touch(NODE, process.node.name)
                    client.observed()
        finally:
            kernel.is_observed = False
