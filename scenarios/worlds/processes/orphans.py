"""Worker processes that do not outlive the process that started them.

A daemon worker ends with a parent that exits in order; a parent that is killed
(`kill -9`, out of memory) takes nobody along. So each worker watches its
parent itself, from a thread of its own, and ends when it is gone. It needs no
system call of one platform: `multiprocessing` hands every child the far end of
a pipe (on Windows a handle) that closes with the parent. A process that the
parent has forked besides may hold that pipe open; therefore the number of the
parent is looked at as well, which changes on Linux and macOS when it dies.

A thread cannot end a process that hangs in C code. So a worker that a main thread has started also asks the system for
its end (`parent_death.py`), where the system has that.

Servers are watched in another way (`scenarios/backends/guard.py`), because they are not ours to change.
"""

from __future__ import annotations

import multiprocessing
import os
import threading  # noqa: TID251 - which thread starts a worker decides what the death signal means

from lockref.runtime import ThreadRuntime
from scenarios.worlds.processes.parent_death import die_with_parent

LOOK_EVERY_S = 1.0
ORPHANED = 5
"""Exit code of a worker whose parent died; an init may read it, nobody else."""


def parent_of_workers() -> int | None:
    """For `end_with_parent` in what this thread starts now: the number of this process if this is its main thread."""
    return os.getpid() if threading.current_thread() is threading.main_thread() else None


def end_with_parent(started_by: int | None = None) -> None:
    """From now on this process ends within about a second of its parent, whatever its own threads do.

    To be called in the worker: the `initializer` of a `ProcessPoolExecutor`, or
    the first line of a process's target. Does nothing where there is no parent
    that `multiprocessing` knows. For spawned and forked workers, not for those of a fork server.

    started_by: what `parent_of_workers` said in the thread that started this process.
    """
    if started_by is not None:
        die_with_parent(started_by)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        while parent.is_alive() and os.getppid() == parent.pid:
            parent.join(LOOK_EVERY_S)
        # Not `sys.exit`: that ends a thread, and the others may be waiting for an answer that nobody sends.
        os._exit(ORPHANED)

    ThreadRuntime().spawn(watch, name="parent-watch")
