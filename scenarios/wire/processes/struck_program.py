"""The processes of one client under a plan: they are stopped, killed, and started again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol, final

from lockref.runtime import NS_PER_S, Runtime


class Stoppable(Protocol):
    """A process of the program under test, and the processes that are started in its place."""

    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    def signal(self, number: int) -> bool: ...

    def kill(self) -> None: ...

    def wait(self, timeout_ns: int) -> bool: ...


@final
class StruckProgram:
    """See `scenarios.injection.real_time.Handle`. If we end, the keeper kills the process, even a stopped one.

    follows: told before another process is started.
    """

    def __init__(self, program: Stoppable, *, follows: Callable[[], None], runtime: Runtime) -> None:
        self._program = program
        self._follows = follows
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._was_killed = False
        self._is_over = False
        self.starting = 0
        """Processes that are being started."""

    def end(self) -> None:
        """The run is over: no process is started any more."""
        with self._mutex:
            self._is_over = True

    @property
    def is_running(self) -> bool:
        """See `Handle`."""
        return self._program.is_running

    def hold(self, _for_ns: int) -> Callable[[bool], None] | None:
        """SIGSTOP to the process and its group."""
        if not self._program.signal(signal.SIGSTOP):
            return None

        def go_on(is_last: bool) -> None:
            if is_last:
                self._program.signal(signal.SIGCONT)

        return go_on

    def kill(self, *, succeeded: bool) -> None:
        """SIGKILL. A process that has ended by itself has no successor."""
        self._was_killed = succeeded and self._program.is_running
        self._program.kill()

    def succeed(self) -> None:
        """Start another process, which is another client to the lock."""
        if not self._was_killed:
            return
        self._was_killed = False
        with self._mutex:
            self.starting += 1

        def start() -> None:
            is_ended = self._program.wait(NS_PER_S)
            with self._mutex:
                if is_ended and not self._is_over:
                    self._follows()
                    self._program.start()
                self.starting -= 1

        self._runtime.spawn(start, name="next-process")
