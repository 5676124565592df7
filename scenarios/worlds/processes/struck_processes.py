"""The processes of one client in a run with a fault plan: the present one is killed, and another follows it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lockref.errors import LockrefError
from lockref.history import REQUESTS_PER_PROCESS
from lockref.runtime import NS_PER_S, Event, ThreadRuntime
from scenarios.injection.real_time import send_signal
from scenarios.worlds.processes.workers import Workers
from scenarios.worlds.threads import Job

WAKER: Final = Path(__file__).with_name("waker.py")
_SLACK_S: Final = 2.0
"""How long after the end of a pause its waker acts, if nobody else has: only when this process is gone or stuck."""


class StruckProcesses:
    """See `scenarios.injection.real_time.Handle`.

    number: of the first process, at its workers. next_part: gives each later process a number that no other part of
    the record has. failed: told of what kept a process from being started.
    """

    def __init__(
        self,
        workers: Workers,
        number: int,
        job: Job,
        *,
        next_part: Callable[[], int],
        runtime: ThreadRuntime,
        failed: Callable[[LockrefError], None],
    ) -> None:
        self._workers = workers
        self._number: int | None = number
        self._job = job
        self._next_part = next_part
        self._runtime = runtime
        self._failed = failed
        self._is_prepared: Event = runtime.event()
        self._is_preparing = False
        self._is_awaited = False

    @property
    def is_running(self) -> bool:
        """See `Handle`."""
        return self._number is not None and self._workers.pid(self._number) != 0

    def hold(self, for_ns: int) -> Callable[[bool], None] | None:
        """SIGSTOP, with a waker beside the process that lets it go on if we cannot."""
        pid = 0 if self._number is None else self._workers.pid(self._number)
        # Between a restart and the readiness of the next process there is nothing to hold; 0 would be our own group.
        if not pid:
            return None
        argv = [sys.executable, "-S", "-E", str(WAKER), str(pid), str(for_ns / NS_PER_S + _SLACK_S)]
        # In a session of its own: a terminal's Ctrl-C must not take it along.
        waker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        send_signal(pid, signal.SIGSTOP)

        def go_on(is_last: bool) -> None:
            assert waker.stdin is not None, "it was asked for"
            # Kill the waker before its pipe is closed. A waker that sees the pipe closed sends SIGCONT, also to a
            # process that another pause still holds.
            if is_last:
                send_signal(pid, signal.SIGCONT)
            waker.kill()
            waker.stdin.close()
            waker.wait()

        return go_on

    def kill(self, *, succeeded: bool) -> None:
        """End the present process. succeeded: the next one is started at once, because that takes its time."""
        if self._number is not None:
            self._workers.fell(self._number)
        self._number = None
        # A crash before the next process is there strikes nobody: the one that is being started is still to come.
        if succeeded and not self._is_preparing:
            self._is_preparing = True
            self._is_prepared = self._runtime.event()
            self._runtime.spawn(self._prepare, name=f"next-of-{self._job.names[0]}")

    def _prepare(self) -> None:
        first_number = 1 + self._next_part() * REQUESTS_PER_PROCESS
        job = self._job = replace(self._job, first_number=first_number, incarnation=self._job.incarnation + 1)
        try:
            self._number = self._workers.follow(job)
        except LockrefError as error:
            self._failed(error)
        self._is_preparing = False
        self._is_prepared.set()

    def succeed(self) -> None:
        """Let the next process begin as soon as it is ready."""
        if self._is_awaited:
            return
        self._is_awaited = True
        self._workers.expect()

        def let_go() -> None:
            self._is_prepared.wait()
            self._is_awaited = False
            self._workers.let_go(self._number)

        self._runtime.spawn(let_go, name=f"restart-of-{self._job.names[0]}")
