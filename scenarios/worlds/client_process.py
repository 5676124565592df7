"""A client process, from making its lock to closing it: what the simulated and the real world do alike.

A world says what surrounds a process: clocks, services, the recorder, random
streams. Everything that follows from it is here, so that a lock meets the same
steps in both worlds: its context, its provider, one client for each task, the
listener that passes reports on, the work, the end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lockref.errors import LockError
from lockref.history import Recorder, Stamp
from lockref.lab.loading import ProviderSpec
from lockref.ports import PortKind
from lockref.provider import LockContext, LockProvider, LockSettings
from lockref.runtime import Runtime
from lockref.stores.port import ObjectStore
from scenarios.definition.schema import Scenario
from scenarios.definition.units import Chooser
from scenarios.workloads.client import Client, ClientsListener
from scenarios.workloads.client_profile import ClientProfile, run_clients, tasks_of
from scenarios.workloads.resource import Protected
from scenarios.workloads.scarcity import runtime_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a world gives one process.

    runtime: what the lock gets. client_runtime: that of the clients, which no fault reaches but through their process.
    open_store, open_port: see `LockContext`. open_resource: a client of the protected resource, for one task.
    reads_first: a client reads the resource and bases its write on it. stream: by task, what its client draws from.
    stamp, on_belief, virtual_ns: see `Client`.
    """

    node: str
    runtime: Runtime
    client_runtime: Runtime
    settings: LockSettings
    open_store: Callable[[int], ObjectStore]
    open_port: Callable[[PortKind[Any], int, str], Any] | None = None
    open_resource: Callable[[], Protected]
    reads_first: bool
    recorder: Recorder
    stamp: Callable[[], Stamp]
    next_number: Callable[[], int]
    stream: Callable[[str], Chooser]
    on_belief: Callable[[Client], None] | None = None
    virtual_ns: Callable[[], int] | None = None

    def context(self, runtime: Runtime, clients: list[Client]) -> LockContext:
        """What a lock is made from. clients: those that hear its reports; the list may still grow."""
        return LockContext(
            runtime=runtime,
            open_store=self.open_store,
            open_port=self.open_port,
            settings=self.settings,
            listener=ClientsListener(clients),
        )

    def client(
        self,
        task: str,
        provider: LockProvider,
        *,
        on_fork: Callable[[Client], None] | None = None,
        shares_provider: bool = False,
    ) -> Client:
        """The client of one task."""
        return Client(
            node=self.node,
            task=task,
            runtime=self.client_runtime,
            recorder=self.recorder,
            stamp=self.stamp,
            next_number=self.next_number,
            provider=provider,
            resource=self.open_resource(),
            reads_first=self.reads_first,
            lock=self.settings.key,
            on_belief=self.on_belief,
            on_fork=on_fork,
            shares_provider=shares_provider,
            virtual_ns=self.virtual_ns,
        )


class ClientProcess:
    """A process with its lock and its clients, ready to run.

    on_fork: makes a child process; None for a lock that does not declare that it survives a fork.
    Errors: what the lock raises while it is made.
    """

    __slots__ = ("_around", "_behaviour", "clients", "context", "provider")

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
        self.context = around.context(runtime_for(around.runtime, profile), self.clients)
        self.provider = spec.factory(self.context)
        tasks = tasks_of(self._behaviour)
        for task in tasks:
            client = around.client(task, self.provider, on_fork=on_fork, shares_provider=len(tasks) > 1)
            self.clients.append(client)

    def run(self, profile: ClientProfile) -> None:
        """Let the clients do their work, then close the lock."""
        streams = [self._around.stream(client.task) for client in self.clients]
        run_clients(self._behaviour, self.clients, profile, streams)
        close_quietly(self.provider)


def close_quietly(provider: LockProvider) -> None:
    """Close a lock whose client has done its work: an error that the lock raises here changes nothing any more."""
    with suppress(LockError):
        provider.close()
