"""No lock is accused of the time in which its machine did not run it (L1 to L6); a slow lock on a calm machine is."""

from __future__ import annotations

import pytest

from lockref.words import Op, Outcome
from reports.checks import judge
from scenarios.worlds.host_watch import NAP_NS, HostWatch
from tests.histories import History, tables, verdict

S = 1_000_000_000
TIMING = {
    "validity_ns": 30 * S,
    "poll_interval_ns": 2 * S,
    "request_timeout_ns": 5 * S,
    "wait_timeout_ns": 20 * S,
    "drift_bound_ns": 0,
    "faults_end_ns": 0,
}
"""A call within 20 + 5 + 1 s of slack; a hand-over within 2 + 2 · 5 + 1 s."""


def real(**run):
    return History(run={**TIMING, **run}, is_simulated=False)


def denied_after(history, took_s, *, request_s=1.0):
    """A call that takes so long; its last request takes that much of it."""
    call = history.call("n1", Op.ACQUIRE, 0)
    history.write("n1", Op.ACQUIRE, sent=int((took_s - request_s) * S), replied=int(took_s * S),
                  owner="n1", outcome=Outcome.PRECONDITION_FAILED)  # fmt: skip
    history.returns("n1", Op.ACQUIRE, int(took_s * S), call, Outcome.PRECONDITION_FAILED)
    return history


def l5(history):
    return verdict(judge(*tables(history)), "L5")


@pytest.mark.parametrize(
    ("late_s", "took_s", "expected"),
    [(None, 26.5, "violated"), (0, 26.5, "violated"), (0.05, 26.05, "violated"), (2.0, 29.9, "inconclusive"),
     (2.0, 30.5, "violated"), (2.0, 25.9, "held")],
)  # fmt: skip
def test_a_late_call_on_a_late_machine(late_s, took_s, expected):
    """L5: w and q are one span each, so a machine that is 2 s late explains 4 s; a calm one explains nothing."""
    found = l5(denied_after(real(host_late_ns=None if late_s is None else int(late_s * S)), took_s))
    assert found["verdict"] == expected


def test_the_verdict_says_how_late_the_machine_was():
    """A reader learns why a clause could not be decided."""
    found = l5(denied_after(real(host_late_ns=2 * S), 29))
    assert "this machine woke its threads up to 2.0 s late" in found["witness"]["reason"]


def test_a_request_that_outlived_its_own_timeout_measures_the_machine():
    """The client ends a request at its timeout (5 s): one of 7.1 s was not run for 2.1 s. One of 5 s says nothing."""
    assert l5(denied_after(real(), 29, request_s=7.1))["verdict"] == "inconclusive"
    assert l5(denied_after(real(), 29, request_s=5))["verdict"] == "violated"


def test_a_request_of_a_stopped_process_does_not_measure_the_machine():
    """What the plan did to one process excuses no other one."""
    history = denied_after(real(), 29)
    history.fault("n2", 3 * S, "pause", "begin")
    history.fault("n2", 9 * S, "pause", "end")
    history.write("n2", Op.ACQUIRE, sent=2 * S, replied=10 * S, owner="n2", outcome=Outcome.PRECONDITION_FAILED)
    assert l5(history)["verdict"] == "violated"


def test_a_simulated_run_has_no_machine():
    """Virtual time is exact, whatever a runs table says."""
    history = denied_after(History(run={**TIMING, "host_late_ns": 9 * S}), 29)
    assert l5(history)["verdict"] == "violated"


def test_a_wait_of_many_spans_is_explained_by_each_of_them():
    """L3: after a release a waiter has p and two q; a machine 2 s late explains 6 s more, and not 7."""

    def released_then_nobody(waited_s):
        history = real(host_late_ns=2 * S)
        held = history.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=30 * S)
        history.released(held, call=S, applied=S, returned=S)
        call = history.call("n2", Op.ACQUIRE, S)
        history.returns("n2", Op.ACQUIRE, int((1 + waited_s) * S), call, Outcome.PRECONDITION_FAILED)
        history.run["end_ns"] = int((1 + waited_s) * S)
        return verdict(judge(*tables(history)), "L3")["verdict"]

    assert [released_then_nobody(waited) for waited in (12.5, 18.5, 19.5)] == ["held", "inconclusive", "violated"]


class ScriptedRuntime:
    """A clock that a test sets; each wait takes what the script says, then the event is set."""

    def __init__(self, naps_ns):
        self.now_ns, self.naps_ns = 0, list(naps_ns)

    def monotonic_ns(self):
        return self.now_ns

    def event(self):
        return self

    def wait(self, timeout_ns):
        if not self.naps_ns:
            return True
        self.now_ns += self.naps_ns.pop(0)
        return False

    def set(self):
        self.naps_ns.clear()

    def spawn(self, work, *, name):
        work()


def test_the_watch_notes_the_worst_of_its_naps():
    """By how much the longest sleep was longer than asked."""
    with HostWatch(ScriptedRuntime([NAP_NS, NAP_NS + 7, NAP_NS + 2_000, NAP_NS + 3])) as watch:
        pass
    assert watch.late_ns == 2_000
