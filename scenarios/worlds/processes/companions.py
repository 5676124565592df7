"""The nodes of a real run that are no clients, such as the controller that assigns the lock.

They live in the process that asked for the run, each as a task with services of its own, and end with the run. Where
the run's plan stops or kills one, all of them have processes of their own (`NodeTask` in a worker).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import NoReturn, TypeVar

from lockref.clouds.uri import parse_store_uri
from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from lockref.history import Recorder
from lockref.lab.loading import load_program
from lockref.lab.recording import Journal, host_stamp, recorded_port
from lockref.ports import Channel, PortKind
from lockref.provider import ClosableProgram, LockContext, LockSettings, StateDecoder
from lockref.runtime import NS_PER_S, Task, ThreadRuntime
from lockref.services import ServiceKind, service_kind
from scenarios.definition.mixture import Mixture, node_options
from scenarios.definition.schema import DeclaredNode
from scenarios.injection.announcing import Announcements, AnnouncingChannel
from scenarios.worlds.threads import Job

P = TypeVar("P")

PATIENCE_NS = 10 * NS_PER_S
"""How long a program that was closed may take to return."""


class _Node:
    """A node's program, made and not yet running. Errors: ConfigError for one that cannot be made, or not be ended."""

    def __init__(
        self,
        name: str,
        declared: DeclaredNode,
        *,
        settings: LockSettings,
        channel: Callable[[ServiceKind, int], Channel],
        decode: StateDecoder,
        journal: Journal,
        runtime: ThreadRuntime,
    ) -> None:
        self.name = name
        self.failure: LockrefError | None = None
        self.longest_timeout_ns = 0

        def open_port(kind: PortKind[P], timeout_ns: int, _service: str) -> P:
            self.longest_timeout_ns = max(self.longest_timeout_ns, timeout_ns)
            direct = channel(service_kind(kind.name), timeout_ns)
            return recorded_port(kind, direct, timeout_ns, journal=journal, decode=decode)

        def no_store(_timeout_ns: int) -> NoReturn:
            raise ConfigError(
                f"node {name!r} opens an object store; a node of a real run opens the service of the lock"
            )

        program = load_program(declared.program)(
            LockContext(runtime=runtime, open_store=no_store, open_port=open_port, settings=settings)
        )
        if not isinstance(program, ClosableProgram):
            raise ConfigError(f"node {name!r}: its program has no close(), so no real run can end it")
        self.program = program

    def run(self) -> None:
        """Run the program until it ends; the error that it raises is kept."""
        try:
            self.program.run()
        except LockrefError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 - a stranger's program may raise anything
            words = " ".join(str(error).split())
            self.failure = ConfigError(f"node {self.name!r}: its program raised {type(error).__name__}: {words}")


class Companions:
    """A context in which the nodes work. What one of them raises is raised on the way out.

    settings: of a node. channel: to the service of a run, for one node, as a port of that kind, with the time-out of a
    request in nanoseconds. decode: what its states say about locks.
    first_number: of the requests that the nodes make.
    """

    def __init__(
        self,
        nodes: Mapping[str, DeclaredNode],
        *,
        settings: Callable[[DeclaredNode], LockSettings],
        channel: Callable[[str, ServiceKind, int], Channel],
        decode: StateDecoder,
        recorder: Recorder,
        runtime: ThreadRuntime,
        first_number: int,
    ) -> None:
        self._declared = nodes
        self._settings = settings
        self._channel = channel
        self._decode = decode
        self._recorder = recorder
        self._runtime = runtime
        self._numbers = itertools.count(first_number)
        self._nodes: list[tuple[_Node, Task]] = []

    def __enter__(self) -> Companions:
        for name, declared in self._declared.items():
            stamp = host_stamp(self._runtime)
            node = _Node(
                name,
                declared,
                settings=self._settings(declared),
                channel=partial(self._channel, name),
                decode=self._decode,
                journal=Journal(self._recorder, node=name, stamp=stamp, numbers=self._numbers),
                runtime=self._runtime,
            )
            self._nodes.append((node, self._runtime.spawn(node.run, name=name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node, _ in self._nodes:
            node.program.close()
        for _, task in self._nodes:
            task.join(PATIENCE_NS)
        if kind is None:
            for failure in self._failures():
                raise failure

    def _failures(self) -> Iterator[LockrefError]:
        return (node.failure for node, _ in self._nodes if node.failure is not None)


class NodeTask:
    """A node in a worker process of its own, which a plan may stop and kill. job: with one name, the node's.

    Its life is that of `ClientThreads`: gather, go, finish.
    """

    def __init__(self, job: Job, *, recorder: Recorder, runtime: ThreadRuntime) -> None:
        declared = job.node
        assert declared is not None, "the job of a node says which program it is"
        [self._name] = job.names
        self._runtime = runtime
        self._task: Task | None = None
        address = parse_store_uri(job.store_uri)
        mixture = Mixture(job.scenario, job.spec)
        stamp = host_stamp(runtime)
        port = job.routes.announce_port
        announcements = Announcements(port, runtime.mutex()) if port else None

        def channel(kind: ServiceKind, timeout_ns: int) -> Channel:
            direct = kind.channel(address, self._name, timeout_ns, 1)
            return direct if announcements is None else AnnouncingChannel(direct, announcements, self._name)

        def made() -> _Node:
            return _Node(
                self._name,
                declared,
                settings=replace(
                    job.drawn.lock_settings(job.scenario.lock, key=job.key),
                    options=node_options(job.scenario.workload, job.key, declared),
                ),
                channel=channel,
                decode=mixture.decode,
                journal=Journal(recorder, node=self._name, stamp=stamp, numbers=itertools.count(job.first_number)),
                runtime=runtime,
            )

        self._make = made
        self._node: _Node | None = None

    @property
    def request_timeout_ns(self) -> int:
        """The longest that the program asked for."""
        return 0 if self._node is None else self._node.longest_timeout_ns

    def gather(self) -> None:
        """Make the program. Errors: as `_Node`."""
        self._node = self._make()

    def go(self, _begun_ns: int = 0) -> None:
        """Let it run."""
        assert self._node is not None, "it was gathered"
        self._task = self._runtime.spawn(self._node.run, name=self._name)

    def finish(self, is_over: Callable[[], object]) -> tuple[str, ...]:
        """Wait until the run is over, and end the program. A node has no last call, so none is unfinished.

        is_over: returns when all clients have ended. Errors: what the program raised; BackendUnavailable where it does
        not end.
        """
        node, task = self._node, self._task
        assert node is not None, "it was gathered"
        assert task is not None, "it was let go"
        is_over()
        node.program.close()
        task.join(PATIENCE_NS)
        if node.failure is not None:
            raise node.failure
        if task.is_alive():
            patience_s = PATIENCE_NS // NS_PER_S
            raise BackendUnavailable(f"node {self._name!r} did not end within {patience_s} s of its close()")
        return ()

    def unfinished(self) -> tuple[str, ...]:
        """No line of its own: see `finish`."""
        return ()
