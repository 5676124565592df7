"""A user's file whose import does not end: an endless loop, or a call that does not return, at its top.

As with a step of a simulation (`scenarios.worlds.watchdog`): Python code is interrupted from inside after some seconds
of processor time; what hangs in C code is told from outside by its beats (`beat`). The limit is wider, because a module
may load large libraries.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lockref.errors import ConfigError
from lockref.foreign_modules import StuckImport
from scenarios.supervised import end_process, tell_exit_code
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.stuck_line import place_of

TICK_S = beat.BEAT_CPU_S
"""Seconds of processor time between two looks."""

LOOKS_MAX = 8
"""An import that goes on at so many looks is stuck."""

_INTERRUPTS_MAX = 3


@contextmanager
def ends_stuck_import(what: str) -> Iterator[None]:
    """Raise StuckImport inside a module that takes longer than `LOOKS_MAX` ticks, in the main thread.

    what: is imported, for people. A module that catches even that ends the process, with the exit code of bad input.
    In another thread it is only watched from outside.
    """
    looks = 0

    def look(_number: int, frame: FrameType | None) -> None:
        nonlocal looks
        beat.beat()
        looks += 1
        if looks < LOOKS_MAX:
            return
        place = "" if frame is None else place_of(frame)
        message = f"has run for {LOOKS_MAX * TICK_S:.3g} s of processor time and more{place}"
        if looks >= LOOKS_MAX + _INTERRUPTS_MAX:
            sys.stderr.write(f"lockref: {what} {message}, and must not catch BaseException\n")
            sys.stderr.flush()
            tell_exit_code(ConfigError.exit_code)
            end_process(ConfigError.exit_code)
        raise StuckImport(message)

    try:
        before = signal.signal(signal.SIGPROF, look)
    except ValueError:
        with beat.under_way(what):
            yield
        return
    timer = signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    try:
        with beat.under_way(what):
            yield
    finally:
        # An import inside a simulation: its own watch goes on.
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGPROF, before)
