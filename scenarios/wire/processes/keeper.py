"""A process between us and a program under test. It makes sure that the program never outlives us.

Run as a script, with nothing but the standard library. It starts the program in a process group of its own, and says
`started PID` on its standard output. Then it waits until the program ends, or until its own standard input closes. That
is a pipe whose other end our process holds: it closes however our process ends, `kill -9` included. In both cases the
keeper kills the program and all processes that the program has started. On Linux orphans below the keeper become its
children, so even a grandchild in a session of its own is found. At last it says `ended CODE` and ends. SIGKILL ends
also a stopped program (SIGSTOP).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import runpy
import select
import signal
import subprocess
import sys
from pathlib import Path

PARENT_DEATH = Path(__file__).parents[2] / "worlds" / "processes" / "parent_death.py"
"""By its file: this script has none of the project's folders on its path, and the package would load the whole lab."""

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_EVERY_S = 0.02
NOT_FOUND = 127
NOT_STARTED = 126


def _adopt_orphans() -> None:
    """From now on the orphans below this process become its children, where the system has that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _descendants(pid: int) -> list[int]:
    """The processes below this one, as far as the system tells."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(word) for word in task.read_text().split()]
                found += children
                waiting += children
    return found


def _kill_all(program: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    program.wait()


def main(argv: list[str], *, is_shown: bool) -> int:
    """Run the program until it ends or our parent does. is_shown: its output goes to our standard error."""
    _adopt_orphans()
    die_with_parent = runpy.run_path(str(PARENT_DEATH))["die_with_parent"]
    output = sys.stderr.fileno() if is_shown else subprocess.DEVNULL
    try:
        program = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        os.write(1, f"ended {NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED}\n".encode())
        return 0
    os.write(1, f"started {program.pid}\n".encode())
    while program.poll() is None and not select.select([0], [], [], _LOOK_EVERY_S)[0]:
        pass
    code = program.poll()
    _kill_all(program)
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"ended {program.returncode if code is None else code}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], is_shown=sys.argv[1] == "show"))
