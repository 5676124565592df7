"""A program in a process of its own that is asked in lines of JSON, answers in such lines, and can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lockref.errors import BackendUnavailable

START_TIMEOUT_S: Final = 120  # A cold start of a new wheel on a machine that does much else.
_END_TIMEOUT_S: Final = 10
_TAIL: Final = 600


class AskedProcess:
    """A running program. A context manager; its end kills the process.

    program: what to call it, beside the `name` of this process. command: how it is started. argument: of it, as JSON.
        env: added to ours.
    log_folder: where its error output stays.
    Errors: BackendUnavailable if it does not start.
    """

    def __init__(
        self, program: str, command: Sequence[str], argument: Mapping[str, object], *, env: Mapping[str, str],
        log_folder: Path, name: str,
    ) -> None:  # fmt: skip
        self.name = name
        self.program = program
        self._log_path = log_folder / f"{name}.log"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AWS_", "DYNAMO_"))}
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, json.dumps(argument)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**kept, **env},
            )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"answers-of-{name}", daemon=True)
        self._reader.start()
        try:
            self.answer(START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def ask(self, **what: object) -> None:
        """Send one line. A process that has ended does not hear it; `answer` then says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """The next line. Errors: TimeoutError; BackendUnavailable, with its last words, if the process has ended."""
        try:
            found = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"{self.name} ({self.program}) did not answer within {timeout_s} s") from None
        if found is None:
            self._answers.put(None)
            tail = self._log_path.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
            raise BackendUnavailable(f"{self.name} ({self.program}) has ended:\n{tail}")
        return found

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: nothing is released, nothing is said."""
        self._process.kill()
        self._process.wait(_END_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._reader.join(_END_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
