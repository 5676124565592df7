"""How grants ended, how long nobody had the lock, and calls that the end of the run cut short."""

from __future__ import annotations

import pytest

from lockref.history import CUT_SHORT
from lockref.words import Kind, Op, Outcome
from reports.checks.judgement import measure
from reports.formats.results import judged
from tests.histories import History, summarised, timed


def told(*histories: History) -> str:
    return judged(summarised(*histories), title="t", classes={}, events=0).endings_line


def test_each_way_to_end_is_counted_once():
    """Released, lapsed, deleted, taken by another too early, and held at the end."""
    h = timed(end_ns=200)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=5, applied=6)
    h.granted("n2", call=7, applied=10, returned=11, valid_for=20)
    h.granted("n3", call=12, applied=37, returned=38)
    h.write("n3", Op.DELETE, sent=40)
    h.granted("n1", call=41, applied=42, returned=43, if_version="absent")
    h.granted("n2", call=44, applied=45, returned=46, valid_for=1000)
    assert told(h) == "grants ended: 1 released, 1 lapsed, 1 deleted, 1 replaced; 1 held at the end; longest gap 7 ns"


def test_a_grant_that_its_holder_gave_to_a_waiter_was_released():
    """Nobody waited for its validity, so it neither lapsed nor was replaced; and the run has a release (L3)."""
    h = timed(end_ns=200)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=20)
    waiting = h.call("n2", Op.ACQUIRE, 3)
    request = h.call("n1", Op.RELEASE, 5)
    made = h.write("n1", Op.ACQUIRE, sent=6, owner="owner-n2", valid_until=106)
    h.returns("n1", Op.RELEASE, 7, request, Outcome.APPLIED)
    h.returns("n2", Op.ACQUIRE, 9, waiting, Outcome.APPLIED, owner="owner-n2", version=made)
    assert told(h).startswith("grants ended: 1 released, 1 lapsed;")
    assert {row["situation"]: row["count"] for row in h.judged().reach.to_pylist()}["release"] == 1


def test_a_lock_that_nobody_gets_back_has_a_gap_to_the_last_answer():
    """A dead holder's grant lapsed, and a client asked in vain until the end."""
    h = timed(end_ns=400)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=20)
    h.fails("n2", call=3, returned=350)
    assert told(h) == "grants ended: 1 lapsed; longest gap 329 ns"


def test_several_runs_add_up_and_the_longest_gap_is_theirs():
    """Counts are summed, the gap is not."""
    h = timed(end_ns=50)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=5, applied=6)
    h.released(h.granted("n2", call=7, applied=10, returned=11), call=15, applied=16)
    assert told(h, h, History()) == "grants ended: 4 released; longest gap 4 ns"
    assert told(History()) == ""


def cut_off_call(said: str) -> History:
    h = timed(end_ns=400)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=1000)
    request = h.call("n2", Op.ACQUIRE, 5)
    h.event(Kind.RETURN, 300, "n2", op=Op.ACQUIRE, request=request, outcome=Outcome.PRECONDITION_FAILED, detail=said)
    return h


@pytest.mark.parametrize(("said", "word"), [("", "denied"), (CUT_SHORT, "cut_short")])
def test_a_call_that_the_end_of_the_run_cut_short_is_not_denied(said, word):
    """Counted, and told in every table, under its own word."""
    h = cut_off_call(said)
    reach = {row["situation"]: row["count"] for row in h.judged().reach.to_pylist()}
    other = "cut_short" if word == "denied" else "denied"
    assert (reach[word], reach[other]) == (1, 0)
    calls = {row["node"]: row["outcome"] for row in measure(*h.tables()).calls.to_pylist()}
    assert calls["n2"] == ("cut_short" if said else "precondition_failed")


def test_a_call_that_was_cut_short_is_judged_like_any_other():
    """S7: "no" is an answer, however little time there was: somebody else's grant was in force here, and not there."""
    assert cut_off_call(CUT_SHORT).verdict("S7")["verdict"] == "held"
    h = timed()
    request = h.call("n2", Op.ACQUIRE, 5)
    h.event(
        Kind.RETURN, 300, "n2", op=Op.ACQUIRE, request=request, outcome=Outcome.PRECONDITION_FAILED, detail=CUT_SHORT
    )
    h.write("n1", Op.ACQUIRE, sent=350, owner="n1")
    found = h.verdict("S7")
    assert (found["verdict"], found["witness"]["calls"][0]["outcome"]) == ("violated", "cut_short")
