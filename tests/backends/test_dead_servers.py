"""Servers that are killed or frozen in the middle of a run: the verdict says what happened to the run.

The server goes at a grant, not at an instant: however slow the machine, there is something before and after.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from lockref.provider import LockContext
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.checks import judge
from reports.checks.summary import Summary
from reports.formats.exit_codes import code_of
from reports.formats.results import Results, judged
from reports.history_files import write_history
from scenarios.backends import backend_status, start_backend
from scenarios.definition.load import load_scenario
from scenarios.run import run_real
from tests.backends.conftest import PATIENCE_S

pytestmark = [pytest.mark.realbackend, pytest.mark.xdist_group("ministack")]

AT_GRANT = 3
FROZEN_S = 4
HARDENED = load_provider("hardened")


class Watched:
    """The hardened lock, and an act at the n-th grant of all clients together."""

    def __init__(self, context: LockContext, granted: itertools.count[int], act: Callable[[], None]) -> None:
        self._lock = HARDENED.factory(context)
        self._granted = granted
        self._act = act

    def lock(self, timeout_s: float) -> bool:
        has_it = self._lock.lock(timeout_s)
        if has_it and next(self._granted) == AT_GRANT:
            self._act()
        return has_it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


@contextmanager
def own_server() -> Iterator[tuple[str, psutil.Process]]:
    """A server of this test alone; it may be killed or left frozen."""
    status = backend_status("ministack")
    if not status.available:
        pytest.skip(f"ministack: {status.reason}")
    with start_backend("ministack", timeout_s=PATIENCE_S) as running:
        assert running.pid is not None
        server = psutil.Process(running.pid)
        try:
            yield running.uri, server
        finally:
            if server.is_running():
                server.send_signal(signal.SIGCONT)


def contend(uri: str, act: Callable[[], None], folder: Path, *, seconds: int) -> Results:
    """Eight contenders; `act` at a grant. The history is in `folder`.

    Skips the test on a machine that is too busy for that grant in the first half of the run.
    """
    granted, acted_ns = itertools.count(1), []

    def acted() -> None:
        acted_ns.append(ThreadRuntime().monotonic_ns())
        act()

    spec = replace(HARDENED, factory=lambda context: Watched(context, granted, acted))
    scenario = load_scenario("contention")
    outcome = run_real(scenario, spec, uri, clients=8, duration_ns=seconds * NS_PER_S)
    [row] = outcome.runs.to_pylist()
    if not acted_ns or acted_ns[0] > row["faults_end_ns"] + seconds * NS_PER_S // 2:
        pytest.skip(
            f"this machine is too busy: no {AT_GRANT} grants in {seconds / 2:g} s, so the server was not struck"
        )
    write_history(folder, outcome.events, outcome.runs)
    counted = Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)
    return judged(counted, title="t", classes={}, events=len(outcome.events))


def test_a_killed_server_is_exit_5_and_never_held(tmp_path: Path) -> None:
    """kill -9 in the middle: told from when to when, exit 5, by the run and by a later check."""
    with own_server() as (uri, server):
        results = contend(uri, server.kill, tmp_path, seconds=5)
    (answers,) = results.answers
    assert results.verdict == "inconclusive", results.statement
    assert code_of([results]) == 5
    assert answers.lost_at_ns == answers.silences[-1].begin_ns
    assert answers.unanswered
    assert any("the store answered nothing from" in notice for notice in results.notices), results.notices
    assert results.liveness != "violated"
    speed = results.speed
    assert speed is not None
    assert speed.answered_ns < speed.run_ns
    assert run(["check", str(tmp_path)]) == 5


@pytest.mark.long
def test_a_server_that_froze_and_came_back_is_told(tmp_path: Path) -> None:
    """SIGSTOP for four of eight seconds: no loss, and too little of the run was answered."""

    def freeze() -> None:
        server.suspend()
        threading.Timer(FROZEN_S, server.resume).start()

    with own_server() as (uri, server):
        results = contend(uri, freeze, tmp_path, seconds=8)
    (answers,) = results.answers
    assert answers.lost_at_ns is None
    assert max(silence.end_ns - silence.begin_ns for silence in answers.silences) > NS_PER_S
    assert any("the store answered nothing from" in notice for notice in results.notices), results.notices
    assert (results.verdict, code_of([results])) == ("inconclusive", 3), results.reasons
    assert run(["check", str(tmp_path)]) == 3


@pytest.mark.long
def test_a_server_that_stays_frozen_is_exit_5(tmp_path: Path) -> None:
    """Nothing is refused, nothing is reset: every request waits for its time-out."""
    with own_server() as (uri, server):
        results = contend(uri, server.suspend, tmp_path, seconds=3)
    assert code_of([results]) == 5
    assert results.answers[0].lost_at_ns is not None
    assert results.liveness != "violated"
