"""helix-lock 1.4.3 as released, in a process of its own: lock objects that do as they are told."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lockref.errors import BackendUnavailable
from scenarios.backends.asked_process import AskedProcess
from tests.evidence.helix.fleet import LOGGING
from tests.evidence.peers.java_program import JavaProgram

HELIX_LOCK: Final = JavaProgram(
    original="helix-lock",
    source=Path(__file__).with_name("lock_java"),
    main="LockDriver",
    jar="helix-lock-1.4.3.jar",
    sha256="20ad46a48a55ad85930d24c7e684971c39624989a800ebe84d591ba2c89a52a7",
)

ANSWER_S: Final = 60
SCRIPTS_AT_ONCE: Final = 12
"""More at once take so much of a small machine that a script's steps come late."""


class LockClass:
    """The process. A context manager; its end kills the process, and whatever is locked stays so.

    hosts: of a ZooKeeper. log_folder: where its error output goes.
    Errors: BackendUnavailable if the original cannot be had, or does not answer.
    """

    def __init__(self, hosts: str, log_folder: Path, *, name: str = "helix-lock") -> None:
        command = HELIX_LOCK.command((f"-Dlog4j2.configurationFile={LOGGING}", "-Xmx256m"))
        self._peer = AskedProcess(
            "helix-lock 1.4.3", command, {"zookeeper": hosts}, env={}, log_folder=log_folder, name=name
        )  # fmt: skip
        self._ids = itertools.count(1)
        self._paths = itertools.count(1)
        self._early: dict[int, dict[str, Any]] = {}

    def path(self, scope: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The znode of a scope, as the original names it."""
        return self.hear(self.ask(do="path", scope=scope, names=list(names)))

    def make(self, name: str, path: str, settings: Mapping[str, object]) -> Mapping[str, Any]:
        """A lock object of that name."""
        return self.hear(self.ask(do="make", name=name, path=path, **settings))

    def call(self, name: str, call: str) -> Mapping[str, Any]:
        """`try`, `unlock`, `owner`, `info`, `close` or `cleanups` of a lock object; what it threw is in `error`."""
        return self.hear(self.ask(do="call", name=name, call=call))

    def ask(self, **what: object) -> int:
        """Ask, and go on. Returns the number under which `hear` has the answer."""
        number = next(self._ids)
        self._peer.ask(id=number, **what)
        return number

    def hear(self, number: int) -> dict[str, Any]:
        """The answer to one question. Raises BackendUnavailable where the driver itself has failed."""
        while number not in self._early:
            told = self._peer.answer(ANSWER_S)
            self._early[told.pop("id")] = told
        told = self._early.pop(number)
        if told.get("failed"):
            raise BackendUnavailable(f"helix-lock's driver failed: {json.dumps(told)}")
        return told

    def played(self, scripts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What came of each script, some at a time, each on a path of its own."""
        waiting, told = list(enumerate(scripts)), {}
        running: dict[int, int] = {}
        while waiting or running:
            while waiting and len(running) < SCRIPTS_AT_ONCE:
                place, script = waiting.pop(0)
                path = f"/scripts/LOCK/RESOURCE/{next(self._paths)}"
                running[self.ask(do="script", path=path, **script)] = place
            number = next(iter(running))
            told[running.pop(number)] = self.hear(number)
        return [told[place] for place in sorted(told)]

    def kill(self) -> None:
        """SIGKILL: nothing is given back, nothing is said."""
        self._peer.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._peer.__exit__(kind, error, trace)
