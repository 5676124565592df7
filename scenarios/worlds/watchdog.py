"""A step of a simulation that does not end.

Virtual time stands still while a task runs, so a lock that loops without
waiting would hang the command for ever, and no budget of events or of virtual
time is ever reached. The watchdog looks every few seconds of processor time
whether the kernel has gone on; if not, it interrupts what runs, wherever that
is. A lock that catches even that ends the process: there is no other way out.

Processor time, not real time: a busy machine makes a run slow, not stuck.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lockref.errors import ConfigError
from scenarios.supervised import end_process, tell_exit_code
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.stuck_line import place_of
from sim.kernel.kernel import Kernel

TICK_S = beat.BEAT_CPU_S
"""Seconds of processor time between two looks; a step takes microseconds."""

_INTERRUPTS_MAX = 3


class StuckError(BaseException):
    """Interrupts a step that does not end. Not an Exception, so that few locks catch it."""


@contextmanager
def ends_stuck_steps(kernel: Kernel, name: str, where: str) -> Iterator[None]:
    """Raise StuckError inside a step that takes longer than two ticks.

    name: of the lock under test. where: scenario and seed, for whoever watches from outside.

    Only the main thread can be interrupted; elsewhere this does nothing.
    """
    seen, interrupts = -1, 0

    def look(_number: int, frame: FrameType | None) -> None:
        nonlocal seen, interrupts
        beat.beat()
        # Whoever was interrupted and is ending is not stuck, however little of the processor it gets for that.
        if kernel.events != seen or kernel.current.is_done:
            seen, interrupts = kernel.events, 0
            return
        interrupts += 1
        place = "" if frame is None else place_of(frame)
        message = (
            f"provider {name!r}: task {kernel.current.label()!r} has run for {TICK_S:g} s of processor time and more "
            f"without waiting{place}; a loop must wait with runtime.sleep or an event"
        )
        if interrupts > _INTERRUPTS_MAX:
            sys.stderr.write(f"lockref: {message}, and must not catch BaseException\n")
            sys.stderr.flush()
            tell_exit_code(ConfigError.exit_code)
            end_process(ConfigError.exit_code)
        raise StuckError(message)

    try:
        before = signal.signal(signal.SIGPROF, look)
    except ValueError:
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    try:
        with beat.under_way(f"provider {name!r}, {where}"):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
