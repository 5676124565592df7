"""The real world, as the simulator's injector sees it: a clock, processes, and a store that an operator can change.

The same injector carries out the same plan in both worlds, so filters, triggers, counts and FAULT rows mean the same
(`sim.faults.injector`). The injector needs little of a world: an instant, calls at instants, nodes that can be paused,
crashed and restarted, and services that an operator can change. All of this lives on one event loop, and may be called
from there only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from lockref.errors import ConfigError, LockrefError
from lockref.history import Recorder, Stamp
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.port import ObjectStore
from lockref.words import Kind, Outcome
from scenarios.backends.server_process import RestartableServer
from sim.kernel.clocks import WALL_EPOCH_NS


class RealTimeline:
    """True time of a real run, in nanoseconds from its begin, and calls at instants of it."""

    def __init__(self, runtime: ThreadRuntime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop
        self._start_ns = runtime.monotonic_ns()
        self.expected = 0
        """Processes that are due to be started: the run does not end before."""

    def begin(self) -> int:
        """The run begins now; its instant on the host's monotonic clock."""
        self._start_ns = self._runtime.monotonic_ns()
        return self._start_ns

    @property
    def now_ns(self) -> int:
        return self._runtime.monotonic_ns() - self._start_ns

    def call_at(self, true_ns: int, call: Callable[[], object]) -> None:
        self._loop.call_later(max(0, true_ns - self.now_ns) / NS_PER_S, call)

    def expect_task(self) -> None:
        self.expected += 1

    def expect_no_task(self) -> None:
        self.expected -= 1

    def retime(self, _clock: object) -> None:
        raise AssertionError("no real run changes a clock")


class HostRecorder:
    """Writes the injector's rows by the clocks of this machine, whatever instants it names."""

    def __init__(self, recorder: Recorder, runtime: ThreadRuntime) -> None:
        self._recorder = recorder
        self._runtime = runtime

    def event(self, kind: Kind, _stamp: Stamp, node: str, *, detail: str) -> None:
        now_ns = self._runtime.monotonic_ns()
        self._recorder.event(kind, (now_ns, self._runtime.wall_ns(), now_ns, ""), node, detail=detail)


class Handle(Protocol):
    """The processes of one client, as faults strike them."""

    @property
    def is_running(self) -> bool:
        """True if there is a process that a fault can stop or kill."""
        ...

    def hold(self, for_ns: int) -> Callable[[bool], None] | None:
        """Stop the present process; None if there is none.

        What is returned is called `for_ns` later, on the same loop: with True, the process goes on.
        """
        ...

    def kill(self, *, succeeded: bool) -> None:
        """End the present process at once, by plan. succeeded: another one takes its place later."""
        ...

    def succeed(self) -> None:
        """Let the next process begin its work."""
        ...


class RealProcess:
    """One incarnation of a client."""

    __slots__ = ("node", "number")

    def __init__(self, node: RealNode, number: int) -> None:
        self.node = node
        self.number = number


class _HostClock:
    """A node's clocks; rows are stamped by `HostRecorder`, which asks the host."""

    def wall_ns(self, true_ns: int) -> int:
        return WALL_EPOCH_NS + true_ns

    def mono_ns(self, true_ns: int) -> int:
        return true_ns


class RealNode:
    """A client of a real run, as faults know it."""

    clock = _HostClock()

    def __init__(self, name: str, timeline: RealTimeline, *, restarts: bool) -> None:
        self.name = name
        self.is_up = True
        self.process = RealProcess(self, 1)
        self.handle: Handle | None = None
        self._timeline = timeline
        self._restarts = restarts
        self._held_until_ns = 0

    @property
    def is_running(self) -> bool:
        """True while the present process has not ended."""
        return self.is_up and self._present().is_running

    def pause(self, for_ns: int, _task: object = None, *, on_held: Callable[[], None] | None = None) -> None:
        """Stop the process, all of it. Overlapping pauses last to the latest end."""
        if not self.is_up or for_ns <= 0:
            return
        process = self.process
        let_go = self._present().hold(for_ns)
        if let_go is None:
            return
        now_ns = self._timeline.now_ns
        self._held_until_ns = max(self._held_until_ns, now_ns + for_ns)
        if on_held is not None:
            on_held()

        def go_on() -> None:
            let_go(self._timeline.now_ns >= self._held_until_ns and self.is_up and self.process is process)

        self._timeline.call_at(now_ns + for_ns, go_on)

    async def while_held(self) -> None:
        """Wait until no pause holds the process any more."""
        while (left_ns := self._held_until_ns - self._timeline.now_ns) > 0:
            await asyncio.sleep(left_ns / NS_PER_S)

    def crash(self) -> None:
        self.is_up = False
        self._held_until_ns = 0
        self._present().kill(succeeded=self._restarts)

    def restart(self) -> None:
        self.process = RealProcess(self, self.process.number + 1)
        self.is_up = True
        self._held_until_ns = 0
        self._present().succeed()

    def _present(self) -> Handle:
        assert self.handle is not None, "faults strike after the processes are there"
        return self.handle


class RealStore:
    """The store of a run, into which an operator reaches past every fault of the wire.

    store: the operator's own way to it, recorded under his name; None where he has nothing to do. keys: those of the
    locks' records. server: where it was started here. failed: told of a server that could not be started again.
    """

    def __init__(
        self,
        name: str,
        store: ObjectStore | None,
        keys: Sequence[str],
        *,
        server: RestartableServer | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._keys = keys
        self._server = server
        self._timeline: RealTimeline | None = None
        self._failed: Callable[[BaseException], None] = _raise
        self._frozen_until_ns = 0
        self._down_until_ns = 0

    def live_on(self, timeline: RealTimeline, *, failed: Callable[[BaseException], None]) -> None:
        """The plan's faults end by this clock. failed: ends the run."""
        self._timeline = timeline
        self._failed = failed

    def freeze(self, for_ns: int, on_held: Callable[[], None]) -> None:
        """Stop the server's processes (SIGSTOP) for so long. on_held: told once."""
        timeline, server = self._lived_on()
        pids = server.pids
        self._frozen_until_ns = max(self._frozen_until_ns, timeline.now_ns + for_ns)
        for pid in pids:
            send_signal(pid, signal.SIGSTOP)
        on_held()

        def go_on() -> None:
            if timeline.now_ns >= self._frozen_until_ns:
                for pid in reversed(pids):
                    send_signal(pid, signal.SIGCONT)

        timeline.call_at(timeline.now_ns + for_ns, go_on)

    def crash(self, for_ns: int, on_refused: Callable[[], None]) -> None:
        """Kill the server's processes (SIGKILL), and start it again so much later. on_refused: told once.

        Of overlapping crashes the latest end counts.
        """
        timeline, server = self._lived_on()
        self._down_until_ns = max(self._down_until_ns, timeline.now_ns + for_ns)
        server.crash()
        on_refused()

        def restart() -> None:
            try:
                server.restart()
            except (LockrefError, OSError) as error:
                self._failed(error)

        def come_back() -> None:
            if timeline.now_ns >= self._down_until_ns:
                # Its end is waited for, so not on the loop that carries the requests.
                threading.Thread(target=restart, name="server-restart", daemon=True).start()

        timeline.call_at(timeline.now_ns + for_ns, come_back)

    def _lived_on(self) -> tuple[RealTimeline, RestartableServer]:
        assert self._timeline is not None, "it lives in a run"
        assert self._server is not None, "only a server of ours is struck"
        return self._timeline, self._server

    def tamper(self, act: str, key: str | None = None, *, body: bytes | None = None, attribute: str = "") -> int:
        """See `HostedService.tamper`. Raises ConfigError for an act that no operator can do on a real store."""
        return sum(self._tamper(act, each, body) for each in ([key] if key is not None else self._keys))

    def _tamper(self, act: str, key: str, body: bytes | None) -> bool:
        assert self._store is not None, "a plan that needs an operator has one"
        if act == "delete":
            was_there = self._store.read(key).body is not None
            return was_there and self._store.delete(key).outcome is Outcome.APPLIED
        if act == "put":
            assert body is not None, "what is put has a body"
            return self._store.put(key, body).outcome is Outcome.APPLIED
        raise ConfigError(f"the act {act!r} is not possible on a real store")


def _raise(error: BaseException) -> None:
    raise error


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send it to one process, if that is still there."""
    assert pid > 0, "0 and below are groups of processes, the first of them our own"
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        # It has ended by itself: there is nothing to stop any more.
        return


class HealedNetwork:
    """The network of a real run loses nothing by itself."""

    def heal(self) -> None:
        """Nothing: what cuts it are faults, and they end."""
