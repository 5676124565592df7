"""`campaign --max-time`: the time of the chunks, without what it takes to set up those who run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lockref.cli.jobs.campaign import running
from lockref.runtime import NS_PER_S
from scenarios import interrupts
from scenarios.executor import Executor, InProcess


def test_the_time_begins_once_the_executors_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark session takes ten seconds to start: with `--max-time 5s` its first chunk was the last one."""
    now_s = [100.0]
    monkeypatch.setattr(interrupts, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    @contextmanager
    def slow_to_start() -> Iterator[Executor]:
        now_s[0] += 10
        yield InProcess()

    def collected(_orders: object, _executor: Executor, *, is_over: Callable[[], bool], **_told: Any) -> Iterator[bool]:
        now_s[0] += 4
        yield is_over()
        now_s[0] += 2
        yield is_over()

    monkeypatch.setattr(running, "collect", collected)
    tell = cast("running._Telling", SimpleNamespace(progress=None, found=None))
    assert running._collected([], slow_to_start(), tell, 5 * NS_PER_S) == [False, True]
