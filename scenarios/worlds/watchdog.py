"""A step of a simulation that does not end.

Virtual time stands still while a task runs, so a lock that loops without
waiting would hang the command for ever, and no budget of events or of virtual
time is ever reached. The watchdog looks every few seconds of processor time
whether the kernel has gone on; if not, it interrupts what runs, wherever that
is. A lock that catches even that ends the process: there is no other way out.

Processor time, not real time: a busy machine makes a run slow, not stuck.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scenarios.worlds.processes import beat, cpu_watch
from scenarios.worlds.processes.cpu_watch import INTERRUPTS_MAX, end_uninterruptible, looks_every_tick
from sim.kernel.kernel import Kernel


class StuckError(BaseException):
    """Interrupts a step that does not end. Not an Exception, so that few locks catch it."""


@contextmanager
def ends_stuck_steps(kernel: Kernel, name: str, where: str) -> Iterator[None]:
    """Raise StuckError inside a step that takes longer than two ticks.

    name: of the lock under test. where: scenario and seed, for whoever watches from outside.

    Only the main thread can be interrupted; elsewhere this does nothing.
    """
    seen, interrupts = -1, 0

    def look(place: str) -> None:
        nonlocal seen, interrupts
        # A task that was interrupted and is ending is not stuck, however little of the processor it gets for that.
        if kernel.events != seen or kernel.current.is_done:
            seen, interrupts = kernel.events, 0
            return
        interrupts += 1
        message = (
            f"provider {name!r}: task {kernel.current.label()!r} has run for {cpu_watch.TICK_S:g} s of processor time "
            f"and more without waiting{place}; a loop must wait with runtime.sleep or an event"
        )
        if interrupts > INTERRUPTS_MAX:
            end_uninterruptible(message)
        raise StuckError(message)

    with looks_every_tick(look) as is_watched:
        if not is_watched:
            yield
            return
        with beat.under_way(f"provider {name!r}, {where}"):
            yield
