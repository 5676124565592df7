"""Steps: the entries of the kernel's queue.

A step is its due time and the order of its making, which no two steps share, so that nothing behind them is ever
compared; then the task to resume with the epoch of its wait, or None with a callback.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.kernel.tasks import Task

Wake = tuple[int, int, Task, int]
Call = tuple[int, int, None, Callable[[], object]]
Step = Wake | Call


def is_live(step: Step) -> bool:
    """True unless the task of the step waits for something else by now, or for nothing."""
    task = step[2]
    return task is None or (task.due_ns == step[0] and task.epoch == step[3])
