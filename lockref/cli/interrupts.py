"""Ctrl-C that cannot get lost.

Python drops an exception that is raised inside a finaliser or a weak
reference's callback, KeyboardInterrupt like any other, and importing runs such
a callback for each module. So the handler raises as usual and remembers, and
a command that works for long asks between two pieces of work.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_heard = False


@contextmanager
def remembered() -> Iterator[None]:
    """Remember a Ctrl-C for the length of the block. Does nothing outside the main thread, which gets no signals."""
    global _heard
    _heard = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        global _heard
        _heard = True
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, interrupt)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raise_if_heard() -> None:
    """KeyboardInterrupt if one was heard, so also the one that got lost."""
    if _heard:
        raise KeyboardInterrupt
