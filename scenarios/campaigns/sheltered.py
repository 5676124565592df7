"""A process of its own around work that a lock under test can end, hang, or fill with memory.

An executor's process runs no lock itself. It has one child, forked when the first piece comes. The child runs one piece
after the other. What the lock does to it is told with the run in which it happened, and the next piece gets a new
child. So neither Spark nor a pool of processes ever loses a worker to a lock, and none of them runs such a piece again
and again. A child may be forked at any time, so no executor's process has threads of a client of a store.

A child that something outside has killed gets a second try: the machine may have been short of memory.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import multiprocessing
import os
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import IO, Any, Final, NoReturn, TypeVar

from lockref.errors import BackendUnavailable, ConfigError, LockrefError
from scenarios.supervised import end_process, ending_of
from scenarios.worlds.processes import beat
from scenarios.worlds.processes.parent_death import die_with_parent

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

MEMORY_MAX: Final = 4 << 30
"""Bytes that the work may take, beyond what the child begins with. A chunk of seeds takes about 0.3 GB."""

TRIES: Final = 2
_SAID_MAX: Final = 600
_TEXT_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class _Raised:
    """An error that the work raised, in the child."""

    error: BaseException
    text: str


@dataclass(frozen=True, slots=True)
class _Death:
    """The end of a child without an answer.

    where: the run that was under way, in words; "" if none was. how: as it ended. said: the end of what it said on
    standard error. is_from_outside: a signal ended it, which a second try may escape.
    """

    where: str
    how: str
    said: str
    is_from_outside: bool

    def __str__(self) -> str:
        said = f"; it said: {self.said}" if self.said else ""
        return f"{self.where + ': ' if self.where else ''}its process {self.how}{said}"


class Shelter:
    """The child of this process. Not for several threads."""

    def __init__(self) -> None:
        self._child: _Child | None = None

    def call(self, work: Callable[[Piece], Answer], piece: Piece) -> Answer:
        """`work(piece)`, in the child.

        Errors: what the work raises; ConfigError for a lock that takes more memory than `MEMORY_MAX`;
        BackendUnavailable for a child that the lock has ended, that hangs in C code, or that something outside has
        killed twice.
        """
        if not hasattr(os, "fork"):
            return work(piece)
        death: _Death | None = None
        for _ in range(TRIES):
            if self._child is None:
                self._child = _Child()
            answer = self._child.ask(work, piece)
            if not isinstance(answer, _Death):
                if isinstance(answer, _Raised):
                    raise self._told(answer, piece)
                return answer  # type: ignore[no-any-return]
            self._child.end()
            self._child = None
            death = answer
            if not death.is_from_outside:
                raise BackendUnavailable(f"{piece}: {death}; did the lock under test end it?")
        raise BackendUnavailable(
            f"{piece}: {death}, twice; did it run out of memory, or did something outside kill it?"
        )

    def _told(self, raised: _Raised, piece: object) -> BaseException:
        if isinstance(raised.error, MemoryError):
            # What it holds is not given back by a lock that keeps it.
            self.close()
            return ConfigError(
                f"{piece}: more than {MEMORY_MAX >> 30} GiB of memory were asked for; does the lock under test keep "
                "what it reads?"
            )
        if not isinstance(raised.error, LockrefError):
            raised.error.add_note(f"in the process for {piece}: {raised.text}")
        return raised.error

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """A forked process that runs one piece after the other."""

    def __init__(self) -> None:
        pieces_here, self._pieces = multiprocessing.Pipe(duplex=False)
        self._answers, answers_there = multiprocessing.Pipe(duplex=False)
        self._words, words_there = os.pipe()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the child lives)
        memory = mmap.mmap(-1, beat.SIZE)
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            self._pieces.close()
            self._answers.close()
            _serve(pieces_here, answers_there, memory, words=words_there, said=self._said.fileno(), parent=parent)
        pieces_here.close()
        answers_there.close()
        os.close(words_there)
        self._memory = memory
        self._beats = beat.BeatWatch(memory)

    def ask(self, work: Callable[[Any], Any], piece: Any) -> Any:
        """The answer, or `_Raised`, or `_Death`."""
        try:
            self._pieces.send((work, piece))
            while not wait([self._answers], beat.LOOK_EVERY_S):
                if stuck := self._beats.stuck():
                    place = self._beats.where(self._words)
                    return _Death("", f"hangs: {stuck}{place}, where nothing can interrupt it", "", False)
            return self._answers.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return self._death()

    def _death(self) -> _Death:
        where = beat.under_way_in(self._memory)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - _SAID_MAX))
        said = " ".join(self._said.read().decode("utf-8", "replace").split())
        # A crash in C code is the lock's own; what comes from outside is SIGKILL.
        return _Death(where, ending_of(code), said, -code == signal.SIGKILL)

    def end(self) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._pieces.close()
        self._answers.close()
        os.close(self._words)
        self._said.close()


def _serve(pieces: Connection, answers: Connection, memory: Any, *, words: int, said: int, parent: int) -> NoReturn:
    """The child: run what comes, until the parent is gone."""
    try:
        die_with_parent(parent)
        # A signal to the whole group is for the command to answer. It ends this process by ending the one above it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _drop_ways_of_parent(keep=(pieces.fileno(), answers.fileno(), words))
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        # What a lock prints on standard output would reach whoever reads the executor's answers.
        os.dup2(said, 1)
        os.dup2(said, 2)
        faulthandler.enable(2)
        shown = beat.Beat(memory)
        shown.answers_where(words)
        beat.show(shown)
        _limit_memory()
        gc.freeze()
        while True:
            work, piece = pieces.recv()
            os.ftruncate(said, 0)
            try:
                answer = work(piece)
            except BaseException as error:  # noqa: BLE001 - the parent gets whatever it is, as from a call
                answer = _Raised(error, f"{type(error).__name__}: {error}"[:_TEXT_MAX])
            answers.send(answer)
            del work, piece, answer
    except (EOFError, OSError):
        pass
    finally:
        end_process(0)


def _drop_ways_of_parent(keep: Collection[int]) -> None:
    """Close the sockets and pipes of the parent, but for the numbers in `keep` and the three of every process.

    Spark learns of the death of its worker by a socket that closes, and the JVM that a driver started ends when the
    pipe to its standard input closes: one copy that stays open in this process would keep both from it.
    """
    for number in map(int, os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ()):  # noqa: PTH112, PTH208
        if number <= 2 or number in keep:
            continue
        with suppress(OSError):
            mode = os.fstat(number).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                os.close(number)


def _limit_memory() -> None:
    """From now on this process may take `MEMORY_MAX` more; then Python raises MemoryError. Linux only."""
    if sys.platform != "linux":
        return
    import resource

    import psutil

    # Data and not address space: a library that only reserves addresses takes no memory.
    limit = psutil.Process().memory_info().data + MEMORY_MAX
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


_here: dict[int, Shelter] = {}


def shelter() -> Shelter:
    """The shelter of this process; a forked process has one of its own."""
    return _here.setdefault(os.getpid(), Shelter())
