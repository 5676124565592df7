"""Traces for the two heartbeat managers, Hudi's and ours, tick by tick.

The scheduler is scripted, so a tick happens exactly where the trace says: also
while a renewal is running, where a stop is tried from inside it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from lockref.errors import LockError
from lockref.runtime import NS_PER_MS, ThreadRuntime
from lockref.storage.hudi.heartbeat import LockProviderHeartbeatManager
from lockref.storage.hudi.java_threads import JavaThread, JavaThreads, ScheduledFuture, SchedulerRefused

OWNER = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
STOP_TIMEOUT_MS = 1
"""Real time: how long a stop from inside a renewal waits for itself."""


class Ticks:
    """What a scripted scheduler holds: the latest work, until it is cancelled."""

    def __init__(self) -> None:
        self.work: Callable[[], None] | None = None
        self.is_shut_down = False

    def take(self, work: Callable[[], None]) -> Callable[[], None]:
        if self.is_shut_down:
            raise SchedulerRefused("shut down")
        self.work = work

        def cancel() -> None:
            if self.work is work:
                self.work = None

        return cancel

    def shut_down(self) -> None:
        self.is_shut_down = True


class Manager(Protocol):
    """The calls that both managers have here."""

    def start(self, *, owner_is_alive: bool) -> bool: ...
    def stop(self) -> bool: ...
    def is_active(self) -> bool: ...
    def close(self) -> None: ...
    def interrupted(self, *, clear: bool) -> bool: ...
    def interrupt(self) -> None: ...


class _Future(ScheduledFuture):
    def __init__(self, runtime: ThreadRuntime, on_cancel: Callable[[], None]) -> None:
        super().__init__(runtime)
        self._on_cancel = on_cancel

    def cancel(self) -> None:
        self._on_cancel()


class _Scheduler:
    def __init__(self, runtime: ThreadRuntime, ticks: Ticks) -> None:
        self._runtime, self._ticks = runtime, ticks

    def schedule(self, work: Callable[[], None], *, period_ns: int) -> ScheduledFuture:
        return _Future(self._runtime, self._ticks.take(work))

    def shutdown(self) -> None:
        self._ticks.shut_down()

    def await_termination(self, _timeout_ns: int) -> bool:
        return True


class _DeadTask:
    name = "dead"

    def is_alive(self) -> bool:
        return False

    def join(self, _timeout_ns: int | None = None) -> bool:
        return True


class Baseline:
    """Our manager on scripted ticks."""

    def __init__(self, ticks: Ticks, renew: Callable[[], bool]) -> None:
        self._runtime = ThreadRuntime()
        self._threads = JavaThreads(self._runtime)
        self._manager = LockProviderHeartbeatManager(
            OWNER, NS_PER_MS, renew, runtime=self._runtime, threads=self._threads,
            scheduler=_Scheduler(self._runtime, ticks), stop_timeout_ns=STOP_TIMEOUT_MS * NS_PER_MS,  # type: ignore[arg-type]
        )  # fmt: skip

    def start(self, *, owner_is_alive: bool) -> bool:
        thread = self._threads.current() if owner_is_alive else JavaThread(self._runtime, _DeadTask())
        return self._manager.start_heartbeat_for_thread(thread)

    def stop(self) -> bool:
        return self._manager.stop_heartbeat(True)

    def is_active(self) -> bool:
        return self._manager.has_active_heartbeat()

    def close(self) -> None:
        self._manager.close()

    def interrupted(self, *, clear: bool) -> bool:
        thread = self._threads.current()
        return thread.clear_interrupt() if clear else thread.is_interrupted()

    def interrupt(self) -> None:
        self._threads.current().interrupt()


class Original:
    """Hudi's manager on scripted ticks. Needs the JVM."""

    def __init__(self, ticks: Ticks, renew: Callable[[], bool]) -> None:
        from lockref.originals.hudi_classes import clear_interrupt
        from tests.evidence.peers import hudi_jvm

        self._jvm = hudi_jvm
        self._clear_interrupt = clear_interrupt
        clear_interrupt()
        self._manager = hudi_jvm.HudiHeartbeatOriginal(
            OWNER, renew, schedule=ticks.take, shutdown=ticks.shut_down, stop_timeout_ms=STOP_TIMEOUT_MS
        )
        self.start, self.stop = self._manager.start, self._manager.stop
        self.is_active, self.close = self._manager.is_active, self._manager.close

    def interrupted(self, *, clear: bool) -> bool:
        if clear:
            return self._clear_interrupt()
        return bool(self._jvm.current_java_thread().isInterrupted())

    def interrupt(self) -> None:
        self._jvm.current_java_thread().interrupt()


def make_trace(seed: int) -> list[list[Any]]:
    """Random calls; a tick carries what its renewal answers and what is called from inside it."""
    rng = random.Random(seed)
    trace: list[list[Any]] = [["start", True]]
    for _ in range(rng.randint(3, 12)):
        op = rng.choices(("start", "stop", "tick", "interrupt", "clear", "close"), (4, 4, 8, 1, 2, 0.3))[0]
        if op == "start":
            trace.append([op, rng.random() < 0.85])
        elif op == "tick":
            inner = rng.choices((None, "stop", "start", "tick", "close"), (6, 2, 1, 1, 0.3))[0]
            trace.append([op, rng.choice((True, True, False, "raise")), inner])
        else:
            trace.append([op])
    return trace


def run(trace: list[list[Any]], new: Callable[[Ticks, Callable[[], bool]], Manager]) -> list[list[Any]]:
    """Play a trace; per step: the answer, what happened inside a tick, active, interrupted, still scheduled."""
    ticks = Ticks()
    step: list[Any] = []
    inside: list[Any] = []

    def call(op: str) -> Any:
        if op == "tick":
            if ticks.work is not None:
                ticks.work()
            return None
        if op == "close":
            return manager.close()
        return manager.start(owner_is_alive=True) if op == "start" else manager.stop()

    def renew() -> bool:
        if inside:
            return True  # A tick inside a tick: both managers skip it, so this must not be reached.
        inside.append(["renewing", None if step[2] is None else call(step[2])])
        if step[1] == "raise":
            raise LockError("renewal")
        return bool(step[1])

    manager = new(ticks, renew)
    notes = []
    for step[:] in trace:
        inside.clear()
        answer: Any = None
        match step[0]:
            case "start":
                answer = manager.start(owner_is_alive=step[1])
            case "interrupt":
                manager.interrupt()
            case "clear":
                answer = manager.interrupted(clear=True)
            case _:
                answer = call(step[0])
        notes.append(
            [answer, list(inside), manager.is_active(), manager.interrupted(clear=False), ticks.work is not None]
        )
    manager.interrupted(clear=True)
    return notes
