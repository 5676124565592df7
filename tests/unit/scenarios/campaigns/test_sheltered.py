"""A process of its own around a lock: what the lock does to it is told, and the next piece runs."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref.cli.jobs.campaign.executors import executor_of
from lockref.cli.main import run
from lockref.errors import BackendUnavailable, ConfigError, LockTimeout
from scenarios.campaigns import sheltered
from scenarios.campaigns.sheltered import Shelter
from scenarios.worlds.processes import beat

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def shelter() -> Iterator[Shelter]:
    made = Shelter()
    yield made
    made.close()


def pid_of(_piece: object) -> int:
    return os.getpid()


def in_shelter(piece: int) -> tuple[int, int]:
    """The process that was asked, and that of its child."""
    return os.getpid(), sheltered.shelter().call(pid_of, piece)


def end_itself(piece: str) -> None:
    with beat.under_way("provider 'x', seed 7"):
        os.write(2, b"my last words")
        sheltered.end_process(9)


def kill_itself(_piece: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_once(file: Path) -> str:
    if file.exists():
        return "done"
    file.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def fill_memory(_piece: object) -> None:
    kept = [bytearray(64 << 20) for _ in range(100)]
    assert kept


def fail(_piece: object) -> None:
    raise LockTimeout("too late")


def test_a_pipe_of_the_parent_ends_with_the_parent(shelter: Shelter) -> None:
    """A JVM ends when the pipe to its standard input closes: the child must hold no copy of it."""
    reading, writing = os.pipe()
    shelter.call(pid_of, 1)
    os.close(writing)
    assert select.select([reading], [], [], 20.0)[0], "the child keeps the pipe open"
    os.close(reading)


def test_beside_threads_no_piece_is_run_by_a_fork_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of a bucket has a thread: a forked child may hold a copy of its mutex, which nobody ever gives back."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a fork of this process"))
    executors = executor_of(None, processes=1, seeds=1, chunks=1, files={}, work=tmp_path, tell=pytest.fail, apart=True)
    with executors as executor:
        worker, child = executor.map(in_shelter, [1, 2])
    assert worker == child
    assert len({os.getpid(), *worker}) == 3


def test_pieces_share_one_child(shelter: Shelter) -> None:
    """A new process for each would begin with cold caches."""
    first, second = (shelter.call(pid_of, number) for number in (1, 2))
    assert first == second != os.getpid()


def test_a_lock_that_ends_its_process_is_told_with_its_run(shelter: Shelter) -> None:
    """With how it ended and what it said; it is not run again, and the next piece has a new process."""
    before = shelter.call(pid_of, 1)
    with pytest.raises(BackendUnavailable) as told:
        shelter.call(end_itself, "seeds 1 to 50")
    assert str(told.value) == (
        "seeds 1 to 50: provider 'x', seed 7: its process ended with exit code 9; it said: my last words; did the lock "
        "under test end it?"
    )
    assert shelter.call(pid_of, 1) != before


def test_what_something_outside_has_killed_runs_once_more(shelter: Shelter, tmp_path: Path) -> None:
    """The machine may have been short of memory; a second kill is an error of the environment."""
    assert shelter.call(kill_itself_once, tmp_path / "once") == "done"
    with pytest.raises(BackendUnavailable, match="killed by SIGKILL, twice"):
        shelter.call(kill_itself, "seeds 1 to 50")


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_work_that_eats_memory_is_told_with_its_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets MemoryError at its limit, and the machine stays whole."""
    monkeypatch.setattr(sheltered, "MEMORY_MAX", 1 << 30)
    shelter = Shelter()
    with pytest.raises(ConfigError, match=r"seeds 1 to 50: more than 1 GiB of memory"):
        shelter.call(fill_memory, "seeds 1 to 50")
    shelter.close()


def test_an_error_of_the_work_is_raised_here(shelter: Shelter) -> None:
    """As from a call."""
    with pytest.raises(LockTimeout, match="too late"):
        shelter.call(fail, 1)


PIDS_TOLD = """
import os
from lockref.storage.lock import StorageLock

class Own(StorageLock):
    @staticmethod
    def set_up():
        with open("set-up", "a") as file:
            file.write(f"{os.getpid()} ")
"""


@pytest.mark.parametrize("policy", [[], ["--explore", "pct:3"]], ids=["one schedule", "counted decisions"])
def test_a_campaign_sets_a_lock_up_in_its_child_alone(
    policy: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lock starts in a process, such as a JVM, would hang in each child that is forked later."""
    monkeypatch.chdir(tmp_path)
    Path("lock.py").write_text(PIDS_TOLD)
    line = ["campaign", "e08", "--provider", "lock.py:Own", "--seeds", "1..2", "--jobs", "1", "--shrink-for", "0s"]
    assert run([*line, *policy]) == 0
    told = set(Path("set-up").read_text().split())
    assert told
    assert str(os.getpid()) not in told
