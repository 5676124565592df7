"""What a reader is shown of a violation: for every clause the client, the time, the request and the key of each row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lockref.words import IF_ABSENT, Kind, Op, Outcome
from reports.checks.spec import CLAUSES
from reports.formats.block import LINES_MAX, failure_block
from reports.formats.results import Failure
from tests.histories import LOCK, History, incomplete_rows, summarised, timed
from tests.unit.reports.checks.test_commits import Ledger
from tests.unit.reports.checks.test_on_the_wire import OBJECT, Wire, ns

V = 100


def fork() -> History:
    h = History()
    h.released(h.granted("n1", call=0, applied=2, returned=3), call=4, applied=5)
    base = h.version
    h.granted("n2", call=6, applied=7, returned=8)
    h.granted("n3", call=6, applied=8, returned=9, if_version=base)
    return h


def token_again() -> History:
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2, token=2), call=3, applied=4)
    h.granted("n2", call=5, applied=6, returned=7, token=2)
    return h


def two_believe() -> History:
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1, valid_for=10)
    h.believes(a, 2, 30)
    h.believes(h.granted("n2", call=0, applied=20, returned=21, token=2), 21, 40)
    return h


def stale_write() -> History:
    h = two_believe()
    held = {"n1": (1, 1), "n2": (3, 2)}
    for node, at in (("n2", 25), ("n1", 26), ("n1", 28)):
        request, token = held[node]
        h.event(Kind.EFFECT, at, node, op=Op.APPEND, request=request, token=token, outcome=Outcome.APPLIED)
    return h


def early() -> History:
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    h.granted("n2", call=3, applied=20, returned=21, if_version="")
    return h


def foreign_release() -> History:
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1, valid_for=10)
    h.granted("n2", call=0, applied=20, returned=21, token=2)
    h.released(a, call=22, applied=23, if_version="")
    return h


def false_grant() -> History:
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4, outcome=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 11, h.call("n1", Op.ACQUIRE, 10), Outcome.APPLIED, owner=a.owner)
    return h


def never_written() -> History:
    h = History()
    h.returns("n1", Op.ACQUIRE, 11, h.call("n1", Op.ACQUIRE, 10), Outcome.APPLIED, owner="n1")
    h.write("n2", Op.ACQUIRE, sent=20, owner="n2", if_version=IF_ABSENT)
    return h


def false_denial() -> History:
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n2", call=20, returned=25)
    return h


def own_grant_denied() -> History:
    h = History()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="n1", valid_until=101)
    h.returns("n1", Op.ACQUIRE, 5, request, Outcome.PRECONDITION_FAILED)
    return h


def false_release() -> History:
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, returned=4)
    return h


def stuck() -> History:
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=10**6)
    h.fault("n1", 3, "crash", "begin")
    h.fails("n2", call=4, returned=400)
    return h


def not_handed_on() -> History:
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n2", call=5, returned=300)
    return h


def told_too_late() -> History:
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 150)
    return h


def never_returned() -> History:
    h = timed()
    h.call("n1", Op.ACQUIRE, 0)
    h.fails("n2", call=1, returned=500)
    return h


def orphan() -> History:
    h = timed()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="n1", valid_until=10_000)
    h.returns("n1", Op.ACQUIRE, 5, request, Outcome.AMBIGUOUS)
    h.fails("n2", call=6, returned=400)
    return h


def passed_over() -> History:
    h = timed(claims=["F1:1", "F2"], clients=2)
    h.fails("n1", call=0, returned=390)
    for at in (10, 30):
        h.released(h.granted("n2", call=at, applied=at, returned=at + 1), call=at + 5, applied=at + 6)
    return h


def overwritten_commit() -> History:
    h = Ledger()
    for identity, node in (("alpha", "n1"), ("bravo", "n2")):
        h.lands(identity, 0, 30, node=node)
    h.commits("alpha", 32, version=0)
    return h


def unacknowledged_twice() -> History:
    h = Ledger()
    h.lands("a", 0, 5)
    h.lands("a", 1, 9)
    h.commits("a", 10, told=Outcome.AMBIGUOUS)
    return h


def gap_in_a_log() -> History:
    h = Ledger()
    h.lands("a", 0, 5)
    h.lands("b", 2, 9)
    return h


def landed_error() -> History:
    h = Ledger()
    h.lands("a", 0, 5)
    h.commits("a", 10, told=Outcome.REJECTED)
    return h


def outside_on_the_wire() -> History:
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.works("n1", 2)
    h.takes("n2", 12)
    h.works("n2", 13)
    h.works("n1", 14)
    h.works("n1", 21)
    return h


def stuck_on_the_wire() -> History:
    h = Wire()
    h.takes("n1", 1, on=IF_ABSENT)
    h.fault("n1", ns(2), "crash", "begin")
    for at in range(2, 60):
        h.looks("n2", at)
    return h


STORIES: dict[str, tuple[Callable[[], History], ...]] = {
    "S1": (fork,),
    "S2": (token_again,),
    "S3": (two_believe,),
    "S4": (stale_write, outside_on_the_wire),
    "S5": (early,),
    "S6": (foreign_release,),
    "S7": (false_grant, never_written, false_denial, own_grant_denied, false_release),
    "L1": (stuck, stuck_on_the_wire),
    "L2": (stuck,),
    "L3": (not_handed_on,),
    "L4": (told_too_late,),
    "L5": (never_returned,),
    "L6": (orphan,),
    "F1": (passed_over,),
    "F2": (passed_over,),
    "DL1": (overwritten_commit,),
    "DL2": (unacknowledged_twice,),
    "DL3": (gap_in_a_log,),
    "DL4": (overwritten_commit,),
    "DL5": (landed_error,),
}


def test_every_clause_has_a_story() -> None:
    """A clause that is added later must show here what it tells of its violations."""
    assert set(STORIES) == set(CLAUSES)


@pytest.mark.parametrize(
    ("clause", "story"), [(clause, story) for clause, stories in STORIES.items() for story in stories]
)
def test_every_row_has_client_time_request_and_key(clause: str, story: Callable[[], History]) -> None:
    """Rows of all kinds: calls, writes, effects, beliefs, entries, and what the store saw."""
    witness = broken(story(), clause)
    assert incomplete_rows(witness) == []
    block = told(clause, witness)
    assert f"key        {witness.get('lock') or witness['table']}" in block
    assert "request" in block or "names no request" in block


def broken(history: History, clause: str) -> dict[str, Any]:
    found = history.verdict(clause)
    assert found["verdict"] == "violated", found
    return dict(found["witness"])


def told(clause: str, witness: dict[str, Any]) -> str:
    failure = Failure(
        id="f", clause=clause, message=str(witness["text"]), run=0, witness=witness, replay="lockref replay f"
    )
    return failure_block(failure)


def test_a_wrong_write_on_the_wire_is_told_with_the_grants_that_forbid_it() -> None:
    """S4: all wrong writes are counted, the worst is shown, and the successor's grant; rightful ones are not."""
    witness = broken(outside_on_the_wire(), "S4")
    assert [(row["node"], row["is_guilty"]) for row in witness["effects"]] == [("n1", True), ("n1", True)]
    assert {row["key"] for row in witness["effects"]} == {OBJECT}
    assert (witness["guilty"], witness["size_ns"]) == (2, ns(21) - (ns(12) + 2))
    assert [(row["node"], row["state"]) for row in witness["writes"]] == [("n1", "live"), ("n2", "live")]
    assert "and 1 more such write; the worst came 8999999998 ns after its grant was over" in witness["text"]


def test_a_stale_write_is_told_with_the_write_that_came_before_it() -> None:
    """S4: what the clause compares: the rival's accepted write, and the wrong ones after it."""
    witness = broken(stale_write(), "S4")
    assert [(row["node"], row["is_guilty"]) for row in witness["effects"]] == [
        ("n2", False),
        ("n1", True),
        ("n1", True),
    ]
    assert witness["guilty"] == 2
    assert "\n  effect     n1  token 1  at 0.000 s  request 1  ← wrong" in told("S4", witness)


@pytest.mark.parametrize(("story", "clause"), [(foreign_release, "S6"), (early, "S5")])
def test_a_write_without_a_condition_is_called_so(story: Callable[[], History], clause: str) -> None:
    """S5, S6: the reader sees at once that no store could have refused it."""
    witness = broken(story(), clause)
    assert witness["text"].endswith(", without a condition")
    assert ", without a condition  request" in told(clause, witness)


def test_a_conditional_write_is_not_called_blind() -> None:
    """S5: n2 named what it replaced."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    h.granted("n2", call=3, applied=20, returned=21)
    assert "without a condition" not in json.dumps(broken(h, "S5"))


def test_what_the_operator_did_names_no_request() -> None:
    """A deletion by hand is no client's request, and its row says so."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, token=2)
    h.operator(Op.DELETE, 5)
    h.granted("n2", call=6, applied=7, returned=8, token=1, if_version=IF_ABSENT)
    witness = broken(h, "S2")
    assert [row.get("no_request") for row in witness["writes"]] == [None, "changed by hand, not by a request", None]
    assert "operator  deleted at 0.000 s  (changed by hand, not by a request)" in told("S2", witness)


def test_a_block_never_loses_how_to_see_it_again() -> None:
    """However many rows there are, the replay line is the last one."""
    row = {"node": "n1", "task": "", "key": LOCK, "at_ns": 1, "request": 1, "outcome": "applied"}
    witness = {"text": "t", "calls": [row] * 9, "effects": [row] * 9, "entries": [row] * 9, "store": [row] * 9}
    lines = told("S4", witness).split("\n")
    assert (len(lines), lines[-1].split()) == (LINES_MAX, ["replay", "lockref", "replay", "f"])


@pytest.mark.parametrize(("is_simulated", "zero"), [(True, 0), (False, 40)])
def test_times_count_from_the_plan_s_zero_or_from_the_first_event(is_simulated: bool, zero: int) -> None:
    """A scenario's `at: 10s` is what the reader of its failure calls 10 s; a host's clock means nothing to anybody."""
    h = History(is_simulated=is_simulated)
    h.released(h.granted("n1", call=40, applied=41, returned=42, token=2), call=43, applied=44)
    h.granted("n2", call=45, applied=46, returned=47, token=2)
    assert broken(h, "S2")["origin_ns"] == zero
    assert [found.begin_ns for found in summarised(h).findings if found.clause == "S2"] == [zero]
