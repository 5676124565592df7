"""A lock that hangs in C code: no line of Python runs in its process, and yet the command ends, with a word."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from scenarios.worlds.processes import beat

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are watched where there is fork")

HANGING = """
import itertools, sys, threading
from lockref import StorageLock

MUTEX = threading.Lock()

def in_a_sum(_):
    sum(itertools.repeat(0))

def in_a_mutex(_):
    MUTEX.acquire()
    MUTEX.acquire(timeout=10**6)

def in_its_unwinding(lock):
    try:
        lock._runtime.sleep(10**18)
    finally:
        sum(itertools.repeat(0))

class Hanging(StorageLock):
    def lock(self, timeout_s):
        print("in C", file=sys.stderr, flush=True)
        {how}(self)
"""

LINES = {
    "in_a_sum": "    sum(itertools.repeat(0))",
    "in_a_mutex": "    MUTEX.acquire(timeout=10**6)",
    "in_its_unwinding": "        sum(itertools.repeat(0))",
}
"""Where each of them hangs."""

COMMAND = """
import sys
from scenarios.worlds.processes import beat, cpu_watch
beat.STUCK_CPU_S, beat.LOOK_EVERY_S, beat.ASLEEP_LOOKS, cpu_watch.TICK_S = {patience}, 0.1, 5, 0.2
from lockref.cli.main import main
main()
"""
"""The command line with a patience of its own. Worker processes keep theirs, but the command watches them."""

LITTLE_S, MUCH_S = 1.0, 600.0
"""The patience with a lock that hangs, in seconds of CPU time. With much of it a signal comes first."""

ONE_SEED = ("sim", "e08", "--seed", "1")
IN_WORKERS = ("sim", "e08", "--seeds", "1..100", "--jobs", "2")


@contextlib.contextmanager
def begun(folder: Path, how: str, *command: str, patience_s: float = LITTLE_S) -> Iterator[subprocess.Popen[str]]:
    """The command line, with a lock that hangs so; none of its processes outlives the block."""
    (folder / "hanging.py").write_text(HANGING.replace("{how}", how))
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(patience=patience_s), *command, "--provider", "hanging.py:Hanging"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            for each in _of_session(process.pid):
                each.kill()


def _of_session(number: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def hears(process: subprocess.Popen[str], word: str) -> str:
    """What the command said up to the line with this word."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if word in line:
            return said
    pytest.fail(f"it never said {word!r}: {said}")


def is_in_c(process: subprocess.Popen[str]) -> None:
    """Wait until the command is inside the C code: it says so just before, and computes in there."""
    hears(process, "in C")
    enough_s = _computed_s(process) + 0.2
    while _computed_s(process) < enough_s:
        assert process.poll() is None, "it ended by itself"
        time.sleep(0.01)


def _computed_s(process: subprocess.Popen[str]) -> float:
    """The processor time that the command and its children have used."""
    used_s = 0.0
    for each in _of_session(process.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            used_s += each.cpu_times().user
    return used_s


@pytest.mark.parametrize(
    ("how", "command"),
    [
        ("in_a_sum", ONE_SEED),
        pytest.param("in_a_mutex", ONE_SEED, marks=pytest.mark.long),
        pytest.param("in_its_unwinding", ONE_SEED, marks=pytest.mark.long),
        pytest.param("in_a_sum", IN_WORKERS, marks=pytest.mark.long),
        pytest.param("in_a_mutex", IN_WORKERS, marks=pytest.mark.long),
        pytest.param(
            "in_a_sum", ("bench", "--backend", "memory:", "--contenders", "2", "--for", "1s"), marks=pytest.mark.long
        ),
    ],
)
def test_a_lock_that_hangs_in_c_code_ends_the_command(tmp_path: Path, how: str, command: tuple[str, ...]) -> None:
    """`sim` hung for ever, and no signal but SIGKILL ended it. Now: which run, which line, exit 5, nobody left."""
    with begun(tmp_path, how, *command) as process:
        said = hears(process, "where nothing can interrupt it")
        assert process.wait(60) == 5
        assert "provider 'hanging.py:Hanging', " in said
        assert "seed " in said or "bench" in command
        assert f"/hanging.py:{1 + HANGING.splitlines().index(LINES[how])} ({how})" in said
        assert _of_session(process.pid) == []


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """The first one cannot be heard inside C code. Nobody in there is asked about the second."""
    with begun(tmp_path, "in_a_sum", *ONE_SEED, patience_s=MUCH_S) as process:
        is_in_c(process)
        process.send_signal(signal.SIGINT)
        # A signal that follows at once is the same order: `timeout` sends each twice. The word comes later than that.
        hears(process, "a second signal ends it at once")
        process.send_signal(signal.SIGINT)
        hears(process, "a second signal ended it at once")
        assert process.wait(60) == 130
        assert _of_session(process.pid) == []


@pytest.mark.long
def test_one_signal_ends_a_command_whose_workers_hang(tmp_path: Path) -> None:
    """The command itself is not inside the C code: it hears the first signal, and its workers end with it."""
    with begun(tmp_path, "in_a_sum", *IN_WORKERS, patience_s=MUCH_S) as process:
        is_in_c(process)
        process.send_signal(signal.SIGINT)
        hears(process, "interrupted")
        assert process.wait(60) == 130
        assert _of_session(process.pid) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("command", [ONE_SEED, pytest.param(IN_WORKERS, marks=pytest.mark.long)])
def test_what_hangs_in_c_code_does_not_outlive_a_killed_command(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The thread that ends an orphan gets no turn beside C code that keeps the interpreter."""
    with begun(tmp_path, "in_a_sum", *command) as process:
        is_in_c(process)
        others = [each for each in _of_session(process.pid) if each.pid != process.pid]
        assert others
        process.kill()
        assert psutil.wait_procs(others, timeout=60)[1] == []


def burn(cpu_s: float) -> None:
    """Use this much more of this process's processor time."""
    process = psutil.Process()
    end_s = sum(process.cpu_times()[:2]) + cpu_s
    while sum(process.cpu_times()[:2]) < end_s:
        pass


def test_only_processor_time_without_a_beat_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine gives a process no time; that is not its fault. One that beats runs, however long."""
    monkeypatch.setattr(beat, "STUCK_CPU_S", 0.1)
    monkeypatch.setattr(beat, "_is_debugged", lambda: False)
    memory = bytearray(2 * beat.SIZE)
    mine, watch = beat.Beat(memory, 1), beat.BeatWatch(memory, 1)
    burn(0.2)
    assert watch.stuck() == ""
    with mine.under_way("seed 7"):
        for _ in range(3):
            mine.beat()
            assert watch.stuck() == ""
            burn(0.06)
        burn(0.06)
        assert watch.stuck().startswith("seed 7: a step has run for ")
    assert watch.stuck() == ""


class CpuTimes(NamedTuple):
    """As psutil tells them."""

    user: float
    system: float


def test_whoever_sleeps_at_every_look_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses no processor time. A single look at which it runs begins the count anew."""
    states = iter(["sleeping"] * 4 + ["running"] + ["sleeping"] * 6)
    monkeypatch.setattr(psutil.Process, "status", lambda _self: next(states))
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda _self: CpuTimes(user=1.0, system=0.0))
    monkeypatch.setattr(beat, "ASLEEP_LOOKS", 5)
    monkeypatch.setattr(beat, "_is_debugged", lambda: False)
    monkeypatch.setattr(beat, "_is_writable", lambda _stream: True)
    memory = bytearray(beat.SIZE)
    watch = beat.BeatWatch(memory)
    with beat.Beat(memory).under_way("seed 7"):
        assert [bool(watch.stuck()) for _ in range(11)] == [False] * 9 + [True] * 2


@pytest.mark.parametrize(
    ("cpu", "writable", "is_stuck"),
    [
        ((0.0, 0.0), True, True),
        ((0.1, 0.0), True, False),
        ((0.0, 0.0), False, False),
        ((3.0, 0.0), True, True),
        ((0.0, 3.0), True, True),
    ],
    ids=["sleeps", "sleeps between pieces of work", "waits for its reader", "computes", "computes in the kernel"],
)
def test_what_a_look_takes_for_a_stuck_step(
    monkeypatch: pytest.MonkeyPatch, cpu: tuple[float, float], writable: bool, is_stuck: bool
) -> None:
    """cpu: seconds as a user and in the kernel between two looks, of which there are eight."""
    times = iter(CpuTimes(user=1 + look * cpu[0], system=1 + look * cpu[1]) for look in range(8))
    monkeypatch.setattr(psutil.Process, "status", lambda _self: "sleeping")
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda _self: next(times))
    monkeypatch.setattr(beat, "ASLEEP_LOOKS", 5)
    monkeypatch.setattr(beat, "_is_debugged", lambda: False)
    monkeypatch.setattr(beat, "_is_writable", lambda _stream: writable)
    memory = bytearray(beat.SIZE)
    watch = beat.BeatWatch(memory)
    with beat.Beat(memory).under_way("seed 7"):
        assert any(watch.stuck() for _ in range(8)) is is_stuck


def test_after_an_inner_step_the_outer_one_is_watched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 20.0, 20.0, 40.0])
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda _self: CpuTimes(user=next(times), system=0.0))
    monkeypatch.setattr(beat, "_is_debugged", lambda: False)
    memory = bytearray(beat.SIZE)
    mine, watch = beat.Beat(memory), beat.BeatWatch(memory)
    with mine.under_way("seed 7"):
        with mine.under_way("shrinking"):
            assert watch.stuck() == ""
            assert watch.stuck().startswith("shrinking: ")
        assert watch.stuck() == ""
        assert watch.stuck().startswith("seed 7: ")
    assert watch.stuck() == ""


def test_a_step_that_a_debugger_holds_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1000.0])
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda _self: CpuTimes(user=next(times), system=0.0))
    monkeypatch.setattr(beat, "_is_debugged", lambda: True)
    memory = bytearray(beat.SIZE)
    watch = beat.BeatWatch(memory)
    with beat.Beat(memory).under_way("seed 7"):
        assert [watch.stuck() for _ in range(2)] == ["", ""]
