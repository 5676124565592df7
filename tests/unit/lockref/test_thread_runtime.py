"""The production substrate: spawned tasks run on threads that are used again, and nobody can tell."""

from __future__ import annotations

import os
import threading
import time

import pytest

from lockref import runtime as runtime_module
from lockref.runtime import NS_PER_S, Task, ThreadRuntime

PATIENCE_NS = 30 * NS_PER_S


def idle(runtime: ThreadRuntime, count: int) -> None:
    """Wait until `count` threads wait for a job: a task's end is told just before its thread is free."""
    deadline = time.monotonic() + 30
    while len(runtime._workers._idle) != count:
        assert time.monotonic() < deadline, "the threads never became idle"
        time.sleep(0.001)


def ran(runtime: ThreadRuntime, name: str = "task") -> tuple[Task, Task, threading.Thread]:
    """Spawn a task and wait for its end: its handle, what it saw as itself, its thread."""
    seen: list[tuple[Task, threading.Thread]] = []
    task = runtime.spawn(lambda: seen.append((runtime.current_task(), threading.current_thread())), name=name)
    assert task.join(PATIENCE_NS)
    return task, seen[0][0], seen[0][1]


def test_a_task_knows_itself_and_ends() -> None:
    """The handle is what `current_task` answers inside; it is alive until its work has ended."""
    runtime = ThreadRuntime()
    task, inside, thread = ran(runtime, "heartbeat")
    assert inside is task
    assert task.name == "heartbeat"
    assert not task.is_alive()
    assert thread.daemon, "D12: a task must never keep the process alive"
    release = runtime.event()
    waiting = runtime.spawn(lambda: [release.wait(PATIENCE_NS)].clear(), name="waiting")
    assert waiting.is_alive()
    assert not waiting.join(0)
    release.set()
    assert waiting.join(PATIENCE_NS)


def test_tasks_on_one_thread_are_different_tasks() -> None:
    """H9, H13: an owner is a task, not the thread that happens to carry it."""
    runtime = ThreadRuntime()
    first, _, thread = ran(runtime)
    idle(runtime, 1)
    second, _, same_thread = ran(runtime, "second")
    assert thread is same_thread, "an idle thread was not used again"
    assert thread.name == "second", "a thread is called after what it does"
    assert first != second
    assert runtime.current_task() == runtime.current_task()
    assert runtime.current_task() not in (first, second)


def test_a_task_that_raises_takes_its_thread_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task raises is reported as any thread's is, the task counts as ended, and the next one has a thread."""
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.append(told.exc_type))
    runtime = ThreadRuntime()

    def fail() -> None:
        raise KeyError("on purpose")

    failing = runtime.spawn(fail, name="failing")
    assert failing.join(PATIENCE_NS)
    ran(runtime)
    idle(runtime, 1)
    assert reported == [KeyError]


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that finds no job within its patience ends; one of too many ends at once."""
    monkeypatch.setattr(runtime_module, "IDLE_THREAD_S", 0.01)
    runtime = ThreadRuntime()
    _, _, thread = ran(runtime)
    thread.join(30)
    assert not thread.is_alive()
    assert not runtime._workers._idle
    monkeypatch.setattr(runtime_module, "IDLE_THREAD_S", 60)
    monkeypatch.setattr(runtime_module, "IDLE_THREADS_MAX", 0)
    _, _, thread = ran(runtime)
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads() -> None:
    """A child inherits the list of idle threads and none of the threads: it starts its own."""
    runtime = ThreadRuntime()
    ran(runtime)
    idle(runtime, 1)
    child = os.fork()
    if child == 0:
        task = runtime.spawn(lambda: None, name="in the child")
        os._exit(0 if task.join(20 * NS_PER_S) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_no_thread_to_give_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """H10, U8: where the system has no thread, spawn raises; it does not pretend."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        ThreadRuntime().spawn(lambda: None, name="x")


def test_a_wait_without_a_limit_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits until the flag is set; 0 and less do not wait."""
    limits: list[float | None] = []
    monkeypatch.setattr(threading.Event, "wait", lambda _event, limit=None: limits.append(limit) or True)
    event = ThreadRuntime().event()
    for timeout_ns in (None, 0, -5, NS_PER_S // 2):
        event.wait(timeout_ns)
    assert limits == [None, 0, 0, 0.5]


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the platform has no clock that counts a suspend")
def test_the_monotonic_clock_counts_through_a_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: the clock is the one that goes on while the machine sleeps."""
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: {time.CLOCK_BOOTTIME: 42}[clock])
    assert ThreadRuntime().monotonic_ns() == 42
