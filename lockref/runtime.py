"""The Runtime port: everything a lock may ask of the machine it runs on.

A lock never calls `time`, `threading`, `random`, `secrets` or `uuid` itself: a
lint rule bans them outside this file. That is what lets one blocking provider
source run on threads in production, on greenlets under virtual time in the
simulator, and on real threads gated one at a time for conformance.

Durations and instants are integer nanoseconds. Wall and monotonic instants are
different types, because a wall clock steps and a monotonic one does not; the
simulator adds a third, true time, which no lock can see.

The shape follows kazoo's handlers (one client, several concurrency
substrates), reduced to what a lease needs.
"""

from __future__ import annotations

import contextlib
import os
import random as _random
import secrets
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NewType, Protocol

from lockref.host_processes import has_ended, own_mark

WallNs = NewType("WallNs", int)
"""A reading of a node's wall clock: nanoseconds since the epoch as that node sees it."""

MonoNs = NewType("MonoNs", int)
"""A reading of a node's monotonic clock: nanoseconds since an arbitrary start."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
"""Nanoseconds of a second."""

IDLE_THREADS_MAX = 32
"""Threads of one ThreadRuntime that may wait for their next job."""

IDLE_THREAD_S = 10.0
"""How long they wait before they end."""


class Task(Protocol):
    """A started activity: a thread, or a greenlet in virtual time."""

    @property
    def name(self) -> str: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout_ns: int | None = None) -> bool:
        """Wait for the end; True if it has ended."""
        ...


class Mutex(Protocol):
    """Mutual exclusion inside one process; not re-entrant."""

    def acquire(self, timeout_ns: int | None = None) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Event(Protocol):
    """A flag that tasks can wait for."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout_ns: int | None = None) -> bool:
        """Wait until set; False if the time ran out first."""
        ...


class Runtime(Protocol):
    """The services that a lock may use: two clocks, waiting, tasks, entropy, identity."""

    @property
    def random(self) -> _random.Random:
        """For jitter only; never for identity."""
        ...

    def wall_ns(self) -> WallNs: ...

    def monotonic_ns(self) -> MonoNs:
        """Counts through machine suspend where the platform can (H1)."""
        ...

    def sleep(self, duration_ns: int) -> None: ...

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        """Start `work` as a daemon task: it never keeps the process alive (D12, H11)."""
        ...

    def mutex(self) -> Mutex: ...

    def event(self) -> Event: ...

    def token_bytes(self, count: int) -> bytes:
        """Unpredictable bytes, for owner ids and nonces (H22)."""
        ...

    def current_task(self) -> Task: ...

    def process_id(self) -> int:
        """Changes in a forked child, where a lock must refuse service (H9)."""
        ...

    def process_mark(self) -> str:
        """Names this process among all that ever ran, on any machine; "" where the platform cannot tell."""
        ...

    def has_ended(self, mark: str) -> bool:
        """True only if the process of this `process_mark` has provably ended; False also where nobody here can know."""
        ...


class _ThreadTask:
    __slots__ = ("_thread",)

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    @property
    def name(self) -> str:
        return self._thread.name

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_ns: int | None = None) -> bool:
        self._thread.join(None if timeout_ns is None else timeout_ns / NS_PER_S)
        return not self._thread.is_alive()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThreadTask) and other._thread is self._thread

    def __hash__(self) -> int:
        return hash(self._thread)


class _Job:
    """One spawned activity: what it does, its name, whether it has ended."""

    __slots__ = ("_ended", "name", "work")

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self.work = work
        self.name = name
        self._ended = threading.Event()

    def run(self) -> None:
        threading.current_thread().name = self.name
        _running.job = self
        try:
            self.work()
        finally:
            _running.job = None
            self._ended.set()

    def is_alive(self) -> bool:
        return not self._ended.is_set()

    def join(self, timeout_ns: int | None = None) -> bool:
        return self._ended.wait(None if timeout_ns is None else max(0, timeout_ns) / NS_PER_S)


class _Running(threading.local):
    """The job that the current thread is at, if it is one of ours."""

    job: _Job | None = None


_running = _Running()


class _Workers:
    """Daemon threads that wait for their next job.

    Starting a thread waits until that thread has run for the first time, about
    as long as a request to a near store takes; a lock starts one with every
    grant. A thread whose job raises ends with it, as any thread would.
    """

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._mutex = threading.Lock()
        self._process = os.getpid()

    def run(self, job: _Job) -> None:
        """Give `job` to an idle thread, or to a new one. Raises RuntimeError if the system has none to give."""
        with self._mutex:
            if self._process != os.getpid():
                # A forked child inherits the list, not the threads.
                self._process = os.getpid()
                self._idle.clear()
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            threading.Thread(target=_Worker(self, job).serve, name=job.name, daemon=True).start()
        else:
            worker.give(job)

    def offer(self, worker: _Worker) -> bool:
        """Take a worker back; False if there are enough."""
        with self._mutex:
            if len(self._idle) >= IDLE_THREADS_MAX:
                return False
            self._idle.append(worker)
            return True

    def withdraw(self, worker: _Worker) -> bool:
        """True if the worker was still idle and may end; False if a job is on its way to it."""
        with self._mutex:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


class _Worker:
    __slots__ = ("_given", "_job", "_workers")

    def __init__(self, workers: _Workers, job: _Job) -> None:
        self._workers = workers
        self._job = job
        self._given = threading.Semaphore(0)

    def give(self, job: _Job) -> None:
        self._job = job
        self._given.release()

    def serve(self) -> None:
        while True:
            self._job.run()
            if not self._workers.offer(self):
                return
            if not self._given.acquire(timeout=IDLE_THREAD_S):
                if self._workers.withdraw(self):
                    return
                self._given.acquire()


class _ThreadMutex:
    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout_ns: int | None = None) -> bool:
        return self._lock.acquire(timeout=-1 if timeout_ns is None else max(0, timeout_ns) / NS_PER_S)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> _ThreadMutex:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class _ThreadEvent:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_ns: int | None = None) -> bool:
        return self._event.wait(None if timeout_ns is None else max(0, timeout_ns) / NS_PER_S)


def _suspend_aware_clock() -> Callable[[], int]:
    """CLOCK_BOOTTIME where it exists: Linux's CLOCK_MONOTONIC stops during suspend (H1)."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return time.monotonic_ns
    with contextlib.suppress(OSError):
        time.clock_gettime_ns(boottime)
        return lambda: time.clock_gettime_ns(boottime)
    return time.monotonic_ns


class ThreadRuntime:
    """The production substrate: real clocks, daemon threads, the system's entropy."""

    def __init__(self) -> None:
        self.random = _random.Random(secrets.randbits(64))
        self._monotonic_ns = _suspend_aware_clock()
        self._workers = _Workers()

    def wall_ns(self) -> WallNs:
        return WallNs(time.time_ns())

    def monotonic_ns(self) -> MonoNs:
        return MonoNs(self._monotonic_ns())

    def sleep(self, duration_ns: int) -> None:
        if duration_ns > 0:
            time.sleep(duration_ns / NS_PER_S)

    def spawn(self, work: Callable[[], None], *, name: str) -> Task:
        job = _Job(work, name)
        self._workers.run(job)
        return job

    def mutex(self) -> Mutex:
        return _ThreadMutex()

    def event(self) -> Event:
        return _ThreadEvent()

    def token_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def current_task(self) -> Task:
        return _running.job or _ThreadTask(threading.current_thread())

    def process_id(self) -> int:
        return os.getpid()

    def process_mark(self) -> str:
        return own_mark()

    def has_ended(self, mark: str) -> bool:
        return has_ended(mark)
