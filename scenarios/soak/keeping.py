"""The history of a soak, taken out of its recording window by window and kept as Parquet: no memory holds all of it.

A part of the history is written whole, and the window is removed after that. So whatever kills the command, each event
is in a part, or still in the recording: the name of the last part says up to which instant.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.atomic_files import write_atomically
from lockref.errors import HistoryUnreadable
from lockref.history import SCHEMA
from lockref.lab.spool import DAMAGED, SPOOL, is_spool, remove_spool
from lockref.lab.windows import Windows, read_window, remove_window, windows_in
from lockref.runtime import NS_PER_S, Event, Task, ThreadRuntime
from lockref.strict_json import NotJson, read_object
from reports.history_files import EVENTS, read_runs, write_runs
from scenarios.worlds.real import KeptEvents

WINDOW_MAX_NS: Final = 10 * NS_PER_S
WINDOW_MIN_NS: Final = NS_PER_S
WINDOWS_MIN: Final = 40
"""A soak has at least so many windows: what a recorder keeps of one is small, and its saw-tooth short."""

LATE_NS: Final = 10 * NS_PER_S
"""An event may be written so late after its instant: a busy machine may stop a process, or its disk, in between."""

STOPPED_NS: Final = NS_PER_S
"""The command was stopped itself (Ctrl-Z) if its thread woke so much too late; its clients then were, too."""

_WINDOWS: Final = "windows.json"
_PART: Final = re.compile(r"part-([0-9]+)\.parquet")


def window_ns(lasting_ns: int) -> int:
    """The length of a window in a soak that lasts so long."""
    return max(WINDOW_MIN_NS, min(WINDOW_MAX_NS, lasting_ns // WINDOWS_MIN))


@final
class HistoryKeeper:
    """Keeps the windows of one run in its folder, from a thread of its own. A context; a `WindowKeeper`.

    failure: what ended the thread early; the rest is then kept at the end of the run.
    """

    def __init__(self, folder: Path, windows: Windows, runtime: ThreadRuntime) -> None:
        self._folder = folder
        self._windows = windows
        self._runtime = runtime
        self._is_over: Event = runtime.event()
        self._task: Task | None = None
        self._count = _kept_count(folder)
        self._last_fault_ns: int | None = None
        self.failure: HistoryUnreadable | OSError | None = None

    @property
    def windows(self) -> Windows:
        return self._windows

    def __enter__(self) -> HistoryKeeper:
        _describe(self._folder, self._windows)
        self._task = self._runtime.spawn(self._keep_on, name="history-keeper")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._is_over.set()
        if self._task is not None:
            self._task.join()

    def _keep_on(self) -> None:
        # All that was recorded since is read each time, so several short windows are kept at once.
        together = max(1, LATE_NS // self._windows.length_ns)
        window = together - 1
        due_ns = self._windows.end_ns(window) + LATE_NS
        try:
            while True:
                asked_ns = self._runtime.monotonic_ns()
                if self._is_over.wait(max(0, due_ns - asked_ns)):
                    return
                woke_ns = self._runtime.monotonic_ns()
                if woke_ns - max(due_ns, asked_ns) > STOPPED_NS:
                    # The clients go on now, and write what they had begun.
                    due_ns = woke_ns + LATE_NS
                    continue
                self._keep(window)
                window += together
                due_ns = max(due_ns, self._windows.end_ns(window) + LATE_NS)
        except (HistoryUnreadable, OSError) as error:
            self.failure = error

    def _keep(self, window: int) -> None:
        """Keep what there is until the end of a window. An event that was written late is in a part of a later one."""
        spool = self._folder / SPOOL
        if not is_spool(spool):
            return
        left = windows_in(spool)
        if not left:
            return
        events = pa.concat_tables([read_window(spool, each) for each in left])
        self._write(window, events, until_ns=self._windows.end_ns(window) - 1)
        for each in left:
            if each <= window:
                remove_window(spool, each)

    def _write(self, window: int, events: pa.Table, *, until_ns: int | None) -> None:
        kept_ns = _kept_until_ns(self._folder, self._windows)
        fresh = events.filter(pc.greater_equal(events["at_ns"], kept_ns))
        if until_ns is not None:
            fresh = fresh.filter(pc.less_equal(fresh["at_ns"], until_ns))
        faults = fresh.filter(pc.equal(fresh["kind"], "fault"))["at_ns"]
        self._last_fault_ns = max([*faults.to_pylist(), self._last_fault_ns or 0]) or None
        _write_part(self._folder, window, fresh, first=self._count)
        self._count += len(fresh)

    def keep_rest(self, *, until_ns: int | None) -> KeptEvents:
        return self.keep_left(read_window, until_ns=until_ns)

    def keep_left(self, read: Callable[[Path, int], pa.Table], *, until_ns: int | None) -> KeptEvents:
        """As `keep_rest`, with another reader of a window. Raises what that raises."""
        self._end()
        spool = self._folder / SPOOL
        left = windows_in(spool)
        if left:
            events = pa.concat_tables([read(spool, window) for window in left])
            self._write(max(left[-1], _last_part(self._folder) + 1), events, until_ns=until_ns)
        if until_ns is not None:
            self._cut(until_ns)
        return KeptEvents(count=self._count, last_fault_ns=self._last_fault_ns)

    def _cut(self, until_ns: int) -> None:
        """Take events after an instant out of the parts: clients went on while the run was cut off."""
        for window, path in reversed(_parts(self._folder)):
            if self._windows.end_ns(window) <= until_ns:
                return
            events = pq.read_table(path)
            kept = events.filter(pc.less_equal(events["at_ns"], until_ns))
            if len(kept) < len(events):
                self._count -= len(events) - len(kept)
                _write_part(self._folder, window, kept, first=self._count - len(kept))


def salvage(folder: Path) -> None:
    """Keep what the recording of a stretch holds that was killed, and describe its run as one that was cut off.

    Does nothing where there is no recording. A window that was damaged is left out, and the recording then stays as
    `DAMAGED`. Raises HistoryUnreadable where nobody knows the windows.
    """
    spool = folder / SPOOL
    if not is_spool(spool):
        return
    if not (folder / "runs.parquet").exists():
        # It was killed before a client began.
        remove_spool(spool)
        return
    try:
        about = read_object((folder / _WINDOWS).read_bytes(), unique_names=True)
        windows = Windows(origin_ns=int(about["origin_ns"]), length_ns=int(about["length_ns"]))
    except (OSError, NotJson, KeyError, TypeError, ValueError) as error:
        raise HistoryUnreadable(f"{folder / _WINDOWS} does not tell the windows: {error}") from error
    keeper = HistoryKeeper(folder, windows, ThreadRuntime())
    damaged: list[int] = []

    def read(spool: Path, window: int) -> pa.Table:
        try:
            return read_window(spool, window)
        except HistoryUnreadable:
            damaged.append(window)
            return SCHEMA.empty_table()

    kept = keeper.keep_left(read, until_ns=None)
    runs_file = folder / "runs.parquet"
    if runs_file.exists() and (folder / f"{EVENTS}.parquet").exists():
        runs = read_runs(runs_file)
        last_ns = _last_event_ns(folder)
        for name, value in (("event_count", kept.count), ("end_ns", last_ns)):
            place = runs.column_names.index(name)
            runs = runs.set_column(place, runs.schema.field(name), pa.array([value], runs.schema.field(name).type))
        write_runs(folder, runs)
    if damaged:
        spool.rename(folder / DAMAGED)
    else:
        remove_spool(spool)


def _describe(folder: Path, windows: Windows) -> None:
    told = {"origin_ns": windows.origin_ns, "length_ns": windows.length_ns}
    write_atomically(folder / _WINDOWS, json.dumps(told) + "\n")


def _parts(folder: Path) -> list[tuple[int, Path]]:
    """The parts of a history by the number of their last window, in their order."""
    files = ((folder / f"{EVENTS}.parquet").glob("part-*.parquet")) if (folder / f"{EVENTS}.parquet").is_dir() else ()
    return sorted((int(found[1]), path) for path in files if (found := _PART.fullmatch(path.name)) is not None)


def _last_part(folder: Path) -> int:
    return max((number for number, _ in _parts(folder)), default=-1)


def _kept_until_ns(folder: Path, windows: Windows) -> int:
    """Events before this instant are in a part."""
    last = _last_part(folder)
    return windows.end_ns(last) if last >= 0 else 0


def _kept_count(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for _, path in _parts(folder))


def kept_span_ns(folder: Path) -> int:
    """From the first event of a history in parts to its last one; 0 where there is none."""
    parts = [path for _, path in _parts(folder) if pq.read_metadata(path).num_rows]
    if not parts:
        return 0
    first, last = (pq.read_table(path, columns=["at_ns"])["at_ns"] for path in (parts[0], parts[-1]))
    return int(pc.max(last).as_py() - pc.min(first).as_py())


def _last_event_ns(folder: Path) -> int | None:
    found = [pc.max(pq.read_table(path, columns=["at_ns"])["at_ns"]).as_py() for _, path in _parts(folder)[-2:]]
    return max((each for each in found if each is not None), default=None)


def _write_part(folder: Path, window: int, events: pa.Table, *, first: int) -> None:
    """One part, whole or not at all. first: the number of its first event in the run."""
    target = folder / f"{EVENTS}.parquet"
    target.mkdir(exist_ok=True)
    events = events.unify_dictionaries().sort_by("at_ns")
    numbers = pa.array(np.arange(first, first + len(events), dtype=np.int64))
    events = events.set_column(SCHEMA.names.index("seq"), SCHEMA.field("seq"), numbers)
    beside = target / f".part-{window:07}.{os.getpid()}"
    pq.write_table(events, beside, compression="zstd")
    beside.replace(target / f"part-{window:07}.parquet")
