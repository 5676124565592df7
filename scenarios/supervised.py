"""A command that ends without a verdict says so, and exits 5.

A lock under test runs in the command's own process. If the lock ends that process (`os._exit(0)`, a crash in C code,
SIGKILL), then no line of the command runs any more, and its exit code would be taken for a verdict. So a small parent
process watches the command: before the command ends in order, it tells its exit code through a pipe. Where it did
not, the parent says what ended, and exits 5.

The command has a process group of its own, so a Ctrl-C at the terminal reaches the parent alone, which passes it on.
Each signal thus arrives once, however it was sent. The second one ends the command and its workers at once, whatever
they do. If the parent is killed, the command ends at once with it; where a system has no signal for that (macOS), a
thread sees to it, which a lock that hangs in C code can hold up.

A lock that hangs in C code lets no line of Python run in its process. The parent sees that
(`scenarios.worlds.processes.beat`), says which run and which line hang, and ends the command.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import time  # noqa: TID251 - this process waits for a real one, beside every world
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from lockref.errors import INTERRUPTED, BackendUnavailable
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.parent_death import die_with_parent

_PASSED_ON = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
end_process = os._exit
"""Ends this process at once.

This is the original, saved at import: during a simulation `sim.auditor` replaces `os._exit`, which a lock under test
may not call.
"""

LEAVING_LOOK_S = 0.02
"""The pause between two looks at a child that has closed its pipe or told its exit code, and so is about to end."""

LEAVING_S = 10
"""How long a child has to end after it told its exit code. What a lock left behind (`atexit`) may hold it up."""

ENDING_S = 2
"""A command that was told to end and takes longer is said to be ending: what it began is finished or removed first."""

SAME_S = 0.2
"""A signal that comes again within so many seconds is the same order: `timeout` and others send it to the process and
to its group."""

_answer_pipe: int | None = None


def _say(message: str) -> None:
    sys.stderr.write(f"lockref: {message}\n")


def supervised(work: Callable[[], int], say: Callable[[str], None] = _say) -> int:
    """Run `work` in a child process; its exit code, or 5 with a line on standard error if it ended without one or hung.

    say: prints such a line.
    Returns in both processes, and both exit with what it returns. Where a system has no fork, `work` runs here. To be
    called by a process that has one thread.
    """
    if not hasattr(os, "fork"):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    answer_here, answer_there = os.pipe()
    alive_there, alive_here = os.pipe()
    words_here, words_there = os.pipe()
    beats = mmap.mmap(-1, beat.SIZE)
    parent = os.getpid()
    # A signal between the fork and the first handler must not end the parent alone.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child:
        os.close(answer_there)
        os.close(alive_there)
        os.close(words_there)
        return _Watch(child, answer_here, beat.BeatWatch(beats), words_here, say).until_the_end(mask)
    os.setpgid(0, 0)
    die_with_parent(parent)
    os.close(answer_here)
    os.close(alive_here)
    os.close(words_here)
    shown = beat.Beat(beats)
    shown.answers_where(words_there)
    beat.show(shown)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return _work_in_child(work, answer_there, alive_there)


def tell_exit_code(code: int) -> None:
    """This process is about to end on purpose, with this exit code. Does nothing in a process that nobody watches."""
    if _answer_pipe is not None:
        with suppress(OSError):
            os.write(_answer_pipe, bytes([code]))


def ending_of(code: int | None) -> str:
    """The ending of a process, in words. code: as `multiprocessing` gives it, a signal's number is negative."""
    if code is None:
        return "hung up"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _work_in_child(work: Callable[[], int], answer: int, alive: int) -> int:
    """Run `work` in the child and tell its exit code.

    answer: the pipe for the exit code. alive: a pipe whose other end the parent holds open for as long as it lives.
    """
    global _answer_pipe
    from lockref.runtime import ThreadRuntime

    def end_with_parent() -> None:
        # For systems without a signal for the death of a parent (macOS); on Linux `die_with_parent` has asked for one.
        os.read(alive, 1)
        end_process(BackendUnavailable.exit_code)

    _answer_pipe = answer
    ThreadRuntime().spawn(end_with_parent, name="supervisor-watch")
    code = work()
    tell_exit_code(code)
    return code


class _Watch:
    """The parent's side: pass signals on and look at the beats until the child has ended."""

    def __init__(self, child: int, answer: int, beats: beat.BeatWatch, words: int, say: Callable[[str], None]) -> None:
        self._child = child
        self._answer = answer
        self._beats = beats
        self._words = words
        self._say = say
        self._told_to_end_s: float | None = None
        self._has_said_so = False
        self._is_killed = False

    def until_the_end(self, mask: set[int | signal.Signals]) -> int:
        """The exit code. mask: of signals, to be restored when the handlers stand."""
        # The child does the same; whichever comes first counts.
        with suppress(OSError):
            os.setpgid(self._child, self._child)
        for number in _PASSED_ON:
            # What is to be ignored (`nohup`) stays ignored. A Ctrl-C never is: see `interrupts.remembered`.
            if number == signal.SIGINT or signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._pass_on)
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._stop)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        told, stuck, status = self._wait_for_the_end()
        if self._is_killed:
            self._say("interrupted; a second signal ended it at once")
            return INTERRUPTED
        if told:
            return told[0]
        if self._told_to_end_s is not None:
            self._say("interrupted")
            return INTERRUPTED
        if stuck:
            self._say(stuck)
        else:
            self._say(
                f"the process of the command {ending_of(os.waitstatus_to_exitcode(status))} before it had a verdict; "
                "did the lock under test end it, or did something outside kill it?"
            )
        return BackendUnavailable.exit_code

    def _wait_for_the_end(self) -> tuple[bytes, str, int]:
        """Wait until the child has ended: the exit code that it told, the line about its hang, its wait status.

        The first is empty if it told none, the second unless this process ended it because it hung.
        """
        told, stuck, is_open, leaving_looks = b"", "", True, 0
        while True:
            if is_open and not told:
                # It works. The pipe is readable when the child tells its exit code, and when nobody can any more.
                if select.select([self._answer], [], [], beat.LOOK_EVERY_S)[0]:
                    told = os.read(self._answer, 1)
                    is_open = bool(told)
            else:
                # It leaves. One that told its exit code may be held up by what the lock left behind.
                leaving_looks += 1
                time.sleep(LEAVING_LOOK_S)
                if told and leaving_looks > LEAVING_S / LEAVING_LOOK_S:
                    self._kill()
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if ended:
                return told or self._told_meanwhile(), stuck, status
            self._say_that_it_ends()
            if not stuck and (stuck := self._beats.stuck()):
                place = self._beats.where(self._words)
                stuck = f"{stuck}{place}, where nothing can interrupt it; the command was ended without a verdict"
                self._kill()

    def _say_that_it_ends(self) -> None:
        """Say once that the command is ending, if that takes longer than `ENDING_S`."""
        if self._told_to_end_s is None or self._has_said_so or time.monotonic() - self._told_to_end_s < ENDING_S:
            return
        self._has_said_so = True
        self._say("interrupted: the command is putting away what it began; a second signal ends it at once")

    def _told_meanwhile(self) -> bytes:
        """An exit code that the child told between the last look and its end; empty if there is none.

        Does not wait: a process that the command left behind may hold the other end of the pipe open.
        """
        os.set_blocking(self._answer, False)
        try:
            return os.read(self._answer, 1)
        except BlockingIOError:
            return b""

    def _kill(self) -> None:
        """End the command and all that is in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGKILL)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._told_to_end_s is None:
            self._told_to_end_s = now_s
            with suppress(ProcessLookupError):
                os.kill(self._child, number)
        elif now_s - self._told_to_end_s > SAME_S:
            self._is_killed = True
            self._kill()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z stops the command, too. It goes on when the shell lets the parent go on."""
        with suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGCONT)
