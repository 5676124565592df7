"""A world: one kernel, its network, nodes, services and faults, made from one seed.

Everything a run needs is made here and nothing is shared between worlds, so a
world is a run. Typical use:

    world = World(seed=7, plan=FaultPlan(), network=NetworkModel())
    world.object_store(decode=decode)
    for name in ("n1", "n2", "n3"):
        node = world.node(name)
        node.start(lambda node=node: client(node, world.connect(node, "store", OBJECT_STORE, timeout_ns=NS_PER_S)))
    world.run(until_ns=60 * 1_000_000_000)
    world.recorder.digest()
"""

from __future__ import annotations

from typing import TypeVar

from lockref.clouds.s3.cloud import S3
from lockref.clouds.uri import server_statuses
from lockref.history import CHILD_SUFFIX, Recorder
from lockref.lab.recording import RecordingChannel
from lockref.ports import Channel, PortKind
from lockref.provider import StateDecoder
from sim.faults.injector import Injector
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.faults.surroundings import Surroundings
from sim.kernel.clocks import NodeClock
from sim.kernel.exploring import ExploringKernel, Ties
from sim.kernel.kernel import Budget, Fifo, Kernel, RunEnd, Schedule, Task
from sim.kernel.streams import Stream, derive, stream
from sim.machine.network import Network, NetworkModel
from sim.machine.nodes import Node, NodeContext, Work
from sim.machine.preemption import runtime_type
from sim.services.hosting import HostedService
from sim.services.objectstore import ObjectStoreService
from sim.services.service import Service
from sim.wire import Wire, footprint_of

P = TypeVar("P")

MONO_START_S_MAX = 1_000_000
"""Monotonic clocks start anywhere up to this, so that no lock can compare them between nodes."""


class World:
    """One simulated world.

    ties: which steps a schedule may reorder beyond those that are due at one instant (see `ExploringKernel`); replaying
    a run needs the same. None in a plain run.

    After a run: `fault_counts`, `deviations`, `faults_end_ns`, `end`. is_closed: every task has been unwound.
    """

    def __init__(
        self,
        *,
        seed: int,
        plan: FaultPlan = EMPTY_PLAN,
        network: NetworkModel | None = None,
        schedule: Schedule | None = None,
        substrate: str = "greenlet",
        budget: Budget | None = None,
        recorder: Recorder | None = None,
        ties: Ties | None = None,
    ) -> None:
        self.seed = seed
        self.recorder = Recorder() if recorder is None else recorder
        self.kernel: Kernel
        if ties is None:
            self.kernel = Kernel(schedule, substrate, budget)
        else:
            self.kernel = ExploringKernel(
                Fifo() if schedule is None else schedule, substrate, budget, ties=ties, footprint_of=footprint_of
            )
        self.network = Network(NetworkModel() if network is None else network, seed)
        self._node_context = NodeContext(
            kernel=self.kernel, seed=seed, recorder=self.recorder, runtime=runtime_type(ties)
        )
        self.nodes: dict[str, Node] = {}
        self.services: dict[str, HostedService] = {}
        around = Surroundings(
            seed=seed,
            kernel=self.kernel,
            network=self.network,
            recorder=self.recorder,
            nodes=self.nodes,
            machines=self.nodes,
            services=self.services,
        )
        self.injector = Injector(around, plan, touch=self.kernel.touch)
        preempt = None if ties is None or ties.preempt == "waits" else self.kernel.preempt
        self.wire = Wire(self.kernel, self.network, self.injector if plan.faults else None, preempt=preempt)
        self.end: RunEnd | None = None
        self.is_closed = False
        self._is_armed = False

    def true_ns(self) -> int:
        """True time, as journals write it down."""
        return self.kernel.now_ns

    def stream(self, label: str) -> Stream:
        """A generator for one concern; the same label gives the same draws."""
        return stream(self.seed, label)

    def node(self, name: str) -> Node:
        """The node of that name, made at the first call."""
        node = self.nodes.get(name)
        if node is None:
            start_s = derive(self.seed, f"clock/{name}") % MONO_START_S_MAX
            node = self._add_node(name, NodeClock(mono_start_ns=start_s * 1_000_000_000))
            self.injector.strike_initial(name)
        return node

    def fork(self, parent: Node) -> Node:
        """A child process of `parent` on the same machine, which has the same clocks; a node of its own by name."""
        name = f"{parent.name}{CHILD_SUFFIX}"
        while name in self.nodes:
            name += CHILD_SUFFIX
        return self._add_node(name, parent.clock)

    def _add_node(self, name: str, clock: NodeClock) -> Node:
        assert name not in self.nodes, f"two nodes are called {name!r}"
        node = self.nodes[name] = Node(name, number=len(self.nodes) + 1, clock=clock, context=self._node_context)
        return node

    def add(self, name: str, service: Service, *, decode: StateDecoder | None) -> HostedService:
        """Let a service live in this world, behind its network.

        decode: reads the lock records in its states; None: see `HostedService`.
        """
        assert name not in self.services, f"two services are called {name!r}"
        hosted = self.services[name] = HostedService(
            name, service, kernel=self.kernel, recorder=self.recorder, push=self.wire.push, decode=decode
        )
        return hosted

    def object_store(self, *, decode: StateDecoder, name: str = "store", dialect: str = S3.name) -> HostedService:
        """Add an object store that speaks a dialect: a name of `store_dialects`."""
        return self.add(name, ObjectStoreService(server_statuses(dialect)), decode=decode)

    def connect(self, node: Node, service: str, kind: PortKind[P], *, timeout_ns: int) -> P:
        """A client of a service in the node's present process; its requests time out on that node's clock."""
        hosted, process = self.services[service], node.process
        channel: Channel = self.wire.connect(process, hosted)
        if hosted.is_recorded:
            channel = RecordingChannel(channel, journal=process.journal, look=hosted.look)
        return kind.over(channel, timeout_ns)

    def observe(self, work: Work, *, name: str = "observer", is_awaited: bool = False) -> Task:
        """Start a task outside all nodes: on true time, untouched by faults.

        is_awaited: the run does not end before it.
        """
        return self.kernel.spawn(work, name=name, is_daemon=not is_awaited)

    def run(self, until_ns: int, *, linger_ns: int | None = 0, is_final: bool = True) -> RunEnd:
        """Let the world go on, up to and including true time `until_ns`.

        linger_ns: how long to go on after the last awaited task has ended, for
            what is still in flight; None: until nothing is left to happen.
        is_final: unwind what is unfinished. A run in several parts says False
            for all but the last.
        Raises BudgetExceeded, and what a task raised.
        """
        if not self._is_armed:
            self._is_armed = True
            self.injector.check_nodes(self.nodes)
            self.injector.arm()
        try:
            self.end = self.kernel.run(until_ns, linger_ns=linger_ns)
        finally:
            if is_final:
                self.close()
        return self.end

    def close(self) -> None:
        """Unwind unfinished tasks, silently: their processes count as dead. Idempotent."""
        for node in self.nodes.values():
            node.end()
        self.kernel.close()
        self.is_closed = True

    def dissolve(self) -> None:
        """Forget nodes and services, once nobody will ask this world anything more.

        The parts of a world know each other, so only the collector could free them. It is a twentieth of what a short
        seed costs, and a batch makes thousands of worlds. Without these circles they go as soon as they are let go of.
        """
        assert self.is_closed, "a world that runs needs its parts"
        for node in self.nodes.values():
            node.dissolve()
        self.nodes.clear()
        for hosted in self.services.values():
            hosted.dissolve()
        self.services.clear()
        self.kernel.dissolve()
        self.wire.dissolve()

    @property
    def deviations(self) -> list[tuple[int, int]]:
        """The decisions that differed from first-in, first-out."""
        return self.kernel.deviations

    @property
    def fault_counts(self) -> dict[str, tuple[int, int, int]]:
        """By fault id: armed, fired, mattered."""
        return self.injector.counts()

    @property
    def faults_end_ns(self) -> int | None:
        """True time after which nothing disturbs the run; None if that never comes."""
        if not self.network.model.is_lossless and self.injector.plan.heal_ns is None:
            return None
        return self.injector.end_ns()
