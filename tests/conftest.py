"""What holds for every test."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator

import pytest

from tests.thoroughness import register_profiles

register_profiles()

# A shell starts what runs in its background with SIGINT ignored, and nohup its program with SIGHUP ignored. Every
# process that a test starts would inherit that, and tests of these signals would wait until their time is over.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twelve thousand tests stay until the end: nothing of them is garbage, so no collector need look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture
def briefly_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored failure is shrunk in few runs, for tests that do not ask how small it becomes. Most of `sim` is that."""
    monkeypatch.setattr("scenarios.failures.failure_store.SHRINK_RUNS_MAX", 4)
