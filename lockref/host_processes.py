"""Has a process of this host ended? Asked of the kernel, and answered with yes only where that is certain. And how many
processors there are for this one.

A process is named by what the kernel never gives out twice: the boot of the machine, the namespaces that give a process
number and a start time their meaning, the number, and the start time. A process that has the same number now, but
another start time, is another one. Only Linux tells all this; elsewhere a process has no name, and nobody has ended.

Rejected: host name and process number. Containers of one image share them, and numbers return within hours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_SEPARATOR: Final = ":"
_STATE_FIELD: Final = 0
_THREADS_FIELD: Final = 17
_START_TIME_FIELD: Final = 19
"""The places of a process's state, its number of threads and its start time in `/proc/PID/stat`, counted from 0.

They are counted from behind the command's name, because that may hold blanks and brackets. Source: proc(5).
"""
_ENDED_STATES: Final = frozenset({"Z", "X"})
"""A zombie, and a dead process."""


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_mark(proc: Path = PROC) -> str:
    """Names this process: boot, namespaces, number, start time; "" where the platform does not tell them all.

    proc: the process file system; tests give another one.
    """
    number = os.getpid()
    place, started = _place(proc), _start_time(proc, number)
    return _SEPARATOR.join((*place, str(number), started)) if place and started else ""


def has_ended(named: str, proc: Path = PROC) -> bool:
    """True if the process that `own_mark` named so has ended, and this process can see that.

    named: what `own_mark` returned there. proc: as for `own_mark`.
    A process that has ended keeps its number until its parent has waited for it, and the first process of many
    containers never waits. One whose first thread alone has ended lives.
    False for one that lives, that lived on another machine or before the last boot, or whose name means nothing here.
    """
    parts = named.split(_SEPARATOR)
    if len(parts) <= 2 or parts[:-2] != _place(proc) or not parts[-2].isdecimal():
        return False
    number, started = parts[-2:]
    try:
        os.kill(int(number), 0)  # Signal 0 asks whether the process is there, and sends nothing.
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # There is such a process, or the number is too large for one: the start time decides.
    fields = _fields(proc, int(number))
    if not fields:
        return False
    is_over = fields[_STATE_FIELD] in _ENDED_STATES and int(fields[_THREADS_FIELD]) <= 1
    return is_over or fields[_START_TIME_FIELD] != started


def is_of_this_place(named: str, proc: Path = PROC) -> bool:
    """True if `own_mark` named a process of this boot and these namespaces so: `has_ended` knows whether it lives.

    named, proc: as for `has_ended`.
    """
    return bool(place := _place(proc)) and named.split(_SEPARATOR)[:-2] == place


def _place(proc: Path) -> list[str]:
    """Boot and namespaces: processes with equal ones read numbers and start times alike. [] if they are not told."""
    try:
        if str((proc / "self").readlink()) != str(os.getpid()):
            return []  # This /proc shows the processes of another namespace.
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        pids = str((proc / "self/ns/pid").readlink())
    except (OSError, UnicodeDecodeError):
        return []
    try:
        # A namespace may shift the start times that its processes see. Kernels before 5.6 have none.
        times = str((proc / "self/ns/time").readlink())
    except OSError:
        times = "time"
    return [boot, *(name.replace(_SEPARATOR, "") for name in (pids, times))]


def _start_time(proc: Path, number: int) -> str:
    """In clock ticks since the boot; "" if it cannot be read."""
    fields = _fields(proc, number)
    return fields[_START_TIME_FIELD] if fields else ""


def _fields(proc: Path, number: int) -> list[str]:
    """The fields of a process's `stat` that follow the command's name; none if it cannot be read."""
    try:
        stat = (proc / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
