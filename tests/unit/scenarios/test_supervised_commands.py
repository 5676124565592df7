"""A command whose own process is ended under it: exit 5 and a line that says what ended, never a verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are watched where there is fork")

ENDING = """
import os, signal
from lockref import StorageLock

# Bound early: a simulation bars these names later, and cannot bar C code.
END, KILL, OWN = os._exit, os.kill, os.getpid()

class Ending(StorageLock):
    def lock(self, timeout_s):
        {how}
"""

WAYS = {
    "END(0)": "ended with exit code 0",
    "END(1)": "ended with exit code 1",
    "KILL(OWN, signal.SIGKILL)": "was killed by SIGKILL",
}


def ended(folder: Path, how: str, *command: str) -> subprocess.CompletedProcess[str]:
    """The command line, with a lock that ends its process in this way."""
    (folder / "ending.py").write_text(ENDING.format(how=how))
    return subprocess.run(
        [sys.executable, "-m", "lockref", *command, "--provider", "ending.py:Ending"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.long if how == "END(1)" else ()) for how in WAYS])
def test_a_lock_that_ends_the_bench(tmp_path: Path, how: str) -> None:
    """Clients are threads of the command's own process; `os._exit(0)` was read as "held"."""
    done = ended(tmp_path, how, "bench", "--backend", "memory:", "--contenders", "2", "--for", "1s")
    assert done.returncode == 5
    assert f"the process of the command {WAYS[how]} before it had a verdict" in done.stderr


@pytest.mark.parametrize(
    ("how", "jobs"),
    [("END(0)", 1), pytest.param("END(0)", 2, marks=pytest.mark.long), ("KILL(OWN, signal.SIGKILL)", 2)],
)
def test_a_lock_that_ends_the_simulation(tmp_path: Path, how: str, jobs: int) -> None:
    """In the command's own process, and in a worker of it."""
    done = ended(tmp_path, how, "sim", "e08", "--seeds", "1..100", "--jobs", str(jobs))
    assert done.returncode == 5
    what = "the process of the command" if jobs == 1 else "a simulating process"
    assert f"{what} {WAYS[how]} before it had" in done.stderr


SUPERVISED = """
import os, signal, sys
from scenarios import supervised

def work():
    {work}

sys.exit(supervised.supervised(work))
"""


def supervised(work: str, **how: object) -> subprocess.Popen[str]:
    """A process that is watched and does this."""
    lines = SUPERVISED.format(work=work.replace("\n", "\n    "))
    return subprocess.Popen(
        [sys.executable, "-c", lines], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    )  # type: ignore[call-overload]


@pytest.mark.parametrize("code", [0, 1, 3, 130])
def test_an_exit_code_that_was_told_is_the_commands(code: int) -> None:
    """Every verdict passes; also where the process crashes while it is taken apart."""
    with supervised(f"return {code}") as done:
        assert (done.wait(60), done.stderr.read() if done.stderr else "") == (code, "")
    with supervised(f"supervised.tell_exit_code({code}); os.kill(os.getpid(), signal.SIGKILL)") as done:
        assert done.wait(60) == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("is_group", [False, True])
def test_a_signal_reaches_the_command_once(number: signal.Signals, is_group: bool) -> None:
    """Sent to the command alone or, as a terminal does, to its group: a second signal would cut its results off."""
    work = (
        "heard = []\n"
        "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "    signal.signal(number, lambda number, _: heard.append(number))\n"
        "print('ready', flush=True)\n"
        "while not heard:\n"
        "    signal.sigtimedwait([], 0.05)\n"  # A pause() waits for ever if the signal came just before it.
        "signal.sigtimedwait([], 0.2)\n"
        "return 10 * len(heard) + heard[0]"
    )
    with supervised(work, start_new_session=True) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        if is_group:
            os.killpg(command.pid, number)
        else:
            command.send_signal(number)
        assert command.wait(60) == 10 + number


def test_a_command_that_does_not_end_at_once_is_said_to_be_ending() -> None:
    """Its user learns that the signal was heard, and that a second one ends it in any case."""
    work = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\nwhile True:\n    signal.pause()"
    with supervised(work) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stdout.readline() == "ready\n"
        command.send_signal(signal.SIGINT)
        assert "a second signal ends it at once" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        assert "a second signal ended it at once" in command.stderr.readline()
        assert command.wait(60) == 130


def test_a_signal_that_ends_the_command_is_no_defect() -> None:
    """It came before the command listened: interrupted, as ever."""
    work = "signal.signal(signal.SIGTERM, signal.SIG_DFL)\nprint('ready', flush=True)\nwhile True:\n    signal.pause()"
    with supervised(work) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        command.send_signal(signal.SIGTERM)
        assert command.wait(60) == 130


def test_the_command_does_not_outlive_the_process_that_was_killed() -> None:
    """`kill -9` of the command, as its user sees it: its output ends because nobody holds it any more."""
    with supervised("print('ready', flush=True)\nwhile True:\n    signal.pause()") as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        command.kill()
        assert command.stdout.read() == ""
