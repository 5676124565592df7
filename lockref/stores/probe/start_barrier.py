"""The start line of a race: requests wait there, ready to leave, until all of them stand at it.

Client threads rarely meet at a server: building and signing a request takes
longer than most servers' gap between check and write. So a cloud's client asks
here just before the last byte of what it sends first. A store without a network
never asks; its racers meet before the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Final, TypeVar

from lockref.runtime import NS_PER_S, Runtime

PATIENCE_NS: Final = NS_PER_S
"""How long a racer waits for the others. One of them may be unable to connect."""

Answer = TypeVar("Answer")

_ask: ContextVar[Callable[[], None] | None] = ContextVar("lockref_start_line", default=None)


@contextlib.contextmanager
def held_back(until: Callable[[], None]) -> Iterator[None]:
    """Call `until` just before this thread's next request is complete on the wire. It must be bounded itself."""
    token = _ask.set(until)
    try:
        yield
    finally:
        _ask.reset(token)


def is_racing() -> bool:
    """True if this thread's next request is to be held back."""
    return _ask.get() is not None


def wait_for_start() -> None:
    """Wait for the start, in a client that is about to complete a request. Returns at once outside a race."""
    until = _ask.get()
    if until is not None:
        _ask.set(None)
        until()


class StartLine:
    """Opens when `count` tasks wait at it. A task that has waited for PATIENCE_NS goes on alone."""

    def __init__(self, runtime: Runtime, count: int) -> None:
        self._mutex = runtime.mutex()
        self._open = runtime.event()
        self._missing = count

    def wait(self) -> None:
        with self._mutex:
            self._missing -= 1
            is_last = self._missing == 0
        if is_last:
            self._open.set()
        else:
            self._open.wait(PATIENCE_NS)


def race(runtime: Runtime, attempts: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Make all attempts at once, each in a task of its own; their answers, in the order of the attempts."""
    answers: dict[int, Answer] = {}
    ready, line = StartLine(runtime, len(attempts)), StartLine(runtime, len(attempts))

    def racer(number: int) -> Callable[[], None]:
        def run() -> None:
            ready.wait()
            with held_back(line.wait):
                answers[number] = attempts[number]()

        return run

    tasks = [runtime.spawn(racer(number), name=f"racer-{number}") for number in range(len(attempts))]
    for task in tasks:
        task.join()
    return [answers[number] for number in range(len(attempts))]
