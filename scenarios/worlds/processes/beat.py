"""A process that simulates shows from outside whether it still gets to run Python.

The watchdog inside (`scenarios.worlds.watchdog`) is Python code, too. While a lock is inside C code that does not
return (a sum without end, a mutex that nobody gives back), no line of Python runs in that process: no handler of a
signal, no other thread. So each look of the watchdog inside leaves a beat
in shared memory, and another process reads the beats against the processor time of the one that is watched.

Processor time, not real time: a slow machine is not stuck. A process that sleeps uses none, so one that sleeps in a
step at every look for a long time is told, too: nothing in virtual time sleeps.

Where a process hangs is asked of `faulthandler`, whose signal handler is C code and names the line even then.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from scenarios.worlds.processes.stuck_line import stuck_line

if TYPE_CHECKING:
    import psutil

SIZE: Final = 1024
"""Bytes of shared memory for one process."""

BEAT_CPU_S: Final = 4.0
"""Seconds of processor time between two beats while a step is under way: the tick of the watchdog inside."""

STUCK_CPU_S = 4 * BEAT_CPU_S
"""Without a beat for so many seconds of its processor time a process is stuck. The watchdog inside needs half of it for
what it can interrupt, and beats meanwhile."""

LOOK_EVERY_S = 1.0
ASLEEP_LOOKS = 120
"""A step that slept at so many looks in a row is stuck. Long enough for a look at a paused terminal."""

WHERE_S = 2.0
"""How long a stuck process has for the answer where it hangs."""

PLACES_MAX = 3

_HEAD: Final = struct.Struct("<QqH")
_FRAME: Final = re.compile(r'\s*File "(?P<path>.*)", line (?P<line>[0-9]+) in (?P<name>.*)')
"""One frame as `faulthandler` writes it."""
# Chosen because nothing of Python or of ours uses it.
_ASKS_WHERE: Final = getattr(signal, "SIGUSR2", None)


class Beat:
    """The writer's side of a beat, in the watched process.

    memory: at least `SIZE` bytes that the watching process shares.
    """

    def __init__(self, memory: Any, slot: int = 0) -> None:
        self._memory = memoryview(memory).cast("B")[slot * SIZE : (slot + 1) * SIZE]
        self._count = 0
        self._what = b""

    def answers_where(self, words: int) -> None:
        """From now on the line that this process is at is written to the file descriptor `words` when it is asked."""
        if _ASKS_WHERE is not None and hasattr(faulthandler, "register"):
            faulthandler.register(_ASKS_WHERE, file=words, all_threads=True)

    def beat(self) -> None:
        self._count += 1
        _HEAD.pack_into(self._memory, 0, self._count, os.getpid(), len(self._what))

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Steps are under way in this block. what: of which run, for people. Not told while a debugger holds it."""
        before = self._what
        self._what = b"" if _is_debugged() else what.encode("utf-8", "replace")[: SIZE - _HEAD.size]
        self._memory[_HEAD.size : _HEAD.size + len(self._what)] = self._what
        self.beat()
        try:
            yield
        finally:
            self._what = before
            self._memory[_HEAD.size : _HEAD.size + len(before)] = before
            self.beat()


class BeatWatch:
    """The reader's side of a beat, in the watching process. It looks about once in `LOOK_EVERY_S`."""

    def __init__(self, memory: Any, slot: int = 0) -> None:
        self._memory = memoryview(memory).cast("B")[slot * SIZE : (slot + 1) * SIZE]
        self._process: psutil.Process | None = None
        self._count = -1
        self._cpu_s = self._last_cpu_s = 0.0
        self._asleep = 0

    def stuck(self) -> str:
        """The hanging call and since when it hangs, in words; empty while all is well, or with nothing to watch."""
        count, pid, length = _HEAD.unpack_from(self._memory)
        if not length:
            self._count = -1
            return ""
        # Not loaded before a call is under way: commands without one are done sooner.
        import psutil

        try:
            if self._process is None:
                self._process = psutil.Process(pid)
            times = self._process.cpu_times()
            is_asleep = self._process.status() == psutil.STATUS_SLEEPING
        except psutil.Error:
            return ""
        cpu_s = times.user + times.system
        if count != self._count:
            self._count, self._cpu_s, self._asleep = count, cpu_s, 0
        # A process that writes to a full pipe or a paused terminal waits for its reader.
        is_asleep = is_asleep and cpu_s == self._last_cpu_s and _is_writable(sys.stderr)
        self._asleep = self._asleep + 1 if is_asleep else 0
        self._last_cpu_s = cpu_s
        what = bytes(self._memory[_HEAD.size : _HEAD.size + length]).decode("utf-8", "replace")
        if cpu_s - self._cpu_s >= STUCK_CPU_S:
            return f"{what}: a step has run for {cpu_s - self._cpu_s:.0f} s of processor time inside C code"
        if self._asleep >= ASLEEP_LOOKS:
            return f"{what}: a step has slept for {self._asleep * LOOK_EVERY_S:.0f} s inside C code"
        return ""

    @property
    def pid(self) -> int:
        """The process that hangs."""
        return 0 if self._process is None else self._process.pid

    def where(self, words: int) -> str:
        """` in FILE:LINE (NAME)` of the stuck process, read from the other end of `words`; empty if it does not say."""
        import psutil

        if self._process is None or _ASKS_WHERE is None or not hasattr(faulthandler, "register"):
            return ""
        said = b""
        try:
            self._process.send_signal(_ASKS_WHERE)
            while select.select([words], [], [], WHERE_S if not said else 0.1)[0]:
                part = os.read(words, 1 << 16)
                if not part:
                    break
                said += part
        except (psutil.Error, OSError):
            return ""
        return _place(said.decode("utf-8", "replace"))


def under_way_in(memory: Any) -> str:
    """The call that was under way when the process of this beat ended, in words; empty if there was none."""
    view = memoryview(memory).cast("B")
    _, _, length = _HEAD.unpack_from(view)
    return bytes(view[_HEAD.size : _HEAD.size + length]).decode("utf-8", "replace")


def _place(dump: str) -> str:
    """The line at which each thread is inside a lock; threads of ours have none.

    In a real run several clients may be inside the lock, and one of them keeps the others.
    """
    threads: list[list[tuple[str, int, str]]] = [[]]
    for line in dump.splitlines():
        frame = _FRAME.fullmatch(line)
        if frame is None:
            threads.append([])
        else:
            threads[-1].append((frame["path"], int(frame["line"]), frame["name"]))
    shown = [place for place in dict.fromkeys(map(stuck_line, threads)) if place][:PLACES_MAX]
    return "" if not shown else f" in {shown[0]}" if len(shown) == 1 else f" in one of {', '.join(shown)}"


def _is_debugged() -> bool:
    """True while a debugger steps through this process: it may then stand still without limit."""
    monitoring = getattr(sys, "monitoring", None)
    has_debugger = monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
    return has_debugger or sys.gettrace() is not None


def _is_writable(stream: Any) -> bool:
    try:
        return bool(select.select([], [stream], [], 0)[1])
    except (OSError, ValueError, AttributeError):
        return True


_mine: Beat | None = None


def show(beat: Beat) -> None:
    """This process is watched: what it does shows in `beat`."""
    global _mine
    _mine = beat


def under_way(what: str) -> AbstractContextManager[None]:
    """`Beat.under_way` of this process; does nothing in a process that is not watched."""
    return nullcontext() if _mine is None else _mine.under_way(what)


def beat() -> None:
    """Note that this process runs Python; does nothing in a process that is not watched."""
    if _mine is not None:
        _mine.beat()
