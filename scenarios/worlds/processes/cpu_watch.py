"""Looks at what a process runs, from inside, every few seconds of its processor time; and the end of one that hangs.

Two watchdogs look so: at the steps of a simulation (`scenarios.worlds.watchdog`), and at the import of a user's file
(`import_watch`). Each knows by itself when something is stuck. What they share is here: the timer, and what happens to
code that catches even their interrupt.
"""

from __future__ import annotations

import signal
import sys
import threading  # noqa: TID251 - asks which thread this is, and makes none
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

from lockref.errors import ConfigError
from scenarios.supervised import end_process, tell_exit_code
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.stuck_line import place_of

TICK_S = beat.BEAT_CPU_S
"""Seconds of processor time between two looks; a step of a simulation takes microseconds."""

INTERRUPTS_MAX: Final = 3
"""Code that goes on after so many interrupts catches them."""

Look = Callable[[str], None]
"""Called with the place where the process is, as ` in FILE:LINE (NAME)`. It may raise, which interrupts the code."""


_looks: list[Look] = []
"""The looks of the blocks that the main thread is in. The innermost is the last, and the only one that is called."""

_ticking_thread: int | None = None
"""The thread for which a timer runs, which is the main one; None while none runs."""


def _tick(_number: int, frame: FrameType | None) -> None:
    beat.beat()
    if _looks:
        look = _looks[-1]
        look("" if frame is None else place_of(frame))


@contextmanager
def ticking() -> Iterator[None]:
    """Let one timer run for all blocks of `looks_every_tick` inside.

    To set timer and handler for each anew is a hundredth of what a short seed takes. Does nothing where no timer can be
    set, and inside itself.
    """
    global _ticking_thread
    if _ticking_thread is not None:
        yield
        return
    try:
        before = signal.signal(signal.SIGPROF, _tick)
    except ValueError:
        yield
        return
    timer = signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    _ticking_thread = threading.get_ident()
    try:
        yield
    finally:
        _ticking_thread = None
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def looks_every_tick(look: Look) -> Iterator[bool]:
    """Call `look` every `TICK_S` of processor time, in this block. Yields False where that cannot be.

    Python runs handlers of signals in the main thread alone: code in another one can only be watched from outside. Each
    look leaves a beat for that watcher (`beat`). In a block inside another one the inner look alone is called: a file
    may be imported within a simulation.
    """
    with ticking():
        if _ticking_thread != threading.get_ident():
            yield False
            return
        _looks.append(look)
        try:
            yield True
        finally:
            _looks.pop()


def end_uninterruptible(message: str) -> NoReturn:
    """Tell what hangs, and end the process with the exit code of bad input: its code catches every interrupt."""
    sys.stderr.write(f"lockref: {message}, and must not catch BaseException\n")
    sys.stderr.flush()
    tell_exit_code(ConfigError.exit_code)
    end_process(ConfigError.exit_code)
