"""Waits, holds and hand-offs as they are measured from histories by hand."""

from __future__ import annotations

import pytest

from lockref.words import Op
from reports.checks.judgement import measure
from tests.histories import History, timed


def test_waits_holds_and_handoffs_are_measured():
    """What reports draw quantiles of: n2 waited 24 and was served 20 after the release."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4, returned=5)
    h.granted("n2", call=1, applied=24, returned=25)
    measured = measure(*h.tables())
    calls = measured.calls.to_pylist()
    assert [(row["op"], row["wait_ns"], row["hold_ns"]) for row in calls] == [
        ("acquire", 2, 1),
        ("acquire", 24, None),
        ("release", 2, None),
    ]
    assert [(row["after"], row["handoff_ns"]) for row in measured.handoffs.to_pylist()] == [("release", 20)]


def handoffs(h: History) -> list[tuple[str, int, str]]:
    return [(row["after"], row["handoff_ns"], row["node"]) for row in measure(*h.tables()).handoffs.to_pylist()]


def test_a_handoff_goes_on_while_the_holder_comes_back():
    """D13, F3: n2 waits since 1; n1 takes the lock twice more in between, so its first release reached n2 after 50."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4, returned=5)
    h.released(h.granted("n1", call=10, applied=11, returned=12), call=13, applied=14, returned=15)
    h.granted("n2", call=1, applied=54, returned=55)
    assert handoffs(h) == [("release", 50, "n2"), ("release", 40, "n2")]


@pytest.mark.parametrize("between", [0, 2])
def test_a_late_machine_may_be_late_in_each_turn_in_between(between):
    """L3: three spans in the hand-over itself, and four more for each grant of another one before it."""
    late_ns = 200_000_000
    h = History(is_simulated=False, run={"validity_ns": 100, "host_late_ns": late_ns})
    for turn in range(1 + between):
        at = 20 * turn
        h.released(h.granted("n1", call=at, applied=at + 1, returned=at + 2), call=at + 3, applied=at + 4)
    h.granted("n2", call=1, applied=90, returned=91)
    first = measure(*h.tables()).handoffs.to_pylist()[0]
    assert first["late_ns"] == late_ns * (3 + 4 * between)


def test_nobody_waited_no_handoff():
    """F3: a lock that lay idle until somebody asked was not handed off; nor one whose waiters never got it."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4, returned=5)
    h.fails("n3", call=2, returned=30)
    h.released(h.granted("n2", call=20, applied=21, returned=22), call=23, applied=24, returned=25)
    assert handoffs(h) == []


def test_the_nearest_of_several_waiters_counts():
    """F3: of two that waited, the one who was served first ends the hand-off; another lock's waiter does not."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=3, returned=4), call=9, applied=10, returned=11)
    h.released(h.granted("n3", call=2, applied=16, returned=17), call=18, applied=19, returned=20)
    h.granted("n2", call=1, applied=30, returned=31)
    assert handoffs(h) == [("release", 6, "n3"), ("release", 11, "n2")]


@pytest.mark.parametrize(("by", "expected"), [("n1", [("release", 20, "n2")]), ("operator", [])])
def test_who_deletes_its_own_record_has_given_it_back(by, expected):
    """F3: dynamodb_lock releases by deleting its row. One that others delete was not released."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2)
    if by == "operator":
        h.operator(Op.DELETE, 4)
    else:
        h.write(by, Op.DELETE, sent=4)
    h.granted("n2", call=1, applied=24, returned=25)
    assert handoffs(h) == expected
    release = h.judged().reach.to_pylist()
    assert [row["count"] for row in release if row["situation"] == "release"] == [len(expected)]


def test_an_expiry_and_a_death_start_the_clock_elsewhere():
    """F3: after an expiry from the end of the validity (at 101), after a death from the crash (at 40)."""
    lapsed, died = timed(), timed()
    for h in (lapsed, died):
        h.granted("n1", call=0, applied=1, returned=2)
        h.granted("n2", call=20, applied=130, returned=131)
    died.fault("n1", 40, "crash", "begin")
    (expiry,), (death,) = handoffs(lapsed), handoffs(died)
    assert expiry == ("expiry", 29, "n2")
    assert death == ("death", 90, "n2")


def test_a_failover_counts_from_the_successors_call():
    """F3: nobody wanted the lock of the dead for a while; what counts is how long the first who did had to wait."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2)
    h.fault("n1", 40, "crash", "begin")
    h.granted("n2", call=120, applied=130, returned=131)
    assert handoffs(h) == [("death", 10, "n2")]


def test_a_crash_in_an_earlier_tenure_is_no_death_of_this_one():
    """F3: the node crashed, came back, and let its next lease lapse."""
    h = timed()
    h.fault("n1", 0, "crash", "begin")
    h.granted("n1", call=1, applied=2, returned=3)
    h.granted("n2", call=20, applied=130, returned=131)
    assert [after for after, _, _ in handoffs(h)] == ["expiry"]
