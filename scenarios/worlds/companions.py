"""The nodes of a real run that are no clients, such as the controller that assigns the lock.

They live in the process that asked for the run, each as a task with services of its own, and end with the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from lockref.errors import ConfigError, LockrefError
from lockref.history import Recorder
from lockref.lab.loading import load_program
from lockref.lab.recording import Journal, host_stamp, recorded_port
from lockref.ports import Channel, PortKind
from lockref.provider import ClosableProgram, LockContext, LockSettings, StateDecoder
from lockref.runtime import Task, ThreadRuntime
from scenarios.definition.schema import DeclaredNode

PATIENCE_NS = 10_000_000_000
"""How long a program that was closed may take to return."""


class Companions:
    """A context in which the nodes work. What one of them raises is raised on the way out, or by `raise_failure`.

    channel: to the service of a run, for one node. decode: what its states say about locks. first_number: of the
    requests that the nodes make.
    """

    def __init__(
        self,
        nodes: Mapping[str, DeclaredNode],
        *,
        settings: LockSettings,
        channel: Callable[[str], Channel],
        decode: StateDecoder,
        recorder: Recorder,
        runtime: ThreadRuntime,
        first_number: int,
    ) -> None:
        self._nodes = nodes
        self._settings = settings
        self._channel = channel
        self._decode = decode
        self._recorder = recorder
        self._runtime = runtime
        self._numbers = itertools.count(first_number)
        self._programs: dict[str, ClosableProgram] = {}
        self._tasks: dict[str, Task] = {}
        self._failures: list[LockrefError] = []

    def __enter__(self) -> Companions:
        for name, declared in self._nodes.items():
            program = load_program(declared.program)(self._context(name, declared))
            if not isinstance(program, ClosableProgram):
                raise ConfigError(f"node {name!r}: its program has no close(), so no real run can end it")
            self._programs[name] = program
            self._tasks[name] = self._runtime.spawn(lambda name=name: self._run(name), name=name)  # type: ignore[misc]
        return self

    def _context(self, name: str, declared: DeclaredNode) -> LockContext:
        stamp = host_stamp(self._runtime)
        journal = Journal(self._recorder, node=name, stamp=stamp, numbers=self._numbers)

        def open_port(kind: PortKind[Any], timeout_ns: int, _service: str) -> Any:
            return recorded_port(kind, self._channel(name), timeout_ns, journal=journal, decode=self._decode)

        def no_store(_timeout_ns: int) -> Any:
            raise ConfigError(
                f"node {name!r} opens an object store; a node of a real run opens the service of the lock"
            )

        return LockContext(
            runtime=self._runtime,
            open_store=no_store,
            open_port=open_port,
            settings=replace(self._settings, options=declared.options),
        )

    def _run(self, name: str) -> None:
        try:
            self._programs[name].run()
        except LockrefError as error:
            self._failures.append(error)
        except Exception as error:  # noqa: BLE001 - a stranger's program may raise anything
            words = " ".join(str(error).split())
            self._failures.append(ConfigError(f"node {name!r}: its program raised {type(error).__name__}: {words}"))

    def raise_failure(self) -> None:
        """What a node's program raised."""
        if self._failures:
            raise self._failures[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._programs.values():
            program.close()
        for task in self._tasks.values():
            task.join(PATIENCE_NS)
        if kind is None:
            self.raise_failure()
