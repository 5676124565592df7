"""A client process, from making its lock to closing it: what the simulated and the real world do alike.

A world says what surrounds a process: clocks, services, the recorder, random
streams. Everything that follows from it is here, so that a lock meets the same
steps in both worlds: its context, its provider, one client for each task, the
listener that passes reports on, the work, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

from lockref.claims import BELIEF_THROUGH_UNLOCK
from lockref.errors import LockError
from lockref.frozen import filled_by_slots
from lockref.history import Recorder, Stamp
from lockref.lab.loading import ProviderSpec
from lockref.lab.recording import OpenCalls
from lockref.ports import OpenPort
from lockref.provider import LockContext, LockProvider, LockSettings
from lockref.runtime import Runtime
from lockref.stores.port import ObjectStore
from scenarios.definition.client_profile import ClientProfile
from scenarios.definition.schema import Scenario
from scenarios.definition.units import Chooser
from scenarios.workloads.client import ASKS, Client, ClientsListener
from scenarios.workloads.cycles import run_clients, tasks_of
from scenarios.workloads.resource import ProtectedResource
from scenarios.workloads.scarcity import runtime_for


@filled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings that a world gives one process.

    runtime: what the lock gets. client_runtime: that of the clients, which no fault reaches but through their process.
    open_store, open_port: see `LockContext`. open_resource: a client of what this lock protects, for one task.
    reads_first: a client reads the resource and bases its write on it. stream: by task, what its client draws from.
    asks: what the clients ask before each protected write (`workload.asks`).
    stamp, calls, on_belief, virtual_ns: see `Client`.
    """

    node: str
    runtime: Runtime
    client_runtime: Runtime
    settings: LockSettings
    open_store: Callable[[int], ObjectStore]
    open_port: OpenPort | None = None
    open_resource: Callable[[str], ProtectedResource]
    reads_first: bool
    asks: str
    recorder: Recorder
    stamp: Callable[[], Stamp]
    next_number: Callable[[], int]
    calls: OpenCalls
    stream: Callable[[str], Chooser]
    on_belief: Callable[[Client], None] | None = None
    virtual_ns: Callable[[], int] | None = None

    def context(self, runtime: Runtime, clients: list[Client], lock: str = "") -> LockContext:
        """The context that a lock is made from.

        clients: those that hear its reports; the list may still grow. lock: "" is the process's only one.
        """
        return LockContext(
            runtime=runtime,
            open_store=self.open_store,
            open_port=self.open_port,
            settings=replace(self.settings, key=lock) if lock else self.settings,
            listener=ClientsListener(clients),
        )

    def client(
        self,
        task: str,
        provider: LockProvider,
        *,
        on_fork: Callable[[Client], None] | None = None,
        shares_provider: bool = False,
        claims: Collection[str] = (),
        lock: str = "",
    ) -> Client:
        """The client of one task. lock: "" is the process's only one. claims: what its lock says of itself."""
        lock = lock or self.settings.key
        return Client(
            node=self.node,
            task=task,
            runtime=self.client_runtime,
            recorder=self.recorder,
            stamp=self.stamp,
            next_number=self.next_number,
            calls=self.calls,
            provider=provider,
            resource=self.open_resource(lock),
            reads_first=self.reads_first,
            lock=lock,
            on_belief=self.on_belief,
            on_fork=on_fork,
            shares_provider=shares_provider,
            believes_through_unlock=BELIEF_THROUGH_UNLOCK in claims,
            asks=ASKS[self.asks],
            virtual_ns=self.virtual_ns,
        )


class ClientProcess:
    """A process with its lock and its clients, ready to run.

    Several locks of one process may share what they stand on: a provider whose class has `several` is given all their
    contexts at once. provider: the first of them.

    on_fork: makes a child process; None for a lock that does not declare that it survives a fork.
    Errors: what the lock raises while it is made.
    """

    __slots__ = ("_around", "_behaviour", "_providers", "clients", "context", "provider")

    def __init__(
        self,
        around: Surroundings,
        scenario: Scenario,
        spec: ProviderSpec,
        profile: ClientProfile,
        *,
        on_fork: Callable[[Client], None] | None = None,
    ) -> None:
        self._around = around
        self._behaviour = scenario.workload.life
        self.clients: list[Client] = []
        if scenario.workload.locks > 1:
            self.provider = self._make_several(spec, scenario, profile)
            return
        self.context = around.context(runtime_for(around.runtime, profile), self.clients)
        self.provider = spec.factory(self.context)
        self._providers = [self.provider]
        tasks = tasks_of(self._behaviour)
        for task in tasks:
            client = around.client(
                task, self.provider, on_fork=on_fork, shares_provider=len(tasks) > 1, claims=spec.claims
            )
            self.clients.append(client)

    def _make_several(self, spec: ProviderSpec, scenario: Scenario, profile: ClientProfile) -> LockProvider:
        """A lock, a task and a client for each of the workload's locks. Each client hears of its own lock alone."""
        around, workload = self._around, scenario.workload
        runtime = runtime_for(around.runtime, profile)
        locks = workload.lock_names(around.settings.key)
        heard: list[list[Client]] = [[] for _ in locks]
        contexts = [around.context(runtime, each, lock) for each, lock in zip(heard, locks, strict=True)]
        several = spec.several
        self._providers = [spec.factory(each) for each in contexts] if several is None else list(several(contexts))
        self.context = contexts[0]
        tasks = tasks_of(self._behaviour, len(locks))
        for task, provider, lock, hearing in zip(tasks, self._providers, locks, heard, strict=True):
            client = around.client(task, provider, lock=lock, claims=spec.claims)
            hearing.append(client)
            self.clients.append(client)
        return self._providers[0]

    def run(self, profile: ClientProfile) -> None:
        """Let the clients do their work, then close the locks."""
        streams = [self._around.stream(client.task) for client in self.clients]
        run_clients(self._behaviour, self.clients, profile, streams)
        for provider in self._providers:
            close_quietly(provider)


def close_quietly(provider: LockProvider) -> None:
    """Close a lock whose client has done its work: an error that the lock raises here changes nothing any more."""
    with suppress(LockError):
        provider.close()
