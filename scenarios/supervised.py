"""A command that ends without a verdict says so, and exits 5.

A lock under test runs in the command's own process. If the lock ends that process (`os._exit(0)`, a crash in C code,
SIGKILL), then no line of the command runs any more, and its exit code would be taken for a verdict. So a small parent
process watches the command: before the command ends in order, it tells its exit code through a pipe. Where it did
not, the parent says what ended, and exits 5.

The command has a process group of its own, so a Ctrl-C at the terminal reaches the parent alone, which passes it on.
Each signal thus arrives once, however it was sent. If the parent is killed, the command ends at once with it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from lockref.errors import INTERRUPTED, BackendUnavailable

_PASSED_ON = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
# A simulation bars the way out of the process for everybody else.
_end_process = os._exit

_answer_pipe: int | None = None


def supervised(work: Callable[[], int]) -> int:
    """Run `work` in a child process; its exit code, or 5 with a line on standard error if it ended without one.

    Returns in both processes, and both exit with what it returns. Where a system has no fork, `work` runs here. To be
    called by a process that has one thread.
    """
    if not hasattr(os, "fork"):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    answer_here, answer_there = os.pipe()
    alive_there, alive_here = os.pipe()
    # A signal between the fork and the first handler must not end the parent alone.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child:
        os.close(answer_there)
        os.close(alive_there)
        return _watch(child, answer_here, mask)
    os.setpgid(0, 0)
    os.close(answer_here)
    os.close(alive_here)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return _work(work, answer_there, alive_there)


def tell_exit_code(code: int) -> None:
    """This process is about to end on purpose, with this exit code. Does nothing in a process that nobody watches."""
    if _answer_pipe is not None:
        with suppress(OSError):
            os.write(_answer_pipe, bytes([code]))


def ending_of(code: int | None) -> str:
    """How a process ended, in words. code: as `multiprocessing` gives it, a signal's number is negative."""
    if code is None:
        return "hung up"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _work(work: Callable[[], int], answer: int, alive: int) -> int:
    """The command's side."""
    global _answer_pipe
    from lockref.runtime import ThreadRuntime

    def end_with_parent() -> None:
        os.read(alive, 1)
        _end_process(BackendUnavailable.exit_code)

    _answer_pipe = answer
    ThreadRuntime().spawn(end_with_parent, name="supervisor-watch")
    code = work()
    tell_exit_code(code)
    return code


def _watch(child: int, answer: int, mask: set[int | signal.Signals]) -> int:
    """The parent's side: pass signals on until the child has ended; the exit code."""
    was_told_to_end = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal was_told_to_end
        was_told_to_end = True
        with suppress(ProcessLookupError):
            os.kill(child, number)

    def stop(_number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z stops the command, too. It goes on when the shell lets the parent go on."""
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGCONT)

    # The child does the same; whichever comes first counts.
    with suppress(OSError):
        os.setpgid(child, child)
    for number in _PASSED_ON:
        # What is to be ignored (`nohup`) stays ignored. A Ctrl-C never is: see `interrupts.remembered`.
        if number == signal.SIGINT or signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, pass_on)
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, stop)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(child, 0)
    os.set_blocking(answer, False)
    try:
        told = os.read(answer, 1)
    except BlockingIOError:
        # A process that the command left behind holds the other end.
        told = b""
    if told:
        return told[0]
    if was_told_to_end:
        sys.stderr.write("lockref: interrupted\n")
        return INTERRUPTED
    sys.stderr.write(
        f"lockref: the process of the command {ending_of(os.waitstatus_to_exitcode(status))} before it had a verdict; "
        "did the lock under test end it, or did something outside kill it?\n"
    )
    return BackendUnavailable.exit_code
