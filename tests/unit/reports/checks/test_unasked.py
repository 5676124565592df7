"""What nobody asked is not held: no belief, no effect, no grant, a hole in the record, a bound that nobody gave."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.history import runs_table
from lockref.words import Kind, Op, Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from tests.histories import History, tables, verdict

TIMING = {
    "validity_ns": 100,
    "poll_interval_ns": 10,
    "request_timeout_ns": 5,
    "wait_timeout_ns": 10_000,
    "faults_end_ns": 0,
}
S = 1_000_000_000
"""Real runs are allowed a second beyond each bound, so their tests count in seconds."""


# Nothing was asked.


def quiet() -> History:
    """A grant that nobody was asked about and that protected nothing."""
    h = History(run=TIMING)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    return h


def busy() -> History:
    """A grant with belief and a protected write."""
    h = History(run=TIMING)
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 3)
    h.effect(a, at=3)
    h.released(a, call=4, applied=5)
    return h


@pytest.mark.parametrize("clause", ["S3", "S4", "L4"])
def test_what_was_not_asked_is_not_held(clause):
    """S3, S4, L4: without belief, effect or a guard's answer they do not apply, and say why; with them they hold."""
    found = quiet().verdict(clause)
    assert found["verdict"] == "not_applicable"
    assert found["witness"]["reason"]
    assert busy().verdict(clause)["verdict"] == "held"


def test_a_run_in_which_nobody_was_granted_has_nobody_to_tell():
    """L4: nobody was ever granted the lock."""
    h = History(run={**TIMING, "claims": ["L4"]})
    h.fails("n1", call=0, returned=2, outcome=Outcome.REJECTED)
    assert h.verdict("L4")["verdict"] == "not_applicable"


def test_a_lock_that_owes_reports_is_asked_without_a_guard():
    """L4: where every loss is to be reported, a grant is enough."""
    h = quiet()
    h.run = {**TIMING, "claims": ["L4"]}
    assert h.verdict("L4")["verdict"] == "held"


def test_one_run_that_was_asked_speaks_for_its_batch():
    """A batch in which some runs had beliefs and held is held; one of quiet runs alone is not, clause by clause."""
    mixed, silent = tables(busy(), quiet()), tables(quiet(), quiet())
    told = decide(Summary.of(judge(*mixed), *mixed))
    assert (told.safety, told.clauses["S3"], told.clauses["S4"], told.clauses["L4"]) == ("held",) * 4
    told = decide(Summary.of(judge(*silent), *silent))
    assert {told.clauses[name] for name in ("S3", "S4", "L4")} == {"not_applicable"}
    assert told.safety == "held"


# A hole in the record of a real run.


def real(**run: Any) -> History:
    return History(is_simulated=False, run={**TIMING, **run})


def waits(h: History, *, until: int, condition: str | None) -> None:
    """n2 waits from the beginning and is granted the lock at `until`, by a write on this version."""
    h.granted("n2", call=0, applied=until, returned=until + 1, if_version=condition)


@pytest.mark.parametrize(("condition", "expected"), [(None, "violated"), ("somebody-elses", "inconclusive")])
@pytest.mark.parametrize("clause", ["L1", "L3"])
def test_a_grant_may_hide_in_a_hole(clause, condition, expected):
    """L1, L3: n2 waited 9 s after a release; if somebody unrecorded wrote in between, that one may have held."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    waits(h, until=9 * S, condition=condition)
    assert h.verdict(clause)["verdict"] == expected


@pytest.mark.parametrize(("condition", "expected"), [(None, "violated"), ("somebody-elses", "inconclusive")])
def test_the_successor_of_a_dead_holder_may_hide_in_a_hole(condition, expected):
    """L2: as above, after a crash."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    h.fault("n1", 3, "crash", "begin")
    waits(h, until=9 * S, condition=condition)
    assert h.verdict("L2")["verdict"] == expected


@pytest.mark.parametrize("clause", ["L1", "L3"])
def test_a_hole_elsewhere_hides_no_wait(clause):
    """L1, L3: the writes around this gap name each other, so nobody came between; the hole is a later one."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    waits(h, until=9 * S, condition=None)
    h.granted("n3", call=9 * S + 2, applied=9 * S + 3, returned=9 * S + 4, if_version="somebody-elses")
    assert h.verdict("S1")["verdict"] == "inconclusive"
    assert h.verdict(clause)["verdict"] == "violated"


@pytest.mark.parametrize("clause", ["L1", "L3"])
def test_an_earlier_hole_hides_no_wait(clause):
    """L1, L3: the hole is before the release that n3 waits after."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.released(h.granted("n2", call=5, applied=6, returned=7, if_version="somebody-elses"), call=8, applied=9)
    h.granted("n3", call=10, applied=9 * S, returned=9 * S + 1)
    assert h.verdict(clause)["verdict"] == "violated"


def test_a_short_gap_hides_no_wait():
    """L1, L3: whatever happened in it, nobody waited too long. Nobody died, so L2 is not asked."""
    h = real()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    waits(h, until=20, condition="somebody-elses")
    assert [h.verdict(clause)["verdict"] for clause in ("L1", "L2", "L3")] == ["held", "not_applicable", "held"]


def test_nobody_waits_for_an_unrecorded_holder_until_the_end():
    """L1: after the last write on record nothing shows a hole, and somebody unrecorded is known to write."""
    for condition, expected in ((None, "violated"), ("somebody-elses", "inconclusive")):
        h = real(end_ns=9 * S)
        h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
        h.released(h.granted("n2", call=5, applied=6, returned=7, if_version=condition), call=8, applied=9)
        h.fails("n3", call=10, returned=9 * S, outcome=Outcome.REJECTED)
        assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(("condition", "expected"), [(None, "violated"), ("somebody-elses", "inconclusive")])
def test_the_end_of_an_orphan_may_hide_in_a_hole(condition, expected):
    """L6: what a failed acquire left was replaced 9 s later, perhaps not it but what somebody put in its place."""
    h = real()
    call = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=20 * S)
    h.returns("n1", Op.ACQUIRE, 2, call, Outcome.REJECTED)
    waits(h, until=9 * S, condition=condition)
    assert h.verdict("L6")["verdict"] == expected


@pytest.mark.parametrize(("condition", "expected"), [(None, "violated"), ("somebody-elses", "inconclusive")])
def test_the_cause_of_a_loss_may_hide_in_a_hole(condition, expected):
    """L4: n1 let go of a grant that a renewal had made good; somebody unrecorded may have taken it."""
    h = real(validity_ns=100)
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.believes(a, 2, 60)
    h.renewed(a, at=70, valid_for=100)
    h.event(Kind.DISBELIEVED, 75, "n1", op=Op.GUARD, request=a.request)
    h.granted("n2", call=80, applied=300, returned=301, if_version=condition)
    assert h.verdict("L4")["verdict"] == expected


# A run without a row in runs: its clock bound is unknown.


def undescribed(h: History, clause: str) -> dict[str, Any]:
    events, _ = h.tables()
    return verdict(judge(events, runs_table([])), clause)


def early(by: int, *, ahead: int) -> History:
    """n2 replaces n1's grant this early, and its clock is so far ahead."""
    h = History(wall_ahead={"n2": ahead})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=101 - by, returned=150)
    return h


def test_an_unknown_clock_bound_convicts_nobody():
    """S5: a new holder whose clock is ahead may be within the bound, if only somebody had said what it is."""
    assert early(10, ahead=10).verdict("S5")["verdict"] == "violated"
    found = undescribed(early(10, ahead=10), "S5")
    assert (found["verdict"], found["count"], found["at_ns"]) == ("inconclusive", 0, None)
    assert "no row in runs" in found["witness"]["reason"]


def test_a_new_holder_that_knew_is_convicted_without_a_bound():
    """S5: its own clock showed that the stamp had not passed, and that needs no bound."""
    found = undescribed(early(10, ahead=0), "S5")
    assert (found["verdict"], found["count"]) == ("violated", 1)


def test_what_holds_without_any_clock_difference_holds_with_each():
    """S5: nobody was early by any clock."""
    assert undescribed(early(0, ahead=0), "S5")["verdict"] == "held"


def test_a_late_yes_needs_the_bound():
    """L4: 10 after the end of the validity is too late only for clocks that agree."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.believes(a, 2, 111)
    assert h.verdict("L4")["verdict"] == "violated"
    assert undescribed(h, "L4")["verdict"] == "inconclusive"


def test_a_denial_after_the_validity_needs_the_bound():
    """S7: the record had lapsed by the world's clock; a careful contender adds the bound."""
    h = History(wall_ahead={"n2": 5})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.fails("n2", call=110, returned=112)
    assert h.verdict("S7")["verdict"] == "violated"
    assert undescribed(h, "S7")["verdict"] == "inconclusive"


def test_what_needs_no_bound_is_violated_in_an_undescribed_run():
    """S3: two beliefs at one instant need no clock bound; beside them S5 stays open."""
    h = early(10, ahead=10)
    a = h.granted("n3", call=200, applied=201, returned=202)
    b = h.granted("n4", call=203, applied=302, returned=303)
    h.believes(a, 202, 320)
    h.believes(b, 303, 310)
    assert undescribed(h, "S3")["verdict"] == "violated"
    assert undescribed(h, "S5")["verdict"] == "inconclusive"


def test_a_described_run_without_a_bound_has_none():
    """docs/history.md: where a row is given, null counts as none."""
    h = early(10, ahead=10)
    h.run = {"drift_bound_ns": None}
    assert h.verdict("S5")["verdict"] == "violated"


def test_where_nobody_died_or_released_those_clauses_are_not_asked() -> None:
    """L2 is about dead holders and L3 about releases: without one, "held" would say that something was explored."""
    h = real()
    h.granted("n1", call=0, applied=1, returned=2)
    assert [h.verdict(clause)["verdict"] for clause in ("L2", "L3")] == ["not_applicable"] * 2
