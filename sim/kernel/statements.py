"""Between any two statements of a lock, its task may lose the processor.

The runtime's calls are the places where threads of a well-built lock meet. A lock that checks one of its own attributes
and acts on it a line later meets others there, too. While a run lasts, this module calls back before each line of the
lock's own code: by `sys.monitoring`, and by a trace function on Python 3.11, which has no such thing.

Both do not call back while a callback runs. On greenlets, which share one thread, a task that gave way inside a
callback would silence all others; so a run that is preempted between statements takes gated threads.
"""

from __future__ import annotations

import sys
import threading  # noqa: TID251 - a trace function belongs to the gated threads of a run
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final

from sim.kernel.substrates import GATED_PREFIX

IsLockCode = Callable[[CodeType], bool]

TOOL: Final = "lockref"


@contextmanager
def between_statements(is_lock_code: IsLockCode, preempt: Callable[[], None]) -> Iterator[None]:
    """Call `preempt` before each line of the code that `is_lock_code` names, in the gated threads of this run."""
    if sys.version_info >= (3, 12):
        with _monitored(is_lock_code, preempt):
            yield
    else:
        with _traced(is_lock_code, preempt):
            yield


def _is_gated() -> bool:
    return threading.current_thread().name.startswith(GATED_PREFIX)


@contextmanager
def _traced(is_lock_code: IsLockCode, preempt: Callable[[], None]) -> Iterator[None]:
    known: dict[CodeType, bool] = {}

    def line(_frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            preempt()
        return line

    def called(frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        is_lock = known.get(code)
        if is_lock is None:
            is_lock = known[code] = is_lock_code(code)
        return line if is_lock and _is_gated() else None

    # For threads that begin from now on: each task of the run is one.
    before = threading.gettrace()
    threading.settrace(called)
    try:
        yield
    finally:
        threading.settrace(before)


if sys.version_info >= (3, 12):

    @contextmanager
    def _monitored(is_lock_code: IsLockCode, preempt: Callable[[], None]) -> Iterator[None]:
        monitoring = sys.monitoring
        tool = next(number for number in range(6) if monitoring.get_tool(number) is None)

        def line(code: CodeType, _line: int) -> Any:
            if not is_lock_code(code):
                return monitoring.DISABLE
            if _is_gated():
                preempt()
            return None

        monitoring.use_tool_id(tool, TOOL)
        try:
            monitoring.register_callback(tool, monitoring.events.LINE, line)
            monitoring.set_events(tool, monitoring.events.LINE)
            yield
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, monitoring.events.LINE, None)
            monitoring.free_tool_id(tool)
            monitoring.restart_events()
