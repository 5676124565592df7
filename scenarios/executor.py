"""Where independent pieces of work run: in this process, or spread over several.

`map` answers in the order of the pieces, whichever was finished first, so a
result does not depend on where it was made. Pieces are taken only a little
ahead of the answers: they may be an endless or a growing list, and finished
answers do not pile up.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeVar

from lockref.errors import BackendUnavailable, ConfigError
from scenarios.supervised import ending_of
from scenarios.worlds.processes.orphans import end_with_parent

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

AHEAD = 3
"""Pieces per process that are begun before their turn: bounds what finished answers can pile up."""


class Executor(Protocol):
    """Runs `work` for each piece."""

    def map(self, work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Generator[Answer, None, None]:
        """The answers in the order of the pieces. Whoever has seen enough closes the iterator: no piece is begun then.

        Errors: what `work` raises.
        """
        ...


class InProcess:
    """One piece after the other, here."""

    def map(self, work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Generator[Answer, None, None]:
        """See `Executor`. A piece is begun when its answer is asked for."""
        for piece in pieces:
            yield work(piece)


class Processes:
    """A pool of worker processes that lives as long as one `map`; `work` and the pieces are pickled."""

    def __init__(self, count: int) -> None:
        assert count >= 1, "a pool has at least one process"
        self._count = count

    def map(self, work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Generator[Answer, None, None]:
        """See `Executor`. Raises BackendUnavailable, with how it ended, if a worker process dies."""
        # Spawned, not forked: the caller may have threads (Spark starts in one).
        context = multiprocessing.get_context("spawn")
        waiting = iter(pieces)
        before = set(multiprocessing.active_children())
        workers: list[BaseProcess] = []
        try:
            with ProcessPoolExecutor(self._count, mp_context=context, initializer=_begin_worker) as pool:
                try:
                    begun: deque[Future[Answer]] = deque()
                    for piece in itertools.islice(waiting, self._count * AHEAD):
                        begun.append(pool.submit(work, piece))
                    workers = [process for process in multiprocessing.active_children() if process not in before]
                    while begun:
                        yield begun.popleft().result()
                        for piece in itertools.islice(waiting, self._count * AHEAD - len(begun)):
                            begun.append(pool.submit(work, piece))
                except BrokenProcessPool:
                    # The pool has reaped its processes then, so all of them have an exit code.
                    pool.shutdown(wait=True)
                    raise
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
        except BrokenProcessPool as error:
            raise BackendUnavailable(
                f"a simulating process {_ending_among(workers)} before it had an answer; did the lock under test end "
                "it, or something outside kill it? A provider that was made in code must be importable there: name it "
                "as 'module:Class', or run with one process"
            ) from error


def _ending_among(workers: Sequence[BaseProcess]) -> str:
    """How the first of a pool's processes ended. The pool ends the others with SIGTERM."""
    codes = [worker.exitcode for worker in workers]
    told = [code for code in codes if code not in (None, -signal.SIGTERM)]
    return ending_of(next((code for code in told if code), 0 if told else None))


def executor_for(processes: int, pieces: int) -> Executor:
    """As many processes as asked for, but never more than there are pieces; this process alone where one is enough."""
    if processes < 1:
        raise ConfigError(f"{processes} processes; expected at least 1")
    count = min(processes, pieces)
    return Processes(count) if count > 1 else InProcess()


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin_worker() -> None:
    """A worker ends with its parent, and by nothing else.

    A signal to the whole group (Ctrl-C, `timeout`, a CI runner) is for the parent to answer. A worker that died of it
    in the middle of a result would leave the parent reading for ever.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
