"""The auditor: inside a run, the real world is out of bounds.

Leaked nondeterminism is the commonest complaint about deterministic
simulators, so leaks raise instead of being hoped away. The plain auditor
replaces the usual doors (time, entropy, threads) for a whole batch and costs
nothing per call that does not knock. The strict one also watches every call of
a built-in function, which finds `from time import monotonic` and
`datetime.now`, at a third of the speed: one run of a batch is enough to find
what a lock always does.

Real mutexes and events count as threads: a task that waits for one waits for
ever, because the task that would give it back is not running.

A leak raises where it happens, and once more on leaving the block, because a
lock that swallows exceptions would otherwise hide it.
"""

from __future__ import annotations

import _thread
import gc
import os
import random  # noqa: TID251 - to forbid it
import secrets  # noqa: TID251 - to forbid it
import sys
import threading  # noqa: TID251 - to forbid it
import time  # noqa: TID251 - to forbid it
import uuid  # noqa: TID251 - to forbid it
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

from lockref.errors import DeterminismError
from sim.kernel.substrates import GATED_PREFIX

_TIME = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "clock_gettime", "clock_gettime_ns", "sleep", "localtime", "gmtime", "ctime", "strftime",
)  # fmt: skip
_RANDOM = (
    "random", "randint", "randrange", "randbytes", "getrandbits", "choice", "choices", "sample", "shuffle", "uniform",
    "triangular", "gauss", "normalvariate", "expovariate", "betavariate", "seed", "SystemRandom",
)  # fmt: skip
DOORS: tuple[tuple[ModuleType | type, tuple[str, ...]], ...] = (
    (time, _TIME),
    (random, _RANDOM),
    (random, ("_urandom",)),
    (os, ("urandom", "getrandom", "fork", "_exit", "abort", "kill", "chdir", "fchdir")),
    (uuid, ("uuid1", "uuid4")),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice")),
    (threading, ("Lock", "RLock")),
    (threading.Event, ("__init__", "wait")),
    (threading.Condition, ("__init__", "wait")),
    (threading.Semaphore, ("__init__", "acquire")),
    (threading.Barrier, ("__init__", "wait")),
    (threading.Thread, ("__init__", "start")),
    (_thread, ("start_new_thread",)),
)
"""What the plain auditor replaces. `random` keeps its own alias of urandom, hence both."""

EXEMPT_MODULES = (f"{__package__}.kernel.substrates", "lockref.history", "logging")
"""Callers that may pass: the gated substrate is made of threads, the record serves real ones too and never waits while
it holds its mutex, and a log record's stamp decides nothing."""

_BUILTINS = frozenset(
    function
    for module, names in (
        (time, _TIME),
        (random, _RANDOM),
        (os, ("urandom", "getrandom")),
        (_thread, ("start_new_thread", "allocate_lock")),
    )
    for name in names
    if isinstance(function := getattr(module, name, None), type(len))
)
_DATETIME_NOW = ("now", "utcnow", "today")


class _Audit:
    """The leaks of one block, as far as they are its own: what other threads of the process do is their business.

    is_over: the block has ended. A lock may have kept one of its doors.
    """

    def __init__(self) -> None:
        self.first: DeterminismError | None = None
        self.is_over = False
        self._owner = _thread.get_ident()

    def concerns_caller(self) -> bool:
        """True for the thread that entered the block and for the gated threads of its runs."""
        return _thread.get_ident() == self._owner or threading.current_thread().name.startswith(GATED_PREFIX)

    def leak(self, name: str, frame: FrameType) -> DeterminismError:
        code = frame.f_code
        error = DeterminismError(
            f"{code.co_filename}:{frame.f_lineno}: {code.co_qualname} called {name} inside a simulated run; "
            "take time, randomness, identity and tasks from the Runtime"
        )
        if self.first is None:
            self.first = error
        return error


def _caller(frame: FrameType) -> FrameType:
    """The frame that made the call: none of `threading`, which is built of its own parts, and no door on the way."""
    asked: FrameType | None = frame
    while asked is not None and asked.f_globals.get("__name__") in ("threading", __name__):
        asked = asked.f_back
    return frame if asked is None else asked


def _is_exempt(frame: FrameType) -> bool:
    """True for an exempt module, and for all that an import does: what loads late is no step of the lock."""
    if frame.f_globals.get("__name__") in EXEMPT_MODULES:
        return True
    asked: FrameType | None = frame
    while asked is not None and asked.f_globals.get("__name__") != "importlib._bootstrap":
        asked = asked.f_back
    return asked is not None


def _barred(audit: _Audit, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def barred(*args: Any, **kwargs: Any) -> Any:
        here = sys._getframe()  # noqa: SLF001 - the only way to name the caller's line
        if here.f_back is None and audit.is_over:
            # The interpreter calls what a lock left with `atexit`.
            return original(*args, **kwargs)
        # A thread may begin here, with no caller in Python. Within a run that is a leak like any other.
        frame = here if here.f_back is None else _caller(here.f_back)
        if _is_exempt(frame) or not audit.concerns_caller():
            return original(*args, **kwargs)
        raise audit.leak(name, frame)

    return barred


def _unseeded(audit: _Audit, original: Callable[..., None]) -> Callable[..., None]:
    """`Random()` seeds itself from the system; `Random(seed)` is fine."""

    def init(self: random.Random, x: Any = None) -> None:
        frame = sys._getframe(1)  # noqa: SLF001 - as above
        if x is None and not _is_exempt(frame) and audit.concerns_caller():
            raise audit.leak("random.Random() without a seed", frame)
        original(self, x)

    return init


def _watcher(audit: _Audit) -> Callable[[FrameType, str, Any], None]:
    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        if called in _BUILTINS:
            name = f"{called.__module__ or 'random'}.{called.__name__}"
        elif getattr(called, "__name__", "") in _DATETIME_NOW and _is_of_datetime(called):
            name = f"datetime.{called.__name__}"
        else:
            return
        asked = _caller(frame)
        if not _is_exempt(asked):
            raise audit.leak(name, asked)

    return watch


def _watcher_of_threads(watch: Callable[[FrameType, str, Any], None]) -> Callable[[FrameType, str, Any], None]:
    """A gated thread is watched from its start; a stranger's thread takes the watch off again."""

    def begin(_frame: FrameType, _event: str, _called: Any) -> None:
        sys.setprofile(watch if threading.current_thread().name.startswith(GATED_PREFIX) else None)

    return begin


def _is_of_datetime(called: Any) -> bool:
    return getattr(getattr(called, "__self__", None), "__module__", "") == "datetime"


@contextmanager
def real_world_forbidden(*, is_strict: bool = False) -> Iterator[None]:
    """Forbid real time, entropy and threads for every call in this block.

    is_strict: watch built-in functions too, however they were imported, and
        hold garbage collection back: its callbacks run inside whatever runs.
    Raises DeterminismError, naming the caller's file and line. Other
    threads of the process are let through, so that Spark may start meanwhile;
    two threads cannot audit at once, for the doors are the process's own.
    """
    audit = _Audit()
    replaced: list[tuple[Any, str, Any]] = []
    watcher_before, was_collecting = sys.getprofile(), gc.isenabled()
    try:
        for owner, names in DOORS:
            for name in names:
                original = getattr(owner, name, None)
                if original is not None:
                    replaced.append((owner, name, original))
                    setattr(owner, name, _barred(audit, f"{owner.__name__}.{name}", original))
        replaced.append((random.Random, "__init__", random.Random.__init__))
        random.Random.__init__ = _unseeded(audit, random.Random.__init__)  # type: ignore[method-assign]
        if is_strict:
            gc.disable()
            watch = _watcher(audit)
            threading.setprofile(_watcher_of_threads(watch))
            sys.setprofile(watch)
        yield
    finally:
        audit.is_over = True
        if is_strict:
            sys.setprofile(watcher_before)
            threading.setprofile(None)
            if was_collecting:
                gc.enable()
        for owner, name, original in reversed(replaced):
            setattr(owner, name, original)
    if audit.first is not None:
        raise audit.first
