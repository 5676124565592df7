"""A recording in windows of time: windows that are over can be moved out of the spool while the run goes on.

A spool (`lockref.lab.spool`) grows with its run, and so do the texts that a recorder keeps in memory. A soak of hours
would fill the disk, and the memory of the recorder would look like a leak of the lock. So each process begins a new
part of the spool with each window: its texts begin anew, and nothing of an earlier window is left in its memory.

Of process 2, the parts 2, 100002, 200002, … are its windows 0, 1, 2, …. All processes count windows on one clock, the
host's monotonic one. An event is written after its instant, into the part that is open by then, so a window is complete
only some time after its end. Who takes it out waits for that time, and reads the later windows, too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lockref.history import Recorder, Stamp
from lockref.lab.spool import SpoolRecorder, last_event_ns, read_parts

PROCESSES_MAX: Final = 100_000
"""Parts of one window: the processes of a run, those that followed others included."""

_PART: Final = re.compile(r"([0-9]{1,9})\.[0-9]{1,9}\.(rows|texts)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of one run. origin_ns: when the first one begins, on the monotonic clock of the host.

    length_ns: of each, in nanoseconds.
    """

    origin_ns: int
    length_ns: int

    def at(self, at_ns: int) -> int:
        """The number of the window of an instant; an earlier instant belongs to the first window."""
        return max(0, (at_ns - self.origin_ns) // self.length_ns)

    def end_ns(self, window: int) -> int:
        """The instant at which a window is over."""
        return self.origin_ns + (window + 1) * self.length_ns

    def recorder(self, spool: Path, process: int, now_ns: int) -> WindowRecorder:
        """The recorder of a process that begins at `now_ns`."""
        return WindowRecorder(spool, process, self, now_ns)


class WindowRecorder(SpoolRecorder):
    """A `SpoolRecorder` that begins a new part with each window. Safe to share between threads.

    Each event takes a mutex: no other thread may find its texts in one part and write its row into the next one.
    """

    __slots__ = ("_ends_ns", "_process", "_turn", "_windows")

    def __init__(self, folder: Path, process: int, windows: Windows, now_ns: int) -> None:
        assert 0 <= process < PROCESSES_MAX, "the number of a process and that of its window make one number"
        self._turn = threading.Lock()
        self._windows = windows
        self._process = process
        window = windows.at(now_ns)
        self._ends_ns = windows.end_ns(window)
        super().__init__(folder, window * PROCESSES_MAX + process)

    def event(self, kind: int, stamp: Stamp, *others: Any, **named: Any) -> None:
        with self._turn:
            if stamp[0] >= self._ends_ns:
                window = self._windows.at(stamp[0])
                self._ends_ns = self._windows.end_ns(window)
                self.begin_part(window * PROCESSES_MAX + self._process)
            super().event(kind, stamp, *others, **named)

    def keep_in_memory(self) -> None:
        # A thread that the forked child does not have may hold the mutex.
        self._turn = threading.Lock()
        super().keep_in_memory()


def windows_in(spool: Path) -> list[int]:
    """The numbers of the windows of which a spool holds something, in their order."""
    return sorted({part // PROCESSES_MAX for part in _parts(spool)})


def read_window(spool: Path, window: int) -> pa.Table:
    """The events of one window, as run 0, in the order of true time. Raises HistoryUnreadable as `read_spool`."""
    return read_parts(spool, sorted({part for part in _parts(spool) if part // PROCESSES_MAX == window}))


def remove_window(spool: Path, window: int) -> None:
    """Remove the parts of a window whose events are kept elsewhere."""
    for path in list(spool.iterdir()):
        found = _PART.fullmatch(path.name)
        if found is not None and int(found[1]) // PROCESSES_MAX == window:
            path.unlink(missing_ok=True)


def last_event_of(spool: Path, process: int) -> int | None:
    """True time of the last event of a process, as far as its windows are still in the spool; None if it has none.

    Raises HistoryUnreadable as `last_event_ns`.
    """
    for part in sorted({part for part in _parts(spool) if part % PROCESSES_MAX == process}, reverse=True):
        # Another thread takes out windows that are over.
        with suppress(FileNotFoundError):
            if (at_ns := last_event_ns(spool, part)) is not None:
                return at_ns
    return None


def _parts(spool: Path) -> Iterator[int]:
    return (int(found[1]) for path in spool.iterdir() if (found := _PART.fullmatch(path.name)) is not None)


def recorder_of(windows: Windows | None, spool: Path, process: int, now_ns: int) -> Recorder:
    """The recorder of a process of a real run. windows: None for a run that is kept as a whole."""
    return SpoolRecorder(spool, process) if windows is None else windows.recorder(spool, process, now_ns)
