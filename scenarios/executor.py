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
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

from lockref.errors import ConfigError
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
        """See `Executor`. Raises ConfigError if a worker dies."""
        # Spawned, not forked: the caller may have threads (Spark starts in one).
        context = multiprocessing.get_context("spawn")
        waiting = iter(pieces)
        with ProcessPoolExecutor(self._count, mp_context=context, initializer=_begin_worker) as pool:
            try:
                begun: deque[Future[Answer]] = deque()
                for piece in itertools.islice(waiting, self._count * AHEAD):
                    begun.append(pool.submit(work, piece))
                while begun:
                    yield begun.popleft().result()
                    for piece in itertools.islice(waiting, self._count * AHEAD - len(begun)):
                        begun.append(pool.submit(work, piece))
            except BrokenProcessPool as error:
                raise ConfigError(
                    "a simulating process died; a provider made in code must be importable there: "
                    "name it as 'module:Class' or run with one process"
                ) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


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
