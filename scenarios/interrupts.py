"""Ctrl-C is never lost, and it is delayed during short steps that must be completed.

SIGTERM (a CI runner, `kill`, a shutdown) and SIGHUP (a closed terminal) end a
command in the same way: what was finished is kept. A SIGHUP that was to be
ignored (`nohup`) stays ignored.

Python drops an exception that is raised inside a finaliser or a weak
reference's callback, KeyboardInterrupt like any other, and importing runs such
a callback for each module. So the handler raises as usual and remembers, and
a command that works for long asks between two pieces of work.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from lockref.errors import INTERRUPTED

EXIT_CODE = INTERRUPTED
"""The exit code of a command that such a signal ended."""

_heard = False
_is_listening = False
_deferrals = 0


@contextmanager
def remembered() -> Iterator[None]:
    """Remember such a signal for the length of the block. Does nothing outside the main thread, which gets none."""
    global _heard, _is_listening
    _heard = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        global _heard
        _heard = True
        if not _deferrals:
            raise KeyboardInterrupt

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or (name != "SIGINT" and signal.getsignal(number) is not signal.SIG_DFL):
            continue
        try:
            before[number] = signal.signal(number, interrupt)
        except ValueError:
            break
    _is_listening = True
    try:
        yield
    finally:
        _is_listening = False
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """For a step of milliseconds that must not be torn: a signal in it is remembered, and raised when it is done."""
    global _deferrals
    was_heard = _heard
    _deferrals += 1
    try:
        yield
    finally:
        _deferrals -= 1
    if _heard and not was_heard and not _deferrals:
        raise KeyboardInterrupt


def raise_if_heard() -> None:
    """KeyboardInterrupt if one was heard, so also the one that got lost. Nothing after the end of its command."""
    if _heard and _is_listening:
        raise KeyboardInterrupt


def was_heard() -> bool:
    """True once this command was told to end."""
    return _heard


def time_limit(seconds: float | None) -> Callable[[], bool]:
    """A function that is True once so many seconds have passed, and raises the Ctrl-C that Python dropped."""
    ends_at = None if seconds is None else time.monotonic() + seconds

    def is_over() -> bool:
        raise_if_heard()
        return ends_at is not None and time.monotonic() > ends_at

    return is_over
