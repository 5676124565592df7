"""A fork in virtual time: what a child process inherits of its parent's lock.

A forked child has a copy of its parent's memory and one task, the one that
forked; the parent's other tasks are not there. So the lock object is copied
in depth at the instant of the fork, and whatever in it belongs to the parent's
process (runtime, store, listener, the forking task) is replaced by the
child's own. What code keeps outside the object, in a module or a class, stays
common to both, which a real fork would not do.

Only locks that declare `is_fork_safe` are forked: most never said that they
would survive it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from lockref.errors import ConfigError
from lockref.provider import LockProvider
from sim.kernel.kernel import Kernel, Task


class TaskLeftBehind:
    """A parent's other task, as its forked child sees it: the task has ended, as far as the child can tell."""

    epoch = due_ns = -1

    def __init__(self, name: str) -> None:
        self.name = name

    def is_alive(self) -> bool:
        return False

    def join(self, timeout_ns: int | None = None) -> bool:
        return True


def inherited(
    lock: LockProvider,
    *,
    kernel: Kernel,
    replaced: Sequence[tuple[object, object]],
    left_behind: Sequence[Task],
) -> LockProvider:
    """The child's copy of `lock`.

    replaced: (parent's, child's) pairs. left_behind: the parent's tasks other than the one that forks.
    Errors: ConfigError for a lock that cannot be copied.
    """
    known: dict[int, object] = {id(kernel): kernel}
    known.update({id(task): TaskLeftBehind(task.name) for task in left_behind})
    known.update({id(parents): childs for parents, childs in replaced})
    try:
        return copy.deepcopy(lock, known)
    except (TypeError, copy.Error) as error:
        raise ConfigError(f"{type(lock).__name__} declares is_fork_safe, but cannot be copied: {error}") from error
