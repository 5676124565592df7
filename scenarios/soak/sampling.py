"""Samples of the processes of a soak, taken from outside at an interval and written down at once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, final

import psutil

from lockref.runtime import NS_PER_MS, NS_PER_S, Event, Task, ThreadRuntime
from lockref.samples import HARNESS, LOCK, SAMPLES, SERVER, Sample, write_sample

SAMPLES_WANTED: Final = 400
"""Samples of each process in a whole soak: ten times what a verdict needs, and nothing that a process would notice."""

INTERVAL_MIN_NS: Final = 100 * NS_PER_MS
INTERVAL_MAX_NS: Final = 10 * NS_PER_S

_SOCKET: Final = "socket:"


def interval_ns(lasting_ns: int) -> int:
    """The time between two samples in a soak that lasts so long."""
    return max(INTERVAL_MIN_NS, min(INTERVAL_MAX_NS, lasting_ns // SAMPLES_WANTED))


@final
class Sampler:
    """Samples from a thread of its own while its context lasts.

    server_pids: of the server's processes by now, if they are ours. failure: what ended it early, such as a full disk.
    """

    def __init__(
        self, folder: Path, every_ns: int, runtime: ThreadRuntime, server_pids: Callable[[], Iterable[int]]
    ) -> None:
        self._path = folder / SAMPLES
        self._every_ns = every_ns
        self._runtime = runtime
        self._server_pids = server_pids
        self._is_over: Event = runtime.event()
        self._task: Task | None = None
        self._known: dict[int, psutil.Process] = {}
        self.failure: OSError | None = None

    def __enter__(self) -> Sampler:
        self._task = self._runtime.spawn(self._sample_on, name="sampler")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._task is not None:
            self._task.join()

    def _sample_on(self) -> None:
        try:
            with self._path.open("ab", buffering=0) as file:
                while not self._is_over.wait(self._every_ns):
                    for sample in self._look():
                        write_sample(file, sample)
        except OSError as error:
            self.failure = error

    def _look(self) -> Iterator[Sample]:
        counters = psutil.net_io_counters()
        traffic = 0 if counters is None else counters.bytes_sent + counters.bytes_recv
        # The clients' processes are the children that multiprocessing has started for this one.
        workers = [child.pid for child in multiprocessing.active_children() if child.pid is not None]
        roles = {os.getpid(): HARNESS, **dict.fromkeys(self._server_pids(), SERVER), **dict.fromkeys(workers, LOCK)}
        self._known = {pid: self._known[pid] for pid in roles if pid in self._known}
        for pid, role in roles.items():
            # It may end between two looks at it, and a server of another user may not be looked at.
            with suppress(psutil.Error, FileNotFoundError, ProcessLookupError, PermissionError):
                process = self._known.setdefault(pid, psutil.Process(pid))
                yield sample_of(process, role, at_ns=self._runtime.monotonic_ns(), network_bytes=traffic)


def sample_of(process: psutil.Process, role: str, *, at_ns: int, network_bytes: int) -> Sample:
    """Look at what a process uses now. Raises psutil.Error if it has ended, or may not be looked at."""
    with process.oneshot():
        memory, times = process.memory_info(), process.cpu_times()
        sockets = _sockets(process)
        return Sample(
            at_ns=at_ns,
            role=role,
            pid=process.pid,
            cpu_ns=round((times.user + times.system) * NS_PER_S),
            # Linux counts the files of the recording, which are mapped, as memory that is shared.
            memory_bytes=memory.rss - getattr(memory, "shared", 0),
            rss_bytes=memory.rss,
            fds=process.num_fds(),
            sockets=sockets,
            threads=process.num_threads(),
            children=len(process.children()),
            network_bytes=network_bytes,
        )


def _sockets(process: psutil.Process) -> int:
    """The sockets that a process has open, connected or not.

    Linux names each descriptor. psutil's own list has those alone that are bound or connected.
    """
    folder = Path(f"/proc/{process.pid}/fd")
    if not folder.is_dir():
        return len(process.net_connections(kind="all"))
    found = 0
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):
            found += str(entry.readlink()).startswith(_SOCKET)
    return found
