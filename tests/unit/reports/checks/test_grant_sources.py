"""Grants from other sources than a chain of records: each clause on hand-made histories, right ones and wrong ones."""

from __future__ import annotations

import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import Judgement, judge, judge_with_handoffs
from reports.checks.facts.sources.protocols import SOURCES
from reports.checks.spec import COMMITS
from tests.histories import LOCK, Held, History, tables, verdict
from tests.service_histories import FAIR, TIMING, Service, assigned, mixed, queued


def broken_clauses(judgement: Judgement) -> set[str]:
    return {row["clause"] for row in judgement.verdicts.to_pylist() if row["verdict"] == "violated"}


def clauses_of(judgement: Judgement, wanted: str) -> set[str]:
    return {row["clause"] for row in judgement.verdicts.to_pylist() if row["verdict"] == wanted}


def grants(judgement: Judgement) -> list[tuple[str, int, int | None, str]]:
    return [
        (row["node"], row["begin_hi_ns"], row["end_hi_ns"], row["end_kind"]) for row in judgement.grants.to_pylist()
    ]


BY_SOURCE = pytest.mark.parametrize("story", [assigned, queued])
IN_BOTH_WORLDS = pytest.mark.parametrize("is_simulated", [True, False])


@BY_SOURCE
@IN_BOTH_WORLDS
def test_a_clean_handover_holds_in_every_clause(story, is_simulated):
    """S2, S3, S4, S7, L1, L3, L5, L6, F1, F2 are judged and hold; S1, S5 and S6 ask for a record, and do not apply."""
    judgement = story(is_simulated=is_simulated, **FAIR).judged()
    assert broken_clauses(judgement) == set()
    assert clauses_of(judgement, "held") == {"S2", "S3", "S4", "S7", "L1", "L3", "L5", "L6", "F1", "F2"}
    assert clauses_of(judgement, "not_applicable") == {"S1", "S5", "S6", "L2", "L4", *COMMITS}


def test_assigned_grants_last_from_state_to_state():
    """A participant has the lock from the state that says so to the state that gives it back."""
    assert grants(assigned().judged()) == [("n1", 3, 10, "released"), ("n2", 14, 21, "released")]


def test_the_next_waiter_has_the_lock_when_the_one_before_is_gone():
    """Nobody writes for a waiter that its turn has come: its grant begins with the write that ended the one before."""
    assert grants(queued().judged()) == [("n1", 1, 9, "released"), ("n2", 9, 17, "released")]


@BY_SOURCE
def test_handoffs_and_situations_are_counted_from_grants(story):
    """Measures know no source: two grants, one hand-off, two releases."""
    judgement = story().judged()
    reached = {row["situation"]: row["count"] for row in judgement.reach.to_pylist()}
    assert (reached["grant"], reached["handoff"], reached["release"], reached["contention"]) == (2, 1, 2, 1)


@BY_SOURCE
@IN_BOTH_WORLDS
def test_a_token_that_falls_is_seen(story, is_simulated):
    """S2: a number that is given again, after the lock was given back, lets a late writer through."""
    h = story(is_simulated=is_simulated)
    c = h.acquires("n3", 30, 33, token=1)
    h.says(31, "n3", by="n3", op=Op.ACQUIRE, token=1, task="main")
    h.believes(c, 33, 35)
    assert broken_clauses(h.judged()) == {"S2"}


@BY_SOURCE
@IN_BOTH_WORLDS
def test_two_believers_are_seen(story, is_simulated):
    """S3: who goes on believing while the next one has the lock overlaps with it."""
    h = story(is_simulated=is_simulated)
    h.event(Kind.BELIEVED, 16, "n1", op=Op.GUARD, request=1, owner="n1", token=1)
    found = h.verdict("S3")
    assert (found["verdict"], found["witness"]["overlap_ns"][1] >= 15) == ("violated", True)


@BY_SOURCE
@IN_BOTH_WORLDS
def test_a_late_write_is_harm(story, is_simulated):
    """S4: a write of the first grant that lands after one of the second."""
    h = story(is_simulated=is_simulated)
    h.effect(Held("n1", "main", 1, "n1", 1, ""), at=25)
    assert h.verdict("S4")["witness"]["kind"] == "stale token"


def test_a_write_of_an_earlier_grant_is_harm_without_tokens_too():
    """S4: the place of its grant tells that it is late."""
    h = Service("assignment")
    a, b = h.acquires("n1", 0, 3), h.acquires("n2", 0, 13)
    h.says(2, "n1", by="n1")
    h.says(10, "n1", by="controller", op=Op.RELEASE)
    h.says(12, "n2", by="n2")
    h.effect(b, at=14)
    h.effect(a, at=15)
    assert h.verdict("S4")["witness"]["kind"] == "stale grant"


def test_nobody_is_too_early_where_no_time_is_promised():
    """S5: a controller may give the lock to another while the first one's state still says that it has it."""
    h = Service("assignment")
    h.acquires("n1", 0, 3)
    h.says(2, "n1", by="n1")
    h.acquires("n2", 0, 13)
    h.says(12, "n2", by="n2")
    judgement = h.judged()
    assert grants(judgement) == [("n1", 2, 12, "taken_over"), ("n2", 12, None, "open")]
    assert verdict(judgement, "S5")["verdict"] == "not_applicable"


@BY_SOURCE
@IN_BOTH_WORLDS
def test_an_answer_without_a_grant_is_false(story, is_simulated):
    """S7: a client is told that it has the lock, and no state ever said so."""
    h = story(is_simulated=is_simulated)
    h.acquires("n3", 30, 33)
    found = h.verdict("S7")
    assert (found["verdict"], found["witness"]["kind"], found["witness"]["node"]) == ("violated", "false grant", "n3")


@BY_SOURCE
@IN_BOTH_WORLDS
def test_a_denial_needs_somebody_else(story, is_simulated):
    """S7: a client is denied while nobody has the lock; while somebody has it, the denial is honest."""
    h = story(is_simulated=is_simulated)
    h.fails("n3", call=5, returned=6)
    assert h.verdict("S7")["verdict"] == "held"
    h.fails("n3", call=40, returned=41)
    assert h.verdict("S7")["witness"]["kind"] == "false denial"


def test_a_release_that_the_participants_state_does_not_show_is_false():
    """S7: "released", while the participant's state says that it has the lock."""
    h = Service("assignment")
    a = h.acquires("n1", 0, 3)
    h.says(2, "n1", by="n1")
    h.releases(a, 5, 6)
    assert h.verdict("S7")["witness"]["kind"] == "false release"


def test_another_token_than_the_queues_number_is_wrong():
    """S7: the number that came with a grant is the one by which its owner waited."""
    h = Service("queue")
    h.acquires("n1", 0, 3, token=8)
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=7, task="main")
    assert h.verdict("S7")["witness"]["kind"] == "wrong token"


def test_a_state_that_another_participant_keeps_ends_nothing():
    """A participant's word about itself ends its own grant alone; a state that names nobody ends anybody's."""
    h = Service("assignment")
    h.acquires("n2", 0, 3)
    h.says(2, "n2", by="n2")
    h.says(4, "n1", by="n1", op=Op.RELEASE)
    h.says(9, "", by="controller", op=Op.DELETE)
    h.says(10, "n2", by="n2", op=Op.RELEASE)
    assert grants(h.judged()) == [("n2", 2, 9, "deleted")]


def test_what_is_said_of_one_lock_ends_nothing_of_another():
    """A participant that has one lock gives back another, which it never had: that one has no grant to end."""
    h = Service("assignment")
    h.run["lock_protocols"]["a second lock"] = "assignment"
    h.says(2, "n1", by="n1")
    h.lock = "a second lock"
    h.says(4, "n1", by="n1", op=Op.RELEASE)
    judgement = h.judged()
    assert grants(judgement) == [("n1", 2, None, "open")]
    assert {row["situation"]: row["count"] for row in judgement.reach.to_pylist()}["release"] == 0


def test_what_is_given_back_twice_is_released_once():
    """The second state that gives one grant back gives nothing back."""
    h = Service("assignment")
    h.says(2, "n1", by="n1")
    h.says(4, "n1", by="n1", op=Op.RELEASE)
    h.says(5, "n1", by="n1", op=Op.RELEASE)
    judgement = h.judged()
    assert {row["situation"]: row["count"] for row in judgement.reach.to_pylist()}["release"] == 1


@BY_SOURCE
@IN_BOTH_WORLDS
def test_a_handoff_is_measured_from_release_to_grant(story, is_simulated):
    """Whoever waited when the lock was given back ends the hand-off when it has the lock."""
    _, handoffs = judge_with_handoffs(*tables(story(is_simulated=is_simulated)))
    assert handoffs.select(["node", "after"]).to_pylist() == [{"node": "n2", "after": "release"}]


def test_a_write_without_an_answer_says_nothing():
    """In a real run a state counts if its writer was told that it had landed."""
    h = Service("assignment", is_simulated=False)
    h.write("n1", Op.WRITE, sent=2, owner="n1", if_version="", reply=Outcome.AMBIGUOUS)
    assert grants(h.judged()) == []


@pytest.mark.parametrize(("at", "broken"), [(50, set()), (112, set()), (150, {"L2"})])
def test_a_dead_participants_lock_goes_on_within_the_session_timeout(at, broken):
    """L2: a controller that sees the death at once is not too early (S5), one that sleeps beyond the bound is late."""
    h = Service("assignment")
    h.acquires("n1", 0, 3)
    h.says(2, "n1", by="n1")
    h.fault("n1", 10, "crash", "begin")
    h.says(at, "n2", by="n2")
    h.acquires("n2", 5, at + 1)
    assert broken_clauses(h.judged()) == broken


def given_back(source: str, *, is_simulated: bool = True) -> Service:
    """n1 had the lock from 2 to 10. n2 asks from 5 on, and gets it in the test."""
    h = Service(source, is_simulated=is_simulated)
    a = h.acquires("n1", 0, 3, token=1)
    h.says(2, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    h.says(10, "n1", by="n1", op=Op.RELEASE, token=1, task="main")
    h.releases(a, 10, 12)
    return h


def broken_progress(h: Service, at: int) -> set[str]:
    """The clauses about progress that are broken if n2 gets the lock at this time."""
    h.says(at, "n2", by="n2", op=Op.ACQUIRE, token=9, task="main")
    h.acquires("n2", 5, at + 1, token=9)
    return broken_clauses(h.judged()) & {"L1", "L2", "L3"}


@pytest.mark.parametrize("outcome", [None, Outcome.AMBIGUOUS])
@pytest.mark.parametrize(
    ("left", "at", "broken"),
    [(None, 18, set()), (None, 112, {"L3"}), (15, 112, set()), (15, 150, {"L3"}), (60, 112, {"L3"})],
)
def test_a_client_that_leaves_unheard_may_have_been_chosen(outcome, left, at, broken):
    """L3: the service may have chosen n3, which died, or of which nobody knows whether it left, before it said so.

    One that left after the bound excuses nothing.
    """
    h = given_back("assignment")
    if left is not None:
        request = h.call("n3", Op.ACQUIRE, 4)
        if outcome is None:
            h.fault("n3", left, "crash", "begin")
        else:
            h.returns("n3", Op.ACQUIRE, left, request, outcome)
    assert broken_progress(h, at) == broken


@pytest.mark.parametrize(
    ("outcome", "left", "expected"),
    [(Outcome.AMBIGUOUS, 15, "inconclusive"), (None, 15, "held"), (None, 60, "violated")],
)
def test_a_long_wait_that_an_unknown_outcome_explains_is_undecided(outcome, left, expected):
    """L3: n3 that died had a session that ended. Of one whose acquire has no known outcome nobody recorded that."""
    h = given_back("assignment")
    request = h.call("n3", Op.ACQUIRE, 4)
    if outcome is None:
        h.fault("n3", left, "crash", "begin")
    else:
        h.returns("n3", Op.ACQUIRE, left, request, outcome)
    broken_progress(h, 112)
    assert h.verdict("L3")["verdict"] == expected


def test_unknown_outcomes_in_a_row_never_acquit():
    """L3: a lock that is handed to nobody any more. Five waiters leave unheard, each within the bound; n2 starves."""
    h = given_back("assignment")
    for number in range(5):
        request = h.call(f"w{number}", Op.ACQUIRE, 4)
        h.returns(f"w{number}", Op.ACQUIRE, 15 + 100 * number, request, Outcome.AMBIGUOUS)
    broken_progress(h, 520)
    found = h.verdict("L3")
    assert found["verdict"] == "inconclusive"
    assert "nobody recorded the end of its session" in found["witness"]["reason"]


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.PRECONDITION_FAILED])
def test_a_client_that_was_heard_to_leave_excuses_nothing(outcome):
    """L3: n3 was denied, or has left. An unlock with an unknown outcome is no client that asks, either."""
    h = given_back("assignment")
    request = h.call("n3", Op.ACQUIRE, 4)
    h.returns("n3", Op.ACQUIRE, 15, request, outcome)
    request = h.call("n3", Op.RELEASE, 16)
    h.returns("n3", Op.RELEASE, 17, request, Outcome.AMBIGUOUS)
    assert broken_progress(h, 112) == {"L3"}


@pytest.mark.parametrize(
    ("asked", "joined", "broken"), [(False, False, {"L3"}), (True, False, {"L3"}), (True, True, set())]
)
def test_who_stands_first_in_a_queue_is_on_record(asked, joined, broken):
    """L3: n3 died at 15, and the lock goes on when its session is over. Nobody waits for n3 that never joined.

    Its request may also have been lost on the way: the service tells what took effect.
    """
    h = given_back("queue")
    h.call("n3", Op.ACQUIRE, 4)
    if joined:
        h.says(6, "n3", by="n3", op=Op.ACQUIRE, token=2, task="main")
    elif asked:
        h.event(Kind.SENT, 6, "n3", op=Op.ACQUIRE, request=h.number(), owner="n3")
    h.fault("n3", 15, "crash", "begin")
    if joined:
        h.says(111, "n3", by="operator", op=Op.DELETE, token=2)
    assert broken_progress(h, 112) == broken


@pytest.mark.parametrize(
    ("joins_at", "node", "answer", "broken"),
    [
        (14, "n3", None, set()),
        (14, "n3", Outcome.AMBIGUOUS, set()),
        (14, "n3", Outcome.PRECONDITION_FAILED, {"L3"}),
        (14, "n4", None, {"L3"}),
        (16, "n3", None, {"L3"}),
        (3, "n3", None, {"L3"}),
    ],
)
def test_a_place_in_a_queue_that_nobody_knows_may_be_the_first(joins_at, node, answer, broken):
    """L3: in a real run the request of n3 to join may have taken effect, if no answer tells. It died at 15."""
    h = given_back("queue", is_simulated=False)
    h.call("n3", Op.ACQUIRE, 4)
    request = h.number()
    h.event(Kind.SENT, joins_at, node, op=Op.ACQUIRE, request=request, owner=node)
    if answer is not None:
        h.event(Kind.REPLIED, joins_at, node, op=Op.ACQUIRE, request=request, outcome=answer)
    h.fault("n3", 15, "crash", "begin")
    # A real run is allowed one second more, in the session's time and in the bound.
    assert broken_progress(h, 2_000_000_100) == broken


def test_who_follows_a_dead_participant_has_taken_over():
    """Situations: no time is on record, and the controller gives a lock to another only after its owner's session."""
    h = Service("assignment")
    h.acquires("n1", 0, 3)
    h.says(2, "n1", by="n1")
    h.fault("n1", 10, "crash", "begin")
    h.says(50, "n2", by="n2")
    h.acquires("n2", 5, 51)
    taken = {row["situation"]: row["count"] for row in h.judged().reach.to_pylist()}
    handed = {row["situation"]: row["count"] for row in assigned().judged().reach.to_pylist()}
    assert (taken["takeover_after_expiry"], handed["takeover_after_expiry"]) == (1, 0)


def test_a_state_written_again_is_no_new_grant():
    """A participant that writes the same state anew keeps its grant."""
    h = Service("assignment")
    h.acquires("n1", 0, 3)
    for at in (2, 5, 8):
        h.says(at, "n1", by="n1", token=3)
    judgement = h.judged()
    assert (grants(judgement), judgement.grants["renewals"].to_pylist()) == ([("n1", 2, None, "open")], [2])
    assert {row["count"] for row in judgement.reach.to_pylist() if row["situation"] == "renewal"} == {0}


def test_what_a_body_only_carries_along_is_no_new_grant():
    """A participant writes all its locks in one body: what it gave back before stays given back (S2 of its holder)."""
    h = Service("assignment")
    h.says(1, "n2", by="n2", token=1)
    h.says(2, "n2", by="n2", op=Op.RELEASE, token=1)
    h.says(3, "n1", by="n1", op=Op.ACQUIRE, token=2)
    h.says(4, "n2", by="n2", op=Op.WRITE)
    h.says(5, "n1", by="n1", op=Op.WRITE, token=2)
    judgement = h.judged()
    assert grants(judgement) == [("n2", 1, 2, "released"), ("n1", 3, None, "open")]
    assert "S2" not in broken_clauses(judgement)


def test_an_owner_that_is_no_nodes_name_is_known_by_the_answer():
    """A participant may go by another name than its process: its answers tell whose name that is."""
    h = Service("assignment")
    request = h.call("n1", Op.ACQUIRE, 0)
    h.says(2, "instance-7", by="controller")
    h.returns("n1", Op.ACQUIRE, 4, request, Outcome.APPLIED, owner="instance-7")
    judgement = h.judged()
    assert (grants(judgement), broken_clauses(judgement)) == ([("n1", 2, None, "open")], set())


def test_a_waiter_that_leaves_before_its_turn_is_never_granted():
    """A queue: the second of three gives up; the third follows the first."""
    h = Service("queue")
    for at, (node, number) in enumerate((("n1", 1), ("n2", 2), ("n3", 3)), 1):
        h.says(at, node, by=node, op=Op.ACQUIRE, token=number, task="main")
    h.says(5, "n2", by="n2", op=Op.DELETE, token=2)
    h.says(8, "n1", by="n1", op=Op.DELETE, token=1)
    assert grants(h.judged()) == [("n1", 1, 8, "released"), ("n3", 8, None, "open")]


def test_an_owner_without_a_number_leaves_with_all_of_its_nodes():
    """A queue: the end of a session takes out whatever that owner had put there."""
    h = Service("queue")
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    h.says(2, "n1", by="n1", op=Op.ACQUIRE, token=2, task="main")
    h.says(3, "n2", by="n2", op=Op.ACQUIRE, token=3, task="main")
    h.says(6, "n1", by="operator", op=Op.DELETE)
    assert grants(h.judged()) == [("n1", 1, 6, "deleted"), ("n2", 6, None, "open")]


@BY_SOURCE
def test_a_lock_that_nobody_gets_is_seen(story):
    """L1: the lock is free, a client waits, and nothing happens for longer than the bound."""
    h = story()
    request = h.call("n3", Op.ACQUIRE, 30)
    h.returns("n3", Op.ACQUIRE, 300, request, Outcome.REJECTED)
    found = h.judged()
    # Both bounds have passed: that of any grant, and that of a hand-over after a release.
    assert broken_clauses(found) == {"L1", "L3"}


def test_a_holder_that_lives_may_hold_for_long():
    """L1: a session needs no renewal, so a long silence of its owner is no free lock."""
    h = Service("queue")
    h.acquires("n1", 0, 2, token=1)
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    request = h.call("n2", Op.ACQUIRE, 3)
    h.says(4, "n2", by="n2", op=Op.ACQUIRE, token=2, task="main")
    h.returns("n2", Op.ACQUIRE, 390, request, Outcome.REJECTED)
    assert broken_clauses(h.judged()) == set()


@pytest.mark.parametrize(("expired", "broken"), [(120, set()), (None, {"L1", "L2"})])
def test_a_dead_holders_session_must_end(expired, broken):
    """L2: after its holder died the lock goes to the next waiter within the session timeout and the bound."""
    h = Service("queue")
    h.acquires("n1", 0, 2, token=1)
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    h.fault("n1", 10, "crash", "begin")
    request = h.call("n2", Op.ACQUIRE, 3)
    h.says(4, "n2", by="n2", op=Op.ACQUIRE, token=2, task="main")
    if expired is None:
        h.returns("n2", Op.ACQUIRE, 395, request, Outcome.REJECTED)
    else:
        h.says(expired, "n1", by="operator", op=Op.DELETE, token=1)
        h.returns("n2", Op.ACQUIRE, expired + 2, request, Outcome.APPLIED, owner="n2", token=2)
    judgement = h.judged()
    # What the failed call leaves in the queue has the next turn, and is no orphan before that.
    assert broken_clauses(judgement) == broken
    assert verdict(judgement, "L2")["verdict"] == ("violated" if broken else "held")


def test_what_a_failed_call_left_in_the_queue_is_an_orphan():
    """L6: a client that gave up without leaving the queue keeps the lock from everybody when its turn comes."""
    h = Service("queue")
    request = h.call("n1", Op.ACQUIRE, 0)
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    h.returns("n1", Op.ACQUIRE, 5, request, Outcome.AMBIGUOUS)
    h.fault("n9", 350, "pause", "begin")
    found = h.verdict("L6")
    assert (found["verdict"], found["witness"]["node"]) == ("violated", "n1")


@BY_SOURCE
def test_who_is_passed_over_is_counted(story):
    """F1: the lock claims that nobody is passed over, and one waiter is, twice."""
    h = story(**FAIR)
    request = h.call("n3", Op.ACQUIRE, 0)
    h.returns("n3", Op.ACQUIRE, 25, request, Outcome.REJECTED)
    found = h.verdict("F1")
    assert (found["verdict"], found["witness"]["text"]) == ("violated", "n3 was passed over 2 times")


@BY_SOURCE
def test_who_is_never_served_is_seen(story):
    """F2: a client that asks again and again, and gets nothing while others do."""
    h = story(**FAIR)
    h.fails("n3", call=5, returned=6)
    assert h.verdict("F2")["verdict"] == "violated"


@pytest.mark.parametrize("protocol", ["calls", "a protocol that nobody knows"])
def test_a_lock_that_shows_its_calls_alone_is_accused_of_no_grant(protocol):
    """S3 and S4 are judged; whatever needs a grant does not apply, whatever its records look like."""
    h = Service(protocol)
    a, b = h.acquires("n1", 0, 3), h.acquires("n2", 10, 13)
    h.says(2, "n7", by="n7", op=Op.ACQUIRE)
    h.releases(a, 5, 6)
    h.believes(a, 3, 5)
    h.believes(b, 13, 15)
    h.effect(a, at=4)
    h.effect(b, at=14)
    judgement = h.judged()
    assert (broken_clauses(judgement), grants(judgement)) == (set(), [])
    assert clauses_of(judgement, "not_applicable") >= {"S1", "S2", "S5", "S6", "S7", "L2", "L3", "L4", "L6"}
    assert clauses_of(judgement, "held") >= {"S3", "S4", "L1"}


def test_a_lock_that_shows_its_calls_alone_is_judged_by_them():
    """L1: nobody was told to have the lock, and a client waited for it; S3: two believed."""
    h = Service("calls")
    a = h.acquires("n1", 0, 3)
    h.releases(a, 5, 6)
    request = h.call("n2", Op.ACQUIRE, 10)
    h.returns("n2", Op.ACQUIRE, 300, request, Outcome.REJECTED)
    b = h.acquires("n3", 301, 303)
    h.believes(a, 3, 310)
    h.believes(b, 303, 305)
    assert broken_clauses(h.judged()) == {"S3", "L1"}


def test_each_lock_is_read_from_its_own_source():
    """A run may hold locks of several protocols: each clause asks each lock what that lock can answer."""
    judgement = mixed().judged()
    assert broken_clauses(judgement) == set()
    found = [(row["lock"], row["node"], row["ordinal"]) for row in judgement.grants.to_pylist()]
    assert sorted(found) == [("records", "n1", 1), (LOCK, "n1", 1), (LOCK, "n2", 2)]
    assert clauses_of(judgement, "held") >= {"S1", "S2", "S5", "S6", "S7"}


@pytest.mark.parametrize("lock", ["records", LOCK])
def test_what_breaks_on_one_lock_is_told_of_that_lock(lock):
    """S7: a grant that no state shows, on a lock whose states can be read; the hidden lock excuses nothing."""
    h = mixed()
    h.lock = lock
    h.acquires("n4", 60, 63)
    found = h.verdict("S7")
    assert (found["verdict"], found["witness"]["lock"]) == ("violated", lock)


def test_a_fork_is_seen_beside_other_protocols():
    """S1 and S6 look at records, and find them between the states of other locks."""
    h = mixed()
    h.lock = "records"
    h.granted("n2", call=60, applied=62, returned=63, token=9, if_version="v1")
    found = h.verdict("S1")
    assert (found["verdict"], found["witness"]["lock"]) == ("violated", "records")


def test_runs_of_several_protocols_are_judged_in_one_batch():
    """A protocol holds for the locks of its own run: beside others a run gets the verdicts that it gets alone."""
    stories = [assigned(), queued(), mixed(), History(run=TIMING)]
    batch = judge(*tables(*stories))
    for number, story in enumerate(stories):
        alone = story.judged().verdicts.to_pylist()
        together = [{**row, "run": 0} for row in batch.verdicts.to_pylist() if row["run"] == number]
        assert together == alone


def test_every_protocol_names_a_source():
    """The names that a runs table may carry; all others are read from calls alone."""
    assert set(SOURCES.values()) == {"chain", "assignment", "queue", "calls"}
