"""Executors of independent pieces of work: in this process, or spread over several.

`map` answers in the order of the pieces, whichever was finished first, so a
result does not depend on where it was made. Pieces are taken only a little
ahead of the answers: they may be an endless or a growing list, and finished
answers do not pile up.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from lockref.errors import BackendUnavailable, ConfigError
from scenarios.supervised import ending_of
from scenarios.worlds.processes.beat import LOOK_EVERY_S, SIZE, Beat, BeatWatch, show
from scenarios.worlds.processes.orphans import end_with_parent, parent_of_workers

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

AHEAD = 3
"""Pieces per process that are begun before their turn: bounds what finished answers can pile up."""

DEATHS_MAX = 3
"""After so many deaths of a pool in a row, without an answer in between, `Restarted` gives up."""


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
        """See `Executor`. Raises BackendUnavailable if a worker process dies, with how it ended, or hangs, with where.

        Whoever wants no more answers (Ctrl-C, a closed iterator) does not wait for pieces that are under way: their
        workers are killed.
        """
        # Spawned, not forked: the caller may have threads (Spark starts in one).
        context = multiprocessing.get_context("spawn")
        waiting = iter(pieces)
        watch = _Workers(context, self._count)
        is_done = False
        try:
            with ProcessPoolExecutor(
                self._count, mp_context=context, initializer=_begin_worker, initargs=watch.told
            ) as pool:
                try:
                    begun: deque[Future[Answer]] = deque()
                    # A window, not `Executor.map` of the standard library: that one takes all pieces at once, and a
                    # campaign's pieces are made from what earlier answers said (`Campaign` stops early), and may be
                    # endless.
                    for piece in itertools.islice(waiting, self._count * AHEAD):
                        begun.append(pool.submit(work, piece))
                    while begun:
                        # Always the oldest first. Rejected: `as_completed`, which is faster by a piece and makes the
                        # order of the results, and with it the first failure that is shown, depend on the machine.
                        yield watch.answer(begun.popleft())
                        for piece in itertools.islice(waiting, self._count * AHEAD - len(begun)):
                            begun.append(pool.submit(work, piece))
                    is_done = True
                except BrokenProcessPool:
                    # The pool has reaped its processes then, so all of them have an exit code.
                    pool.shutdown(wait=True)
                    raise
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
                    if not is_done:
                        # Leaving the pool waits for its workers, and they hear no signal.
                        watch.kill()
        except BrokenProcessPool as error:
            raise BackendUnavailable(
                f"a simulating process {_ending_among(watch.started)} before it had an answer; did the lock under test "
                "end it, or something outside kill it? A provider that was made in code must be importable there: name "
                "it as 'module:Class', or run with one process"
            ) from error
        finally:
            watch.close()


class Restarted:
    """An executor whose pool begins anew when something outside has killed a part of it.

    For work that does not end its own process (`scenarios.campaigns.sheltered`): otherwise a lock would do so again.
    tell: is told what was lost, and which pieces run again.
    """

    def __init__(self, inner: Executor, tell: Callable[[str], None]) -> None:
        self._inner = inner
        self._tell = tell

    def map(self, work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Generator[Answer, None, None]:
        """See `Executor`. Raises BackendUnavailable where the pool has died `DEATHS_MAX` times without an answer."""
        rest = iter(pieces)
        begun: deque[Piece] = deque()
        deaths = 0
        while True:
            try:
                for answer in self._inner.map(work, self._noted(list(begun), rest, begun)):
                    begun.popleft()
                    deaths = 0
                    yield answer
                return
            except BackendUnavailable as error:
                deaths += 1
                if deaths == DEATHS_MAX or not begun:
                    raise
                # What it says of the lock under test is for work without a shelter.
                lost = str(error).partition(";")[0]
                self._tell(f"{lost}: what was under way runs again, from {begun[0]} to {begun[-1]}")

    @staticmethod
    def _noted(again: Iterable[Piece], rest: Iterator[Piece], begun: deque[Piece]) -> Iterator[Piece]:
        yield from again
        for piece in rest:
            begun.append(piece)
            yield piece


class _Workers:
    """The workers of one pool, and the beat of each."""

    def __init__(self, context: SpawnContext, count: int) -> None:
        # The pool names its processes only in a private attribute. So the children before and after its start are
        # compared. A doubt: a child that another thread starts in between would count as a worker; no caller has such a
        # thread.
        self._before = set(multiprocessing.active_children())
        self.started: list[BaseProcess] = []
        memory = context.RawArray("B", count * SIZE)
        self._words, words = context.Pipe(duplex=False)
        self._words_there = words
        self.told = (memory, context.Value("i", 0), words, parent_of_workers())
        self._beats = [BeatWatch(memory, slot) for slot in range(count)]

    def answer(self, begun: Future[Answer]) -> Answer:
        """The answer of a piece. Raises BackendUnavailable if a worker hangs in C code."""
        self._look()
        # `result(timeout)` would do as well, but raises; a wait that ends is no error here, only the moment to look at
        # beats.
        while not wait([begun], LOOK_EVERY_S).done:
            for beats in self._beats:
                if stuck := beats.stuck():
                    place = beats.where(self._words.fileno())
                    raise BackendUnavailable(
                        f"{stuck}{place}, where nothing can interrupt it; its process was ended without a verdict"
                    )
        return begun.result()

    def _look(self) -> None:
        if not self.started:
            self.started = [each for each in multiprocessing.active_children() if each not in self._before]

    def kill(self) -> None:
        """End all of them now."""
        self._look()
        for worker in self.started:
            worker.kill()

    def close(self) -> None:
        self._words.close()
        self._words_there.close()


def _ending_among(workers: Sequence[BaseProcess]) -> str:
    """The ending of the first process of a pool that ended, in words. The pool ends the others with SIGTERM."""
    # The pool sends SIGTERM to those that are left when one has died, so that signal tells nothing about the cause.
    codes = [worker.exitcode for worker in workers]
    told = [code for code in codes if code not in (None, -signal.SIGTERM)]
    return ending_of(next((code for code in told if code), 0 if told else None))


def executor_for(processes: int, pieces: int, *, apart: bool = False) -> Executor:
    """As many processes as asked for, but never more than there are pieces; this process alone where one is enough.

    apart: never this process, for work that forks while threads run here.
    """
    if processes < 1:
        raise ConfigError(f"{processes} processes; expected at least 1")
    count = min(processes, pieces)
    return Processes(max(1, count)) if count > 1 or apart else InProcess()


def _begin_worker(memory: Any, begun: Any, words: Connection, parent: int | None) -> None:
    """A worker ends with its parent, and by nothing else.

    memory: shared, a beat for each worker. begun: how many have begun. words: where to say what hangs. parent: see
    `end_with_parent`.

    A signal to the whole group (Ctrl-C, `timeout`, a CI runner) is for the parent to answer. A worker that died of it
    in the middle of a result would leave the parent reading for ever.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(parent)
    with begun.get_lock():
        slot = begun.value
        begun.value += 1
    mine = Beat(memory, slot)
    mine.answers_where(words.fileno())
    _kept.append(words)
    show(mine)


_kept: list[Connection] = []
"""Open as long as the process: a connection that nobody names is closed."""
