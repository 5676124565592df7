"""Situations: what happened in a run is counted from its history, and what was demanded must have happened."""

from __future__ import annotations

import pytest

from lockref.words import Op, Outcome
from reports.checks import decide
from reports.checks.summary import Summary
from reports.checks.verdicts import Shortfall
from reports.formats.results import judged
from tests.histories import History, summarised, timed


def reached(h: History) -> dict[str, int]:
    return {row["situation"]: row["count"] for row in h.judged().reach.to_pylist() if row["count"]}


@pytest.mark.parametrize(("asks", "met"), [(1, 1), (4, 1), (6, 0)])
def test_unreadable_records_leave_calls_to_tell_of_contention(asks, met):
    """n1 is told of its grant at 3 and gives it back at 5; whoever asks in between, or waits then, met it."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=2, returned=3, owner=""), call=5, applied=6, returned=7)
    h.granted("n2", call=asks, applied=8, returned=9, owner="")
    situations = reached(h)
    assert situations.get("contention", 0) == met
    assert (situations["grant"], situations["release"]) == (2, 1)


def test_a_client_does_not_meet_itself():
    """Situations: one client that locks again while it is in, and a use of another lock, are no contention."""
    h = timed()
    h.granted("n1", call=0, applied=2, returned=3, owner="")
    h.granted("n1", call=4, applied=5, returned=6, owner="")
    assert "contention" not in reached(h)


def test_situations_are_counted_from_the_history():
    """Situations: one history with most of what may happen."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100, token=1)
    h.renewed(a, at=20)
    h.believes(a, 2, 150)
    h.fault("n1", 30, "pause", "begin", "p")
    h.fault("n1", 160, "pause", "end", "p")
    b = h.granted("n2", call=5, applied=130, returned=131, token=2)
    h.write("n1", Op.RENEW, sent=161, owner=a.owner, if_version=a.version, outcome=Outcome.PRECONDITION_FAILED)
    h.effect(b, at=140)
    h.effect(a, at=165, is_accepted=False)
    h.write("n2", Op.RELEASE, sent=170, owner=b.owner, reply=Outcome.AMBIGUOUS)
    h.fails("n3", call=132, returned=140)
    h.fault("", 180, "partition", "begin", "x")
    h.fault("n3", 181, "step", "begin", "y")
    h.fault("n3", 182, "crash", "begin", "z")
    assert reached(h) == {
        "grant": 2, "token": 2, "clients_served": 2, "handoff": 1,
        "denied": 1, "contention": 2, "renewal": 1, "release": 1, "takeover_after_expiry": 1,
        "renewal_race": 1, "lost_reply_release": 1, "paused_holder_resumed": 1, "late_write_attempted": 1,
        "rejected_write": 1, "effect": 1, "expired_while_believed": 1, "partition": 1, "clock_fault": 1, "crash": 1,
        "fault": 4, "fault:pause": 1, "fault:partition": 1, "fault:step": 1, "fault:crash": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("removed_at", "by", "op", "expected"),
    [
        (90, "n2", Op.DELETE, 0),
        (110, "n2", Op.DELETE, 1),
        (110, "n2", Op.RELEASE, 1),
        (110, "n1", Op.DELETE, 0),
        (110, "operator", Op.DELETE, 0),
    ],
)
def test_a_takeover_may_take_two_writes(removed_at, by, op, expected):
    """Situations: the lease ends at 101; a client that removes the record then, and creates its own, has taken over."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    call = h.call("n2", Op.ACQUIRE, 5)
    if by == "operator":
        h.operator(op, removed_at)
    else:
        h.write(by, op, sent=removed_at, owner=a.owner)
    made = h.write("n2", Op.ACQUIRE, sent=removed_at + 2, owner="owner-n2", valid_until=removed_at + 102)
    h.returns("n2", Op.ACQUIRE, removed_at + 3, call, Outcome.APPLIED, owner="owner-n2", version=made)
    assert reached(h).get("takeover_after_expiry", 0) == expected


def test_a_fault_that_changed_nothing_did_not_happen():
    """Situations: a run says how often each fault changed something; what only struck satisfies no demand."""
    h = timed(must_happen=["partition"], fault_effects={"x": 0, "y": 1, "z": 0})
    h.granted("n1", call=0, applied=1, returned=2)
    h.fault("", 10, "partition", "begin", "x")
    for at in (11, 12, 13):
        h.fault("n1", at, "lose_reply", "fired", "y")
    h.fault("n1", 14, "step", "begin", "z")
    # Nobody counted this one: it is taken to have changed something.
    h.fault("n1", 15, "crash", "begin", "unknown")
    counted = reached(h)
    assert {name: count for name, count in counted.items() if "grant" not in name and name != "clients_served"} == {
        "crash": 1, "fault": 2, "fault:crash": 1, "fault:lose_reply": 1,
        "idle:partition": 1, "idle:lose_reply": 2, "idle:step": 1,
    }  # fmt: skip
    counts = summarised(h)
    assert decide(counts).reasons == ("never happened: partition (partition struck 1×, which changed nothing)",)
    assert counts.notices == ["step struck 1×, which changed nothing"]


def test_a_demanded_situation_must_be_reached_by_some_run():
    """Situations: the batch counts, not the run; what no run reached makes it inconclusive, by name."""
    calm, contended = timed(must_happen=["denied"]), timed(must_happen=["denied"])
    calm.granted("n1", call=0, applied=1, returned=2)
    contended.granted("n1", call=0, applied=1, returned=2)
    contended.fails("n2", call=3, returned=4)
    alone = summarised(calm)
    assert alone.unreached == {("by hand", "by hand"): {"denied": Shortfall(found=0, least=1)}}
    assert decide(alone).safety == "inconclusive"
    assert decide(summarised(calm, contended)).safety == "held"


def test_one_locks_experience_is_no_other_locks_evidence():
    """Situations: what a scenario demands must happen under each provider, however the batches come."""
    contended, calm = timed(must_happen=["denied"]), timed(must_happen=["denied"], provider="another")
    contended.granted("n1", call=0, applied=1, returned=2)
    contended.fails("n2", call=3, returned=4)
    calm.granted("n1", call=0, applied=1, returned=2)
    silent = timed(scenario="a third")
    verdicts = decide(summarised(contended, calm, silent))
    assert verdicts.reasons == (
        "no client was ever granted the lock in a third with by hand",
        "never happened in by hand with another: denied",
    )
    assert verdicts.safety == "inconclusive"
    apart = Summary()
    for history in (silent, calm, contended):
        apart.add(summarised(history))
    assert decide(apart) == verdicts


def test_a_batch_without_any_grant_proves_nothing():
    """Situations: nothing demanded, nothing granted."""
    verdicts = decide(summarised(History()))
    assert (verdicts.safety, verdicts.reasons) == ("inconclusive", ("no client was ever granted the lock",))


def test_whoever_asks_for_tokens_and_is_given_none_shows_nothing():
    """Situations: a lock without tokens is told so in plain words; one that gives them is judged."""
    reasons = ("the lock gave no fencing token, and the scenario needs one",)
    for token, expected in ((None, ("inconclusive", reasons)), (7, ("held", ()))):
        h = timed(must_happen=["token"])
        h.granted("n1", call=0, applied=1, returned=2, token=token)
        verdicts = decide(summarised(h))
        assert (verdicts.safety, verdicts.reasons) == expected


def test_what_is_in_force_is_not_late_and_an_operators_hand_loses_no_reply():
    """Situations: a write under a grant that never ended is in time; nobody waits for an answer to the operator."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.effect(a, at=3)
    assert "late_write_attempted" not in reached(h)
    h.operator(Op.DELETE, at=5)
    assert not {name for name in reached(h) if name.startswith(("late_write", "lost_reply"))}


@pytest.mark.parametrize(("begin", "end", "count"), [(5, 20, 1), (12, 20, 0), (5, None, 0)])
def test_a_paused_holder_resumed_if_it_held_and_ran_on(begin, end, count):
    """Situations: the pause began while the tenure believed, and ended."""
    h = timed()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 9, lost=10)
    h.fault("n1", begin, "pause", "begin")
    if end is not None:
        h.fault("n1", end, "pause", "end")
    assert reached(h).get("paused_holder_resumed", 0) == count


def test_a_suspend_is_a_disturbed_clock():
    """Situations: a machine that slept had its clock stand still."""
    h = timed()
    h.fault("n1", 5, "suspend", "begin")
    assert reached(h)["clock_fault"] == 1


def test_grants_of_an_unread_lock_are_counted_by_its_answers():
    """Situations: where records cannot be read, a granted call is a grant; the batch proves something."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, owner="")
    assert reached(h)["grant"] == 1


def test_losses_at_work_and_failed_calls_are_counted_and_told():
    """A loss before the unlock counts, a guard that is not asked before the unlock does not; nor does a denial."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.believes(a, 2, 50, lost=60)
    h.released(a, call=61, applied=62)
    b = h.granted("n2", call=63, applied=64, returned=65)
    h.believes(b, 65, 66)
    h.fails("n3", call=67, returned=68)
    h.fails("n3", call=70, returned=71, outcome=Outcome.REJECTED)
    found = reached(h)
    assert (found["lost_at_work"], found["failed_call"], found["denied"]) == (1, 1, 1)
    told = judged(summarised(h), title="", classes={}, events=0).notices
    assert "1 tenure lost while the holder worked, in 1 run" in told
    assert "1 acquire ended in an error, in 1 run" in told


def test_a_refused_second_entry_is_no_failed_call():
    """A lock that is not re-entrant says no to its own holder, as it may."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.fails("n1", call=3, returned=4, outcome=Outcome.REJECTED)
    h.released(a, call=5, applied=6)
    assert "failed_call" not in reached(h)
