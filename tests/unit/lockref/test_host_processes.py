"""A process that has ended is told from one that lives, on this machine; elsewhere nothing is claimed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lockref import host_processes
from lockref.runtime import ThreadRuntime

pytestmark = pytest.mark.skipif(not host_processes.own_mark(), reason="this platform does not name its processes")

SAYS_ITS_MARK = "from lockref import host_processes; print(host_processes.own_mark(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that lives, and its mark."""
    with subprocess.Popen(
        [sys.executable, "-c", SAYS_ITS_MARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_process_has_ended_once_it_is_killed_and_not_before(other: tuple[subprocess.Popen[str], str]) -> None:
    """T9: on the real kernel. A killed process that nobody has waited for yet still has its number."""
    process, mark = other
    assert str(process.pid) in mark.split(":")
    assert not host_processes.has_ended(mark)
    process.kill()
    process.wait()
    assert host_processes.has_ended(mark)


def test_a_process_for_which_nobody_has_waited_has_ended(other: tuple[subprocess.Popen[str], str]) -> None:
    """Its number stays until its parent waits. The first process of many containers never does."""
    process, mark = other
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert host_processes.has_ended(mark)


FIRST_THREAD_ENDS = """
import ctypes, sys, threading
from lockref import host_processes
print(host_processes.own_mark(), flush=True)
threading.Thread(target=sys.stdin.readline).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_alone_has_ended_lives() -> None:
    """The kernel calls it a zombie, and its other threads run on."""
    with subprocess.Popen(
        [sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            assert process.poll() is None
        # Where the mark is of another place nothing is claimed, and this test would show nothing.
        assert host_processes.is_of_this_place(mark)
        assert not host_processes.has_ended(mark)
        process.kill()


def test_this_process_lives() -> None:
    runtime = ThreadRuntime()
    assert runtime.process_mark() == host_processes.own_mark()
    assert not runtime.has_ended(runtime.process_mark())


def test_a_number_that_came_back_is_another_process(other: tuple[subprocess.Popen[str], str]) -> None:
    """A process with this number lives, but it did not start when the named one did."""
    *place, number, started = other[1].split(":")
    assert host_processes.has_ended(":".join((*place, number, str(int(started) - 1))))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nothing_is_known_of_another_boot_or_namespace(other: tuple[subprocess.Popen[str], str], place: int) -> None:
    """The same number elsewhere is another process, and whether that one lives nobody here can see."""
    process, mark = other
    process.kill()
    process.wait()
    parts = mark.split(":")
    parts[place] = "other"
    assert not host_processes.has_ended(":".join(parts))


@pytest.mark.parametrize("mark", ["", ":", "ingest", "a:b:c:d:e", "a:b:c:1:2:3", f"x:y:z:{10**30}:1"])
def test_a_name_that_means_nothing_has_not_ended(mark: str) -> None:
    assert not host_processes.has_ended(mark)


def test_a_process_that_may_not_be_asked_lives(
    other: tuple[subprocess.Popen[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another user's process the kernel says that it is there; where its start time cannot be read, it lives."""

    def refused(_number: int, _signal: int) -> None:
        raise PermissionError

    _, mark = other
    monkeypatch.setattr("lockref.host_processes.os.kill", refused)
    assert not host_processes.has_ended(mark)
    monkeypatch.setattr("lockref.host_processes._fields", lambda *_asked: [])
    assert not host_processes.has_ended(mark)


def test_a_foreign_proc_names_nobody(tmp_path: Path) -> None:
    """Of another namespace's /proc the numbers mean others: no name, and no claim."""
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    assert host_processes.own_mark(tmp_path) == ""
    assert not host_processes.has_ended(host_processes.own_mark(), tmp_path)


def test_a_command_may_be_called_anything(tmp_path: Path) -> None:
    """The second field of stat is the command's name, which may hold brackets and blanks."""
    (tmp_path / "7").mkdir()
    fields = " ".join(str(number) for number in range(3, 53))
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) 9 (c) {fields}")
    assert host_processes._start_time(tmp_path, 7) == "22"
