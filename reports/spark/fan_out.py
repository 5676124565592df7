"""Independent pieces of work on the executors of a Spark session, answered in the order of the pieces.

Each piece is a job of one task. So a lost executor costs the pieces that it was running and no others, answers come
while later pieces run, and an executor that joins late gets its share. A job costs some milliseconds; pieces last for
seconds. Rejected: one job for all pieces, whose answers Spark gives only at its end; jobs of many pieces, each of which
waits for its slowest one.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, TypeVar

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.words import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

AHEAD: Final = 2
"""Pieces per slot that are begun before their turn."""

THREADS_MAX: Final = 512
LOOK_S: Final = 1.0
EXECUTORS_S: Final = 120
"""For so many looks in a row a cluster may be without any executor."""

_GROUP: Final = "lockref-fan-out"
_CAUSE: Final = "most recent failure: "


class SparkExecutor:
    """Runs work on the executors of a session. It has the `map` of `scenarios.executor.Executor`.

    tell: is told which pieces ran again, after an executor was lost.
    """

    def __init__(self, session: SparkSession, *, tell: Callable[[str], None]) -> None:
        self._context = session.sparkContext
        self._tell = tell

    @property
    def slots(self) -> int:
        """The tasks that can run at the same time, as far as executors have come."""
        return max(1, int(self._context.defaultParallelism))

    def map(self, work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Generator[Answer, None, None]:
        """The answers in the order of the pieces. `work` and the pieces are pickled; a piece says in words what it is.

        Whoever wants no more answers closes the iterator: what is under way is cancelled.
        Errors: BackendUnavailable for a piece whose executor died at every try, for a cluster without executors, and
        for executors whose Python lacks a package; CapabilityMissing for another version of Python; RuntimeError for
        an error of `work` itself.
        """
        waiting = iter(pieces)
        begun: deque[tuple[Piece, Future[tuple[Answer, int]]]] = deque()
        threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="spark-piece")
        try:
            self._begin(threads, work, waiting, begun)
            while begun:
                piece, pending = begun.popleft()
                self._await(pending)
                answer, attempt = self._answer(piece, pending)
                if attempt:
                    self._tell(
                        f"{piece}: {counted(attempt, 'executor')} died while it ran; it ran again on another one"
                    )
                yield answer
                self._begin(threads, work, waiting, begun)
        finally:
            if begun:
                self._cancel()
            threads.shutdown(wait=False, cancel_futures=True)

    def _begin(
        self,
        threads: ThreadPoolExecutor,
        work: Callable[[Piece], Answer],
        waiting: Iterator[Piece],
        begun: deque[tuple[Piece, Future[tuple[Answer, int]]]],
    ) -> None:
        window = min(THREADS_MAX, self.slots * AHEAD)
        for piece in itertools.islice(waiting, max(0, window - len(begun))):
            begun.append((piece, threads.submit(self._run, work, piece)))

    def _run(self, work: Callable[[Piece], Answer], piece: Piece) -> tuple[Answer, int]:
        self._context.setJobGroup(_GROUP, str(piece), interruptOnCancel=True)
        (found,) = self._context.parallelize([piece], 1).map(functools.partial(_attempted, work)).collect()
        return found

    def _await(self, pending: Future[tuple[Answer, int]]) -> None:
        """Wait for an answer. Raises BackendUnavailable where there is no executor for too long."""
        alone = 0
        # In short steps, so that a Ctrl-C is heard.
        while not wait([pending], LOOK_S).done:
            alone = 0 if self._has_executors() else alone + 1
            if alone >= EXECUTORS_S:
                raise BackendUnavailable(
                    f"the cluster {self._context.master} has had no executor for {EXECUTORS_S} s: are its workers up, "
                    "and have they a free core and the memory that is asked for?"
                )

    def _has_executors(self) -> bool:
        if str(self._context.master).startswith("local"):
            return True
        # One entry is the driver's own.
        return int(self._context._jsc.sc().getExecutorMemoryStatus().size()) > 1  # noqa: SLF001  (no public way)

    def _answer(self, piece: object, pending: Future[tuple[Answer, int]]) -> tuple[Answer, int]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return pending.result()
        except (Py4JError, PySparkException, ConnectionError) as error:
            raise _told(piece, str(getattr(error, "java_exception", None) or error)) from error

    def _cancel(self) -> None:
        from py4j.protocol import Py4JError

        # The JVM may be gone, by the same signal that ends the command.
        try:
            self._context.cancelJobGroup(_GROUP)
        except (Py4JError, OSError):
            return


def _attempted(work: Callable[[Piece], Answer], piece: Piece) -> tuple[Answer, int]:
    """The answer, and the number of earlier tries of the piece. What an executor runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return work(piece), 0 if context is None else context.attemptNumber()


def _told(piece: object, said: str) -> Exception:
    """The error for what Spark said of a piece that has failed for good."""
    if "PYTHON_VERSION_MISMATCH" in said:
        return CapabilityMissing(
            "the executors run another version of Python than this command: set PYSPARK_PYTHON to the same one there"
        )
    if "Traceback (most recent call last)" in said:
        lines = [line.strip() for line in said.split("Traceback (most recent call last)")[-1].splitlines()]
        last = next((line for line in reversed(lines) if _is_python_error(line)), "")
        if last.startswith(("ModuleNotFoundError", "ImportError")):
            return BackendUnavailable(
                f"the executors' Python lacks a package ({last}): install what lockref requires there"
            )
        return RuntimeError(f"{piece}: {said}")
    cause = (said.partition(_CAUSE)[2] or said).strip().partition("\n")[0][:300]
    return BackendUnavailable(f"{piece}: every try of it was lost: {cause}")


def _is_python_error(line: str) -> bool:
    head, colon, _ = line.partition(":")
    return bool(colon) and head.replace(".", "").isidentifier() and head.endswith(("Error", "Exception"))
