"""The turns of the tasks of one process: whoever waits must wait, and not spin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from lockref.locks.gate import Gate
from lockref.runtime import Mutex, ThreadRuntime


class HookedMutex:
    """A mutex after whose release another task runs at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.after_release: Callable[[], None] | None = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
        if (hook := self.after_release) is not None:
            self.after_release = None
            hook()


class HookedRuntime(ThreadRuntime):
    def __init__(self) -> None:
        super().__init__()
        self.hooked = HookedMutex()

    def mutex(self) -> Mutex:
        return self.hooked  # type: ignore[return-value]


def test_who_enters_while_another_leaves_keeps_the_others_waiting() -> None:
    """A third task found the event set although the lock was in use, and asked again and again without a wait."""
    runtime = HookedRuntime()
    gate = Gate(runtime, "key")
    entered: list[bool] = []

    def enter_elsewhere() -> None:
        other = threading.Thread(target=lambda: entered.append(gate.try_enter()))
        other.start()
        other.join()

    assert gate.try_enter()
    runtime.hooked.after_release = enter_elsewhere
    gate.leave()
    assert entered == [True]
    assert gate.user is not None
    assert not gate._idle.is_set()
