"""A run whose event loop is stuck ends with an error that says so."""

from __future__ import annotations

import threading

import pytest

from lockref.errors import BackendUnavailable
from lockref.history import Recorder
from lockref.runtime import ThreadRuntime
from scenarios.injection import at_work
from scenarios.injection.at_work import PlanAtWork
from sim.faults.plan import FaultPlan


def test_a_loop_that_is_stuck_is_told_and_no_defect_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that never ends holds the loop, and closing the endpoints asks this loop."""
    runtime = ThreadRuntime()
    work = PlanAtWork(FaultPlan(faults=()), seed=1, clients=("n1",), store=None, recorder=Recorder(), runtime=runtime)
    stuck, let_go = threading.Event(), threading.Event()

    def decode() -> None:
        stuck.set()
        let_go.wait()

    work.start()
    work.loop.call_soon_threadsafe(decode)
    assert stuck.wait(60)
    with monkeypatch.context() as patience:
        patience.setattr(at_work, "_PATIENCE_S", 0)
        with pytest.raises(BackendUnavailable, match="does a decoder never end"):
            work.stop()
    assert BackendUnavailable.exit_code == 5
    let_go.set()
    work.stop()
