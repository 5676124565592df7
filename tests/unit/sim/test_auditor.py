"""The auditor: every way in which the real world can leak into a run raises, with file and line."""

from __future__ import annotations

import _thread
import contextlib
import datetime
import importlib
import logging
import os
import random
import secrets
import subprocess
import sys
import threading
import time
import uuid
from _thread import allocate_lock as aliased_mutex
from os import urandom as aliased_urandom
from random import random as aliased_random
from time import monotonic as aliased_monotonic

import pytest

from lockref.errors import DeterminismError
from sim.auditor import _Audit, _barred, real_world_forbidden
from sim.kernel.kernel import Kernel

OLD_EVENT = threading.Event()

LEAKS = {
    "time": lambda: time.time(),
    "date.today": lambda: datetime.date.today(),  # noqa: DTZ011 - the planted leak
    "aliased attribute": lambda: time.monotonic(),
    "sleep": lambda: time.sleep(0),
    "perf_counter": lambda: time.perf_counter_ns(),
    "random": lambda: random.random(),
    "shuffle": lambda: random.shuffle([]),
    "unseeded Random": lambda: random.Random(),
    "SystemRandom": lambda: random.SystemRandom(),
    "urandom": lambda: os.urandom(4),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
    "secrets": lambda: secrets.token_hex(4),
    "thread": lambda: threading.Thread(target=print).start(),
    "timer": lambda: threading.Timer(9, print).start(),
    "low-level thread": lambda: _thread.start_new_thread(print, ()),
    "mutex": lambda: threading.Lock(),
    "re-entrant mutex": lambda: threading.RLock(),
    "event": lambda: threading.Event(),
    "old event": lambda: OLD_EVENT.wait(0),
    "condition": lambda: threading.Condition(),
    "semaphore": lambda: threading.Semaphore(),
    "barrier": lambda: threading.Barrier(2),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS.keys())
def test_each_leak_is_caught_where_it_is(leak):
    """H-guard: the error names this file and the line of the call."""
    place = r"test_auditor\.py:\d+: .*inside a simulated run"
    with pytest.raises(DeterminismError, match=place), real_world_forbidden():
        leak()


@pytest.mark.parametrize(
    "leak",
    [
        lambda: aliased_monotonic(),
        lambda: datetime.datetime.now(),  # noqa: DTZ005 - the planted leak
        lambda: aliased_random(),
        lambda: aliased_urandom(4),
        lambda: aliased_mutex(),
    ],
    ids=["from time import", "datetime.now", "from random import", "from os import", "from _thread import"],
)
def test_strict_mode_finds_what_was_imported_before(leak):
    """Built-ins bound elsewhere pass the plain auditor; the strict one watches the calls themselves."""
    with real_world_forbidden():
        leak()
    with pytest.raises(DeterminismError, match=r"test_auditor\.py:\d+"), real_world_forbidden(is_strict=True):
        leak()


@pytest.mark.parametrize("is_strict", [False, True])
def test_what_loads_late_may_load(is_strict, tmp_path, monkeypatch):
    """A module that is imported inside a run makes its mutexes and generators; what it does afterwards is audited."""
    (tmp_path / "loads_late.py").write_text(
        "import random, threading, time\n"
        "MUTEX, EVENT, JITTER, BORN = threading.Lock(), threading.Event(), random.Random(), time.time()\n"
        "def now(): return time.time()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with real_world_forbidden(is_strict=is_strict):
        module = importlib.import_module("loads_late")
    del sys.modules["loads_late"]
    with pytest.raises(DeterminismError, match=r"loads_late\.py:3"), real_world_forbidden(is_strict=is_strict):
        module.now()


def test_threads_of_others_are_left_alone():
    """A thread that somebody else starts during a strict block may use the real world, and is not slowed down."""
    seen: list[object] = []

    def stranger() -> None:
        time.time()
        aliased_monotonic()
        seen.append(sys.getprofile())

    def starter() -> None:
        thread = threading.Thread(target=stranger)
        thread.start()
        thread.join(10)

    outside, go = threading.Thread(target=lambda: (go.acquire(), starter())), threading.Semaphore(0)
    outside.start()
    finished = outside.join
    with real_world_forbidden(is_strict=True):
        go.release()
        finished(10)
    assert seen == [None]


def test_swallowed_leak_is_raised_at_the_end():
    """A lock that catches everything cannot hide its leak."""
    with pytest.raises(DeterminismError, match=r"time\.time"), real_world_forbidden(), contextlib.suppress(Exception):
        time.time()


def test_everything_is_back_afterwards():
    """After the block, even one that raised, the real world works again."""
    before = (time.time, os.urandom, random.random, threading.Thread.start, random.Random.__init__)
    with pytest.raises(DeterminismError), real_world_forbidden(is_strict=True):
        uuid.uuid4()
    assert (time.time, os.urandom, random.random, threading.Thread.start, random.Random.__init__) == before
    assert time.time() > 0
    assert aliased_monotonic() > 0


def test_seeded_randomness_and_logging_pass(caplog):
    """A seeded generator is deterministic, and the stamp of a log record decides nothing."""
    with real_world_forbidden(is_strict=True):
        assert random.Random(7).random() == random.Random(7).random()
        logging.getLogger("lockref.test").warning("still here")
    assert "still here" in caplog.text


def test_a_gated_thread_is_under_audit(monkeypatch):
    """The threads on which a run is checked for conformance belong to it: a leak there is a leak."""
    kernel = Kernel(substrate="thread")
    kernel.spawn(lambda: time.time(), name="main")
    with pytest.raises(DeterminismError, match=r"time\.time"), real_world_forbidden():
        kernel.run(1000)
    kernel.close()


AT_EXIT = """
import atexit, time
from sim.auditor import _Audit, _barred, real_world_forbidden

with real_world_forbidden():
    atexit.register(print, "before")
    atexit.register(time.sleep, 0)
"""


def test_the_interpreter_may_call_what_a_lock_leaves_at_exit():
    """The run is over, and no line of a lock makes the call."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\n", "")


@pytest.mark.parametrize("is_over", [False, True])
def test_a_call_without_a_caller_in_python_is_a_leak_within_a_run(
    is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was let through, since the interpreter calls what was left with `atexit` so: but only after the run."""
    audit = _Audit()
    audit.is_over = is_over
    monkeypatch.setattr(audit, "concerns_caller", lambda: True)
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: told.set())
    told, calls = threading.Event(), []

    def original() -> None:
        calls.append(1)
        told.set()

    _thread.start_new_thread(_barred(audit, "time.time", original), ())
    assert told.wait(10)
    assert (bool(calls), audit.first is None) == (is_over, is_over)
