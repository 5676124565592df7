"""S2, S5, S6 and S7: what the chain says about tokens, takeovers, ownership and answers, each from both sides."""

from __future__ import annotations

import dataclasses

import pytest

from lockref.words import Op, Outcome
from reports.checks import judge
from tests.histories import TIMING, Held, History, tables, verdict
from tests.service_histories import Service

SECOND = 1_000_000_000


# S2: tokens.


def test_rising_tokens_hold():
    """S2: 1, 2, 5 is strictly rising; gaps are no matter."""
    h = History()
    for at, token in ((1, 1), (200, 2), (400, 5)):
        h.granted(f"n{token}", call=at, applied=at, returned=at + 1, token=token)
    assert h.verdict("S2")["verdict"] == "held"


@pytest.mark.parametrize("second", [1, 2])
def test_a_token_that_comes_again_or_falls_is_a_regression(second):
    """S2, M5: a token restarted after release, equal or smaller."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=2)
    h.released(a, call=3, applied=4)
    h.granted("n2", call=5, applied=6, returned=7, token=second)
    found = h.verdict("S2")
    assert (found["verdict"], found["at_ns"]) == ("violated", 6)
    assert f"token {second} was given after token 2" in found["witness"]["text"]


def test_a_token_below_the_highest_but_above_the_last_is_a_regression():
    """S2: 5, 1, 3: the third is below the first although above the second."""
    h = History()
    for at, token in ((1, 5), (200, 1), (400, 3)):
        h.granted(f"n{token}", call=at, applied=at, returned=at + 1, token=token)
    assert h.verdict("S2")["count"] == 2


def test_tokens_count_across_deletion():
    """S2, M15: deleting the object does not excuse a token that starts over."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=4)
    h.write(a.node, Op.DELETE, sent=3)
    h.granted("n2", call=5, applied=6, returned=7, token=1)
    assert h.verdict("S2")["verdict"] == "violated"


def test_a_lock_without_tokens_is_not_judged_on_them():
    """S2 does not apply to a lock that gives none."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    found = h.verdict("S2")
    assert found["verdict"] == "not_applicable"
    assert "no tokens" in found["witness"]["reason"]


def test_a_run_of_a_legal_renewal_keeps_its_token():
    """S2: a renewal is no new grant, so its equal token is right."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=4)
    h.renewed(a, at=50)
    assert h.verdict("S2")["verdict"] == "held"


# S2: tokens that a call returned, and that no record shows.


def handed_out(
    *turns: tuple[str, int, int, int], unlocked: tuple[int, ...] = (), outcome: Outcome = Outcome.APPLIED
) -> Service:
    """A lock that shows its calls alone. turns: node, call, return, token. unlocked: which of them are given back."""
    h = Service("calls")
    for place, (node, call, returned, token) in enumerate(turns):
        held = h.acquires(node, call, returned, token=token)
        if place in unlocked:
            h.releases(held, returned + 1, returned + 2, outcome=outcome)
    return h


def test_returned_tokens_that_rise_hold_where_no_record_can_be_read():
    """S2 is judged of a lock that shows its calls alone, if its calls return tokens."""
    assert handed_out(("n1", 0, 1, 5), ("n2", 10, 11, 6), ("n1", 20, 21, 9)).verdict("S2")["verdict"] == "held"


@pytest.mark.parametrize("second", [1, 2])
def test_a_returned_token_that_comes_again_or_falls_is_a_regression(second):
    """S2: the number that fences is the one in the holder's hands, whatever the record keeps to itself."""
    h = handed_out(("n1", 0, 1, 2), ("n2", 10, 11, second), ("n3", 20, 21, 3), unlocked=(0, 1))
    found = h.verdict("S2")
    assert (found["verdict"], found["count"], found["at_ns"]) == ("violated", 1, 11)
    assert found["witness"]["text"] == f"token {second} was handed out after token 2"
    calls = found["witness"]["calls"]
    assert [(call["node"], call["token"]) for call in calls] == [("n1", 2), ("n2", second)]
    # Rows of calls have the same parts in every clause; these lacked what the call was and what it was answered.
    assert [(call["op"], call["outcome"], call["interval_ns"]) for call in calls] == [
        ("acquire", "granted", [0, 1]),
        ("acquire", "granted", [10, 11]),
    ]


def test_a_returned_token_is_compared_with_the_highest_before_it():
    """S2: 5, 1, 3: the third is below the first although above the second."""
    h = handed_out(("n1", 0, 1, 5), ("n2", 10, 11, 1), ("n3", 20, 21, 3))
    assert h.verdict("S2")["count"] == 2


def test_a_late_answer_is_no_later_grant():
    """S2: n1's grant came first and its answer last. The two calls overlap, so their order is not known."""
    assert handed_out(("n1", 0, 30, 1), ("n2", 10, 11, 2)).verdict("S2")["verdict"] == "held"


@pytest.mark.parametrize(
    ("unlocked", "outcome", "expected"),
    [
        ((), Outcome.APPLIED, "held"),
        ((0,), Outcome.AMBIGUOUS, "held"),
        ((0,), Outcome.APPLIED, "violated"),
    ],
)
def test_a_client_may_be_told_its_token_again_until_it_gave_it_back(unlocked, outcome, expected):
    """S2: to enter again what one holds is no new grant. After an unlock that reported success it is one."""
    h = handed_out(("n1", 0, 1, 4), ("n1", 10, 11, 4), unlocked=unlocked, outcome=outcome)
    assert h.verdict("S2")["verdict"] == expected


@pytest.mark.parametrize("called", [0, 10])
def test_nobody_else_may_be_told_the_same_token(called):
    """S2: that n1 still has its grant gives n2 no right to its number, whichever call came first."""
    assert handed_out(("n1", 0, 5, 4), ("n2", called, 11, 4)).verdict("S2")["verdict"] == "violated"


def test_two_tasks_of_a_process_that_enter_together_share_a_token():
    """S2: the second one called before the first was told, so it may have entered what the first was granted."""
    h = Service("calls")
    h.acquires("n1", 0, 5, token=4)
    h.acquires("n1", 1, 6, token=4, task="second")
    assert h.verdict("S2")["verdict"] == "held"


def test_the_chain_orders_calls_that_overlap():
    """S2: n2 called before n1 was told, so only the records tell that its grant is the later one."""
    h = History()
    for node, applied, returned, token in (("n1", 3, 10, 2), ("n2", 210, 211, 1)):
        request = h.call(node, Op.ACQUIRE, 0)
        h.write(node, Op.ACQUIRE, sent=applied, replied=returned, owner=node, valid_until=applied + 100)
        h.returns(node, Op.ACQUIRE, returned, request, Outcome.APPLIED, owner=node, token=token)
    found = h.verdict("S2")
    assert (found["verdict"], found["count"], found["at_ns"]) == ("violated", 1, 211)


def test_each_lock_counts_its_own_returned_tokens():
    """S2: what another lock handed out is no matter, nor what the same lock did in another run."""
    first, second = handed_out(("n1", 0, 1, 7)), handed_out(("n1", 0, 1, 3))
    second.run["lock_protocols"]["other"] = "calls"
    second.lock = "other"
    second.acquires("n2", 10, 11, token=1)
    judgement = judge(*tables(first, second))
    assert [verdict(judgement, "S2", run)["verdict"] for run in (0, 1)] == ["held", "held"]


# S5: takeovers.


@pytest.mark.parametrize(("taken_at", "expected"), [(100, "violated"), (101, "held"), (150, "held")])
def test_a_grant_may_be_replaced_from_the_end_of_its_validity_on(taken_at, expected):
    """S5: sent at 1 with 100 to go, so 101 is the first allowed instant."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=taken_at, returned=taken_at + 1)
    assert h.verdict("S5")["verdict"] == expected


def test_a_renewal_moves_the_end_of_validity():
    """S5: the last renewal's promise counts."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.renewed(a, at=90, valid_for=100)
    h.granted("n2", call=0, applied=150, returned=151)
    assert h.verdict("S5")["verdict"] == "violated"


def test_a_released_grant_may_be_followed_at_once():
    """S5 speaks of unreleased grants only."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.released(a, call=3, applied=4)
    h.granted("n2", call=0, applied=5, returned=6)
    assert h.verdict("S5")["verdict"] == "held"


@pytest.mark.parametrize(
    ("successor", "crashed", "crashed_at", "expected"),
    [
        ("n1", "n1", 20, "held"),
        ("n2", "n1", 20, "violated"),
        ("n1", "n2", 20, "violated"),
        ("n1", "n1", 0, "violated"),
        ("n1", "n1", 60, "violated"),
    ],
)
def test_the_next_process_of_a_client_that_crashed_may_take_its_grant_back(successor, crashed, crashed_at, expected):
    """S5, T9: the dead process does nothing more; an earlier or a later crash is no reason."""
    h = History()
    h.granted("n1", call=1, applied=2, returned=3, valid_for=100)
    h.fault(crashed, crashed_at, "crash", "begin")
    h.granted(successor, call=30, applied=31, returned=32, owner="next")
    assert h.verdict("S5")["verdict"] == expected


@pytest.mark.parametrize(("ahead", "expected"), [(10, "held"), (11, "violated")])
def test_a_new_holder_whose_clock_is_ahead_within_the_bound_is_excused(ahead, expected):
    """S5, U12: early by the declared clock bound is inside the envelope, by more is not."""
    h = History(run={"drift_bound_ns": 10}, wall_ahead={"n2": ahead})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=101 - ahead, returned=150)
    assert h.verdict("S5")["verdict"] == expected


@pytest.mark.parametrize("removes_by", [Op.DELETE, Op.RELEASE])
@pytest.mark.parametrize(
    ("removed_at", "condition", "expected"), [(50, None, "violated"), (102, None, "held"), (50, "", "held")]
)
def test_who_removes_a_record_on_condition_to_take_its_lock_has_replaced_it(
    removes_by, removed_at, condition, expected
):
    """S5: in two writes of one acquire. Without a condition nobody had read the record: that is S6."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    call = h.call("n2", Op.ACQUIRE, 40)
    h.write("n2", removes_by, sent=removed_at, owner="owner-n1", if_version=condition)
    made = h.write("n2", Op.ACQUIRE, sent=removed_at + 2, owner="owner-n2", valid_until=removed_at + 102)
    h.returns("n2", Op.ACQUIRE, removed_at + 3, call, Outcome.APPLIED, owner="owner-n2", version=made)
    assert h.verdict("S5")["verdict"] == expected
    assert h.verdict("S6")["verdict"] == ("violated" if condition == "" else "held")


def test_a_rival_under_the_name_of_the_holder_is_a_rival():
    """S5, D1: where all clients write one name, the node tells them apart."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100, owner="all")
    h.granted("n2", call=40, applied=50, returned=51, valid_for=100, owner="all")
    assert h.verdict("S5")["verdict"] == "violated"


def test_who_removes_its_own_record_to_write_it_anew_takes_nothing_over():
    """S5: its owner may replace it any time. A deletion names no owner."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    call = h.call("n1", Op.ACQUIRE, 40)
    h.write("n1", Op.DELETE, sent=50)
    made = h.write("n1", Op.ACQUIRE, sent=52, owner="owner-n1", valid_until=152)
    h.returns("n1", Op.ACQUIRE, 53, call, Outcome.APPLIED, owner="owner-n1", version=made)
    assert h.verdict("S5")["verdict"] == "held"


def test_a_takeover_took_effect_as_late_as_it_can_have():
    """S5: on a real server it is known to lie between the sending and the answer, and only the latter is too late."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=90, sent=95, applied=95, returned=150)
    assert h.verdict("S5")["verdict"] == "held"


def test_who_takes_over_after_a_writer_that_nobody_recorded_is_not_early():
    """S5: that writer may have given the grant back. Its version is named, and no write on record made it."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=40, applied=50, returned=51, if_version="unseen")
    assert h.verdict("S5")["verdict"] != "violated"


def test_a_new_holder_that_knew_better_has_no_excuse():
    """S5, M6: by its own clock the validity was not over; the clock bound explains nothing then."""
    h = History(run={"drift_bound_ns": 10})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=95, returned=96)
    assert h.verdict("S5")["verdict"] == "violated"


def test_the_stamp_is_read_on_the_holders_clock():
    """S5: a holder whose wall is far off still promised its span from when it sent it."""
    h = History(wall_ahead={"n1": 1000, "n2": 1000})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=102, returned=103)
    assert h.verdict("S5")["verdict"] == "held"


def test_a_rate_error_stretches_the_allowance():
    """S5: clocks that may run 1 % apart cannot agree on the last hundredths of a validity."""
    h = History(run={"rate_error_ppm": 10_000})
    h.granted("n1", call=0, applied=0, returned=2, valid_for=1000)
    h.granted("n2", call=0, applied=980, returned=981)
    assert h.verdict("S5")["verdict"] == "held"


def test_a_record_without_time_promises_what_its_lock_declares():
    """S5, S7, L4: a lock that declares a lease is good for the run's validity; any other record promises no end."""

    def story(claims: list[str]) -> History:
        h = History(run={**TIMING, "claims": claims})
        a = h.granted("n1", call=0, applied=1, returned=2, valid_for=None)
        h.believes(a, 2, 300)
        h.fails("n3", call=200, returned=210)
        return h

    early = story(["lease"])
    early.granted("n2", call=40, applied=50, returned=51, valid_for=None)
    assert early.verdict("S5")["verdict"] == "violated"
    assert story(["lease"]).verdict("S7")["verdict"] == "violated"
    assert story(["lease"]).verdict("L4")["verdict"] == "violated"
    for claims in ([], ["no-lease"]):
        assert story(claims).verdict("S7")["verdict"] == "held"
        assert "no grant has an end" in story(claims).verdict("L4")["witness"]["reason"]


def test_a_dead_holder_without_a_lease_is_told_unless_its_lock_declares_that():
    """L1, L2: a record without an end keeps everybody out, and no lock but one that says so is let off."""

    def story(claims: list[str], *, dies: bool) -> History:
        h = History(run={**TIMING, "claims": claims, "end_ns": 900})
        h.granted("n1", call=0, applied=1, returned=2, valid_for=None)
        if dies:
            h.fault("n1", 20, "crash", "begin")
        h.fails("n2", call=30, returned=430)
        return h

    for clause in ("L1", "L2"):
        assert story([], dies=True).verdict(clause)["verdict"] == "violated"
        assert story(["no-lease"], dies=True).verdict(clause)["verdict"] != "violated"
        assert story([], dies=False).verdict(clause)["verdict"] != "violated"


# S6: ownership.


def test_an_unconditional_release_that_hits_a_successor_is_foreign():
    """S6, M4: n1's late release lands on n2's grant."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1, valid_for=10)
    h.granted("n2", call=0, applied=20, returned=21, token=2)
    h.released(a, call=22, applied=23, if_version="")
    found = h.verdict("S6")
    assert (found["verdict"], found["witness"]["kind"]) == ("violated", "released by another")


def test_an_unconditional_delete_that_hits_a_successor_is_foreign():
    """S6: the same by deletion."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=10)
    h.granted("n2", call=0, applied=20, returned=21)
    h.write("n1", Op.DELETE, sent=22, if_version="")
    assert h.verdict("S6")["witness"]["kind"] == "deleted by another"


def test_owners_may_release_and_delete():
    """S6: the other side: one's own grant is one's own."""
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2, token=1), call=3, applied=4, if_version="")
    b = h.granted("n2", call=5, applied=6, returned=7, token=2)
    h.write(b.node, Op.DELETE, sent=8, if_version="")
    assert h.verdict("S6")["verdict"] == "held"


@pytest.mark.parametrize(
    ("at", "condition", "expected"), [(200, None, "held"), (50, None, "violated"), (200, "", "violated")]
)
def test_retiring_a_rivals_record_is_legal_once_it_has_lapsed(at, condition, expected):
    """S6: a conditional release over an expired record is a takeover of a kind; early or blind it is not."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.write("n2", Op.RELEASE, sent=at, owner="owner-n2", if_version=condition)
    assert h.verdict("S6")["verdict"] == expected


def test_the_operator_is_bound_by_no_clause():
    """S6: who deletes by hand is a disturbance, not a client."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    h.operator(Op.DELETE, 3)
    h.granted("n2", call=4, applied=5, returned=6)
    h.operator(Op.WRITE, 7)
    for clause in ("S5", "S6"):
        assert h.verdict(clause)["verdict"] == "held"


@pytest.mark.parametrize("token", [None, 1])
def test_a_release_may_leave_owner_and_token_out(token):
    """S6: a record that says no more than "free" is its holder's own release, with a condition or without one."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, token=token)
    request = h.call("n1", Op.RELEASE, 3)
    h.write("n1", Op.RELEASE, sent=3, applied=4, if_version="")
    h.returns("n1", Op.RELEASE, 5, request, Outcome.APPLIED)
    assert h.verdict("S6")["verdict"] == "held"


@pytest.mark.parametrize(("owner", "expected"), [("nobody", "held"), ("owner-earlier", "violated")])
def test_a_release_that_names_nobody_is_no_release_of_another_grant(owner, expected):
    """S6: without a condition. Only the name of an earlier grant of the node tells that the release came late."""
    h = History()
    earlier = h.granted("n1", call=0, applied=1, returned=2, owner="owner-earlier")
    h.released(earlier, call=3, applied=4, returned=5)
    h.granted("n1", call=6, applied=7, returned=8, owner="owner-now")
    request = h.call("n1", Op.RELEASE, 9)
    h.write("n1", Op.RELEASE, sent=9, applied=10, owner=owner, if_version="")
    h.returns("n1", Op.RELEASE, 11, request, Outcome.APPLIED)
    assert h.verdict("S6")["verdict"] == expected


def test_what_was_overwritten_by_hand_and_comes_back_is_no_revival():
    """S6: nobody knows what the hand has written, so the grant need not have ended."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.operator(Op.RELEASE, 3, owner="somebody")
    h.renewed(a, at=5)
    assert h.verdict("S6")["verdict"] == "held"


def test_a_release_behind_a_hole_in_the_record_is_nobodys_fault():
    """S6: a writer that is not on record may have replaced the grant; the run is inconclusive."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.write("n2", Op.RELEASE, sent=4, replied=5, owner="owner-n2", token=2, if_version="made by a stranger")
    assert h.verdict("S6")["verdict"] == "inconclusive"


def test_a_call_that_failed_may_have_made_its_own_name_stand_again():
    """S6: without tokens. The call asked for the lock, its write landed, and it was told of an error."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4, returned=5)
    request = h.call("n1", Op.ACQUIRE, 6)
    h.write("n1", Op.ACQUIRE, sent=7, applied=8, owner=a.owner, valid_until=107, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 9, request, Outcome.AMBIGUOUS)
    assert h.verdict("S6")["verdict"] == "held"


@pytest.mark.parametrize(("token", "expected"), [(None, "not_applicable"), (1, "inconclusive")])
def test_a_hole_hides_no_order_of_tokens_of_a_lock_that_has_none(token, expected):
    """S2: there is nothing to compare, whatever the record hides."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2, token=token)
    h.write("n2", Op.RELEASE, sent=4, replied=5, owner="owner-n2", token=token, if_version="made by a stranger")
    assert h.verdict("S2")["verdict"] == expected


@pytest.mark.parametrize(("token", "expected"), [(None, "not_applicable"), (1, "held")])
def test_a_scenario_about_tokens_asks_each_lock_that_has_them(token, expected):
    """S4: it proves nothing of a lock without tokens, and something of every other one."""
    h = History(run={"must_happen": ["token"]})
    a = h.granted("n1", call=0, applied=1, returned=2, token=token)
    h.believes(a, 2, 4)
    h.effect(a, at=3)
    assert h.verdict("S4")["verdict"] == expected


def test_a_deleted_grant_that_its_heartbeat_creates_anew_is_revived():
    """S6, H15: who deleted it makes no difference; the grant had ended."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.operator(Op.DELETE, 3)
    h.renewed(a, at=5)
    assert h.verdict("S6")["witness"]["kind"] == "revived"


@pytest.mark.parametrize(("task", "expected"), [("main", "held"), ("second", "violated")])
def test_an_unlock_by_a_task_that_holds_nothing_breaks_the_grant(task, expected):
    """S6, H9: two tasks share one lock; only the one that was granted may give it back."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    request = h.call("n1", Op.RELEASE, 4, task=task)
    h.write("n1", Op.RELEASE, sent=5, owner=a.owner, task=task)
    h.returns("n1", Op.RELEASE, 6, request, Outcome.APPLIED, task=task)
    assert h.verdict("S6")["verdict"] == expected


@pytest.mark.parametrize(("outcome", "expected"), [(Outcome.NONE, "held"), (Outcome.AMBIGUOUS, "violated")])
def test_a_close_by_a_task_that_holds_nothing_is_no_unlock(outcome, expected):
    """S6, U16: a close ends the lock for all tasks and may give back what is held; an unlock without an answer may not.

    A holder that goes on believing is S3's business.
    """
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    request = h.call("n1", Op.RELEASE, 4, task="second")
    h.write("n1", Op.RELEASE, sent=5, owner=a.owner, task="second")
    h.returns("n1", Op.RELEASE, 6, request, outcome, task="second")
    assert h.verdict("S6")["verdict"] == expected


def test_a_client_that_writes_rubbish_over_a_grant_breaks_it():
    """S6: something that is no lock record, written by a client."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.WRITE, sent=3)
    assert h.verdict("S6")["witness"]["kind"] == "overwrote by another"


def test_a_heartbeat_after_release_revives_the_grant():
    """S6, M8: a live record of an ended grant, sent while nobody asked for the lock."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.released(a, call=3, applied=4, returned=5)
    h.renewed(a, at=10)
    found = h.verdict("S6")
    assert (found["verdict"], found["witness"]["kind"]) == ("violated", "revived")
    assert h.verdict("S2")["verdict"] == "held"


def test_acquiring_again_under_the_same_name_is_no_revival():
    """S6: a client without tokens may own the lock again, when it asked for it."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4, returned=5)
    h.granted("n1", call=6, applied=7, returned=8)
    assert h.verdict("S6")["verdict"] == "held"


def test_renewing_an_expired_record_that_nobody_replaced_is_legal():
    """S6: compare-and-swap proves that nothing happened in between (E7)."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=10)
    h.renewed(a, at=50)
    assert h.verdict("S6")["verdict"] == "held"


def test_a_clone_renewing_under_the_same_name_is_foreign():
    """S6, E33: two processes of one identity."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2, owner="same", token=1)
    h.write("n2", Op.RENEW, sent=5, owner="same", token=1, valid_until=200)
    assert h.verdict("S6")["witness"]["kind"] == "renewed by another"


def test_a_waiter_that_writes_its_name_beside_the_owners_renews_nothing():
    """S6: the record still promises the same instant, as where a lock's waiters ask for it in its own record."""
    h = History()
    h.granted("n1", call=0, sent=1, applied=2, returned=3, owner="same", token=1, valid_for=100)
    h.write("n2", Op.RENEW, sent=5, owner="same", token=1, valid_until=101)
    assert h.verdict("S6")["verdict"] == "held"


def test_a_clone_whose_records_tell_no_time_is_foreign():
    """S6, E33: that nothing is promised twice is no promise kept."""
    h = History()
    h.write("n1", Op.ACQUIRE, sent=1, applied=2, owner="same", token=1)
    h.write("n2", Op.RENEW, sent=5, owner="same", token=1)
    assert h.verdict("S6")["witness"]["kind"] == "renewed by another"


# S7: honest answers.


def test_a_grant_that_was_over_before_the_call_is_a_false_one():
    """S7, U4: the provider remembers a lock that it had already given back."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4, outcome=Outcome.AMBIGUOUS)
    request = h.call("n1", Op.ACQUIRE, 10)
    h.returns("n1", Op.ACQUIRE, 11, request, Outcome.APPLIED, owner=a.owner)
    found = h.verdict("S7")
    assert (found["verdict"], found["witness"]["kind"]) == ("violated", "false grant")


def test_a_grant_that_ended_during_the_call_was_honest():
    """S7: in force at some instant of the call is enough, ends included."""
    h = History()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, applied=2, owner="o1", valid_until=3)
    h.granted("n2", call=0, applied=5, returned=6)
    h.returns("n1", Op.ACQUIRE, 9, request, Outcome.APPLIED, owner="o1")
    assert h.verdict("S7")["verdict"] == "held"


def test_a_success_without_any_write_is_a_false_grant():
    """S7: a timeout taken as success."""
    h = History()
    h.released(h.granted("n2", call=0, applied=1, returned=2), call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 10)
    h.returns("n1", Op.ACQUIRE, 11, request, Outcome.APPLIED, owner="o1")
    assert h.verdict("S7")["witness"]["kind"] == "false grant"


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(4, 9, "held"), (5, 9, "violated"), (0, 1, "held"), (0, 0, "violated")]
)
def test_a_denial_needs_anothers_grant_at_some_instant_of_the_call(begin, end, expected):
    """S7: n2 held on the closed interval [1, 4]."""
    h = History()
    h.released(h.granted("n2", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n1", call=begin, returned=end)
    assert h.verdict("S7")["verdict"] == expected


def test_a_denial_may_touch_anothers_grant():
    """S7: closed intervals: n2's grant began at the instant at which n1's call returned."""
    h = History(wall_ahead={"n1": 10_000})
    h.released(h.granted("n2", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n1", call=0, returned=1)
    assert h.verdict("S7")["verdict"] == "held"


@pytest.mark.parametrize(("call", "expected"), [(121, "held"), (122, "violated")])
def test_a_lapsed_record_may_deny_as_long_as_clocks_may_disagree(call, expected):
    """S7: validity until 101, a clock bound of 10 on either side: honest to 121."""
    h = History(run={"drift_bound_ns": 10})
    h.granted("n2", call=0, applied=1, returned=2, valid_for=100)
    h.fails("n1", call=call, returned=call + 5)
    assert h.verdict("S7")["verdict"] == ("held" if expected == "held" else "violated")


def test_a_contender_whose_clock_is_far_behind_is_late_not_dishonest():
    """S7, E4: by its own clock the record was still valid when it asked."""
    h = History(run={"drift_bound_ns": 10}, wall_ahead={"n1": -500})
    h.granted("n2", call=0, applied=1, returned=2, valid_for=100)
    h.fails("n1", call=300, returned=305)
    assert h.verdict("S7")["verdict"] == "held"


def test_ones_own_orphan_is_nobody_elses_grant():
    """S7, D3: denied by one's own write, whose answer was lost."""
    h = History()
    h.fails("n1", call=0, returned=9)
    h.write("n1", Op.ACQUIRE, sent=2, owner="o1", valid_until=100, reply=Outcome.AMBIGUOUS)
    found = h.verdict("S7")
    assert found["count"] == 2
    assert found["witness"]["kind"] in ("false denial", "own grant denied")


def test_a_denial_that_leaves_an_own_grant_is_dishonest_though_others_held_before():
    """S7: n2 held at the beginning, yet the call ended with a grant of its own and said no."""
    h = History()
    h.released(h.granted("n2", call=0, applied=1, returned=2), call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 2)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", valid_until=100, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 9, request, Outcome.PRECONDITION_FAILED)
    found = h.verdict("S7")
    assert (found["count"], found["witness"]["kind"]) == (1, "own grant denied")


def test_raising_is_honest_whatever_happened():
    """S7: an unknown outcome that is called unknown."""
    h = History()
    h.fails("n1", call=0, returned=9, outcome=Outcome.AMBIGUOUS)
    h.write("n1", Op.ACQUIRE, sent=2, owner="o1", valid_until=100, reply=Outcome.AMBIGUOUS)
    assert h.verdict("S7")["verdict"] == "held"


def test_another_task_of_the_process_counts_as_another():
    """S7, H9: a thread is denied because its sibling holds."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    h.fails("n1", call=3, returned=4, task="other")
    assert h.verdict("S7")["verdict"] == "held"


def test_a_lost_race_is_an_honest_denial():
    """S7: refused because another's write came first, even if that write was no grant (E30)."""
    h = History()
    h.write("n2", Op.RELEASE, sent=1, owner="o2")
    old = h.version
    request = h.call("n1", Op.ACQUIRE, 5)
    h.write("n2", Op.RELEASE, sent=6, owner="o2")
    h.write("n1", Op.ACQUIRE, sent=7, owner="o1", if_version=old, outcome=Outcome.PRECONDITION_FAILED)
    h.returns("n1", Op.ACQUIRE, 8, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["verdict"] == "held"


def test_a_stale_read_excuses_a_denial():
    """S7: the store showed a grant that was gone; the lock said what it was told."""
    h = History()
    b = h.granted("n2", call=0, applied=1, returned=2)
    h.released(b, call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 10)
    h.read("n1", 12, version=b.version, owner=b.owner, sent=11)
    h.returns("n1", Op.ACQUIRE, 13, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["verdict"] == "held"


def test_a_fresh_read_of_a_released_record_excuses_nothing():
    """S7: the other side of the stale read."""
    h = History()
    b = h.granted("n2", call=0, applied=1, returned=2)
    h.released(b, call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 10)
    h.read("n1", 12, version=h.version, owner=b.owner, sent=11)
    h.returns("n1", Op.ACQUIRE, 13, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["verdict"] == "violated"


def test_a_release_that_did_not_happen_is_a_false_one():
    """S7: unlock returned, the record still names the owner."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, returned=4)
    assert h.verdict("S7")["witness"]["kind"] == "false release"


def test_a_release_after_replacement_may_be_quiet():
    """S7, E16: there is nothing left to give back."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=10)
    h.granted("n2", call=0, applied=20, returned=21)
    h.released(a, call=30, returned=31)
    assert h.verdict("S7")["verdict"] == "held"


def test_a_nested_release_keeps_the_lock():
    """S7, H9: a re-entrant lock is given back by its last unlock only."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    inner = h.call("n1", Op.ACQUIRE, 3)
    h.returns("n1", Op.ACQUIRE, 4, inner, Outcome.APPLIED, owner=a.owner)
    h.released(a, call=5, returned=6)
    assert h.verdict("S7")["verdict"] == "held"
    h.released(a, call=7, returned=8)
    assert h.verdict("S7")["verdict"] == "violated"


def _re_entered(h: History, held: Held, *, call: int) -> Held:
    """The same client is granted the lock again at once, by the grant that it has."""
    request = h.call(held.node, Op.ACQUIRE, call, task=held.task)
    h.returns(held.node, Op.ACQUIRE, call + 1, request, Outcome.APPLIED, task=held.task, owner=held.owner,
              token=held.token)  # fmt: skip
    return dataclasses.replace(held, request=request)


@pytest.mark.parametrize(("lapsed", "entries"), [(0, 1), (1, 1), (3, 1), (1, 2)])
def test_a_grant_that_lapsed_excuses_no_false_release_of_the_next(lapsed, entries):
    """S7: entries are counted per grant; an earlier one of the same client that nobody unlocked is not open still."""
    h = History()
    for turn in range(lapsed):
        h.granted("n1", call=100 * turn, applied=100 * turn + 1, returned=100 * turn + 2, valid_for=10, token=turn)
    a = h.granted("n1", call=900, applied=901, returned=902, token=9)
    for entry in range(1, entries):
        _re_entered(h, a, call=900 + 3 * entry)
    for unlock in range(entries):
        h.released(a, call=920 + 2 * unlock, returned=921 + 2 * unlock)
    assert h.verdict("S7")["witness"]["kind"] == "false release"


def test_as_many_unlocks_as_locks_are_needed_and_no_more():
    """S7: three entries, two inner unlocks; the third must end the grant. Another task's entries do not count."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    _re_entered(h, a, call=3)
    third = _re_entered(h, a, call=5)
    _re_entered(h, dataclasses.replace(a, task="second"), call=7)
    h.released(third, call=10, returned=11)
    h.released(third, call=12, returned=13)
    assert h.verdict("S7")["verdict"] == "held"
    h.released(third, call=14, returned=15)
    assert h.verdict("S7")["count"] == 1


@pytest.mark.parametrize(
    ("first", "expected"), [(Outcome.AMBIGUOUS, "violated"), (Outcome.APPLIED, "violated"), (Outcome.REJECTED, "held")]
)
def test_an_unlock_that_was_refused_has_left_nothing(first, expected):
    """S7: after two entries, an unlock that may have landed counts as one, so the next must end the grant."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    _re_entered(h, a, call=3)
    h.released(a, call=5, returned=6, outcome=first)
    h.released(a, call=7, returned=8)
    assert h.verdict("S7")["verdict"] == expected


def test_an_inner_unlock_does_not_end_what_its_client_still_wants():
    """L1: while the outer entry is open others wait rightly, however long it is renewed."""
    timing = {"validity_ns": 100, "poll_interval_ns": 10, "request_timeout_ns": 5, "faults_end_ns": 0}
    for unlocks, expected in ((1, "held"), (2, "violated")):
        h = History(run=timing)
        a = h.granted("n1", call=0, applied=1, returned=2)
        _re_entered(h, a, call=3)
        for turn in range(unlocks):
            h.released(a, call=5 + 2 * turn, returned=6 + 2 * turn)
        for at in range(50, 1000, 50):
            h.renewed(a, at=at)
        h.fails("n2", call=20, returned=1000)
        assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(("entries", "expected"), [(1, "violated"), (2, "held")])
def test_a_refused_unlock_is_the_last_word_of_a_client_that_entered_once(entries, expected):
    """L1, H13: refused because another task had locked; nobody will unlock again, so nothing may renew for ever."""
    timing = {"validity_ns": 100, "poll_interval_ns": 10, "request_timeout_ns": 5, "faults_end_ns": 0}
    h = History(run=timing)
    a = h.granted("n1", call=0, applied=1, returned=2)
    for _ in range(entries - 1):
        _re_entered(h, a, call=3)
    h.released(a, call=5, returned=6, outcome=Outcome.REJECTED)
    for at in range(50, 1000, 50):
        h.renewed(a, at=at)
    h.fails("n2", call=20, returned=1000)
    assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(
    ("recorded", "returned", "expected"),
    [(5, 5, "held"), (5, 6, "violated"), (5, 4, "violated"), (0, 1, "violated"), (5, None, "held"), (None, 5, "held")],
)
def test_the_token_that_came_with_a_grant_is_the_one_in_its_record(recorded, returned, expected):
    """S7: a token is part of the answer. A lock that keeps none, or shows none, tells nothing wrong."""
    h = History()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", token=recorded, valid_until=90)
    h.returns("n1", Op.ACQUIRE, 2, request, Outcome.APPLIED, owner="o1", token=returned)
    found = h.verdict("S7")
    assert found["verdict"] == expected
    if expected == "violated":
        witness = found["witness"]
        assert (witness["kind"], witness["token"], witness["recorded"]) == ("wrong token", returned, recorded)


@pytest.mark.parametrize(("shown", "expected"), [([7, 7], 0), ([7, 8], 1), ([8, 8, 9], 1), ([None], 0)])
def test_the_token_shown_to_the_resource_is_the_one_in_the_record(shown, expected):
    """S7: a lock may answer rightly and hand out another number later; each tenure is accused once."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=7)
    for at, token in enumerate(shown, 3):
        h.effect(dataclasses.replace(a, token=token), at=at)
    found = h.verdict("S7")
    assert found["count"] == expected
    if expected:
        assert found["witness"]["kind"] == "wrong token shown"
        assert found["at_ns"] == 3 + shown.index(8)


def test_a_token_that_is_wrong_everywhere_is_one_violation():
    """S7: what the return said wrongly is not said again for every write that repeats it."""
    h = History()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", token=7, valid_until=90)
    h.returns("n1", Op.ACQUIRE, 2, request, Outcome.APPLIED, owner="o1", token=8)
    for at in (3, 4):
        h.effect(Held("n1", "main", request, "o1", 8, ""), at=at)
    assert h.verdict("S7")["count"] == 1


def test_a_token_is_compared_with_the_grant_of_its_own_call():
    """S7: the same owner's next grant has a token of its own; renewals keep theirs."""
    h = History()
    for turn, token in enumerate((3, 9)):
        a = h.granted("n1", call=100 * turn, applied=100 * turn + 1, returned=100 * turn + 2, token=token)
        h.renewed(a, at=100 * turn + 10)
        h.effect(a, at=100 * turn + 11)
        h.released(a, call=100 * turn + 12, applied=100 * turn + 13)
    assert h.verdict("S7")["verdict"] == "held"


def test_nothing_is_said_about_open_calls():
    """S7 judges answers; a call that was cut off gave none."""
    h = History(run={"is_cut_off": True})
    h.call("n1", Op.ACQUIRE, 0)
    assert h.verdict("S7")["verdict"] == "held"


# What a mutated judge got away with.


def test_an_own_grant_that_ended_with_the_call_was_not_left_behind():
    """S7, D3: undone at the very return, another's grant in force before: an honest denial."""
    h = History()
    h.released(h.granted("n2", call=0, applied=1, returned=2), call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 2)
    h.write("n1", Op.ACQUIRE, sent=5, owner="o1", valid_until=100, reply=Outcome.AMBIGUOUS)
    h.write("n1", Op.RELEASE, sent=9, owner="o1")
    h.returns("n1", Op.ACQUIRE, 9, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["verdict"] == "held"


def test_a_refusal_without_a_rival_is_no_lost_race():
    """S7: a 412 excuses a denial only if another node's write came during the call."""
    h = History()
    h.write("n2", Op.RELEASE, sent=1, owner="o2")
    request = h.call("n1", Op.ACQUIRE, 5)
    h.write("n1", Op.ACQUIRE, sent=7, owner="o1", if_version="long gone", outcome=Outcome.PRECONDITION_FAILED)
    h.returns("n1", Op.ACQUIRE, 8, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["witness"]["kind"] == "false denial"


def test_a_stale_read_of_ones_own_record_excuses_no_denial():
    """S7, D3: the store showed the caller's own old grant, which is nobody else's."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4)
    request = h.call("n1", Op.ACQUIRE, 10)
    h.read("n1", 12, version=a.version, owner=a.owner, sent=11)
    h.returns("n1", Op.ACQUIRE, 13, request, Outcome.PRECONDITION_FAILED)
    assert h.verdict("S7")["witness"]["kind"] == "false denial"


@pytest.mark.parametrize(("behind", "expected"), [(189, "violated"), (190, "held")])
def test_a_slow_clock_excuses_up_to_the_stamp_and_the_bound(behind, expected):
    """S7, E4: the caller adds the bound to the stamp and compares with its own clock."""
    h = History(run={"drift_bound_ns": 10}, wall_ahead={"n1": -behind})
    h.granted("n2", call=0, applied=1, returned=2, valid_for=100)
    h.fails("n1", call=301, returned=305)
    assert h.verdict("S7")["verdict"] == expected


@pytest.mark.parametrize(
    ("crash_at", "calls_at", "expected"),
    [(5, 10, "held"), (None, 10, "violated"), (0, 10, "violated"), (5, 300, "violated")],
)
def test_a_restarted_node_is_kept_out_by_its_own_past(crash_at, calls_at, expected):
    """S7, E3: the lease of the process that died denies its successor, too; not without a crash since, nor for ever."""
    h = History()
    h.granted("n1", call=1, applied=2, returned=3, valid_for=100)
    if crash_at is not None:
        h.fault("n1", crash_at, "crash", "begin")
    h.fails("n1", call=calls_at, returned=calls_at + 5)
    assert h.verdict("S7")["verdict"] == expected


def test_what_the_dead_had_sent_keeps_out_their_successor():
    """S7, E3: the granting write was on its way when its process crashed, and landed."""
    h = History()
    h.write("n1", Op.ACQUIRE, sent=1, applied=5, owner="n1-owner", valid_until=105)
    h.fault("n1", 3, "crash", "begin")
    h.fails("n1", call=10, returned=15)
    assert h.verdict("S7")["verdict"] == "held"


def test_a_new_holder_whose_write_lands_late_knew_what_its_clock_showed_then():
    """S5, M6: early by less than the bound, sent before the stamp and applied after it by the thief's own clock."""
    h = History(run={"drift_bound_ns": 10}, wall_ahead={"n2": 5})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, sent=90, applied=97, returned=150)
    assert h.verdict("S5")["verdict"] == "held"


def test_a_conditional_release_under_another_name_knew_what_it_hit():
    """S6: one node's release of its own later grant is foul only where it was unconditional."""
    for condition, expected in ((None, "held"), ("", "violated")):
        h = History()
        h.granted("n1", call=0, applied=1, returned=2, owner="first", valid_for=2)
        h.granted("n1", call=10, applied=11, returned=12, owner="second")
        h.write("n1", Op.RELEASE, sent=15, owner="first", if_version=condition)
        assert h.verdict("S6")["verdict"] == expected


def test_a_call_that_crashed_does_not_stay_open_for_ever():
    """S6: who calls again has ended its earlier call, so a late heartbeat is a revival although that never returned."""
    h = History()
    h.call("n1", Op.ACQUIRE, 0)
    a = h.granted("n1", call=5, applied=6, returned=7, token=1)
    h.released(a, call=8, applied=9, returned=10)
    h.renewed(a, at=20)
    assert h.verdict("S6")["witness"]["kind"] == "revived"


def test_a_stamp_beyond_all_times_is_long_past():
    """S5: a number at the edge of 64 bits does not turn into a promise for ever."""
    h = History(wall_ahead={"n1": 1_000})
    h.granted("n1", call=0, applied=1, returned=2, valid_for=-(2**63) - 499)
    h.granted("n2", call=3, applied=10, returned=11)
    assert h.verdict("S5")["verdict"] == "held"
