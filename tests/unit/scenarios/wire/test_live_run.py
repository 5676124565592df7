"""What a run on the wire knows of itself: when its time is over, and why its record proves less than it seems."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockref.runtime import NS_PER_S, ThreadRuntime
from scenarios.wire.live_run import LiveRun
from sim.faults.clocks import Offset
from sim.faults.plan import FaultPlan


class Program:
    """A program that is still at work, and ends when it is asked to."""

    exit_codes = (0,)

    def __init__(self) -> None:
        self.is_running = True

    def ask_to_end(self) -> bool:
        self.is_running = False
        return True

    def wait(self, _timeout_ns: int) -> bool:
        return True


def live_run(**known: Any) -> Any:
    """A run of one client of which just this is known; nothing is started."""
    run: Any = object.__new__(LiveRun)
    wire = {
        "failure": None, "requests": {"n1": 3}, "locks": {"b/lock": None}, "unfollowed": {}, "unguarded": {},
        "effects": 1, "clocks_off_ns": {}, "is_protected": lambda key: key.startswith("b/state/"),
    }  # fmt: skip
    run._wire = SimpleNamespace(**(wire | known))
    run._plan = FaultPlan(faults=(Offset(id="ahead", client="n1", at_ns=0, by_ns=10 * NS_PER_S),))
    run._runtime = ThreadRuntime()
    run._settings = SimpleNamespace(lasting_ns=60 * NS_PER_S, protects=("state/*",), plan=None)
    run._begin_ns = run._runtime.monotonic_ns()
    run._is_cut_off = False
    run._overtime = []
    run._programs = {"n1": Program()}
    run._struck = {"n1": SimpleNamespace(starting=0)}
    work = SimpleNamespace(is_expecting=False, raise_failure=lambda: None)
    run._endpoints = SimpleNamespace(work=work, taps={"n1": SimpleNamespace(unreadable="")})
    return run


@pytest.mark.parametrize("is_late", [True, False])
def test_a_run_whose_time_is_over_is_cut_off(is_late: bool) -> None:
    """Who waits then has not waited for ever, and who was still at work is named. Who ends before is no such case."""
    run = live_run()
    if is_late:
        run._begin_ns -= 61 * NS_PER_S
    else:
        run._programs["n1"].is_running = False
    run._await_end()
    assert (run._is_cut_off, run._overtime) == ((True, ["n1"]) if is_late else (False, []))


def test_a_process_that_is_due_is_waited_for() -> None:
    """Between a crash and the next process no program runs, and the run is not over."""
    run = live_run()
    run._programs["n1"].is_running = False
    assert not run._is_busy()
    run._struck["n1"].starting = 1
    assert run._is_busy()
    run._struck["n1"].starting, run._endpoints.work.is_expecting = 0, True
    assert run._is_busy()


@pytest.mark.parametrize(
    ("known", "unreadable", "doubts"),
    [
        ({}, "", []),
        ({"requests": {}}, "", ["the program never sent a request to its endpoint: does it use the address"]),
        ({"locks": {}}, "", ["no object held a lock record that could be read"]),
        ({"unfollowed": {"b/lock": None}}, "", ["b/lock was changed by requests that are not read"]),
        ({"unfollowed": {"b/state/x": None}}, "", ["b/state/x was changed by requests that are not read"]),
        ({"unguarded": {"b/state/x": ()}}, "", ["no record was read of the lock that guards b/state/x"]),
        ({"unguarded": {"b/state/x": ("b/l1", "b/l2")}}, "", ["which of the locks b/l1, b/l2 guards b/state/x cannot"]),
        ({"effects": 0}, "", ["no object that fits state/* was written, so S4 was not asked"]),
        ({"clocks_off_ns": {"n1": 2 * NS_PER_S}}, "", []),
        ({"clocks_off_ns": {"n1": 2 * NS_PER_S + 1}}, "", ["the clock of n1 was to be set apart by +10 s"]),
        ({"unfollowed": {"b/other": None}}, "", []),
        ({"unfollowed": {"*": "a form"}}, "", ["requests were not followed that may change any object (a form)"]),
        ({}, "no HTTP/1.1", ["some connections could not be read, so requests may be missing (n1: no HTTP/1.1)"]),
    ],
)
def test_what_weakens_a_record_is_told(known: dict[str, Any], unreadable: str, doubts: list[str]) -> None:
    """Each is a reason why the run proves nothing; what happened to an object that is no lock is none."""
    run = live_run(**known)
    run._endpoints.taps["n1"].unreadable = unreadable
    found = run.doubts()
    assert len(found) == len(doubts)
    assert all(told.startswith(doubt) for told, doubt in zip(found, doubts, strict=True)), found


def test_answers_that_never_ended_are_counted_for_each_client() -> None:
    """Whoever reads "in doubt" must learn that the server did not finish what it said."""
    run = live_run(requests={"n1": 3}, unfinished={"n1": 2})
    run._programs["n1"].exit_codes = []
    run._settings.unseen_limits = ()
    run._endpoints.strikes = SimpleNamespace(told=lambda *_: ())
    run._endpoints.work = SimpleNamespace(plan=run._plan, counts=dict)
    assert "answers that did not come to their end, so what they answer may have taken effect: 2 of n1" in run.notices()
