"""A user's file whose import does not end: an endless loop, or a call that does not return, at its top.

As with a step of a simulation (`scenarios.worlds.watchdog`): Python code is interrupted from inside after some seconds
of processor time; what hangs in C code is told from outside by its beats (`beat`). The limit is wider, because a module
may load large libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lockref.foreign_modules import StuckImport
from scenarios.worlds.processes import beat, cpu_watch
from scenarios.worlds.processes.cpu_watch import INTERRUPTS_MAX, end_uninterruptible, looks_every_tick

LOOKS_MAX = 8
"""An import that goes on at so many looks is stuck."""


@contextmanager
def ends_stuck_import(what: str) -> Iterator[None]:
    """Raise StuckImport inside a module that takes longer than `LOOKS_MAX` ticks, in the main thread.

    what: is imported, for people. A module that catches even that ends the process, with the exit code of bad input.
    In another thread it is only watched from outside.
    """
    looks = 0

    def look(place: str) -> None:
        nonlocal looks
        looks += 1
        if looks < LOOKS_MAX:
            return
        message = f"has run for {LOOKS_MAX * cpu_watch.TICK_S:.3g} s of processor time and more{place}"
        if looks >= LOOKS_MAX + INTERRUPTS_MAX:
            end_uninterruptible(f"{what} {message}")
        raise StuckImport(message)

    with looks_every_tick(look), beat.under_way(what):
        yield
