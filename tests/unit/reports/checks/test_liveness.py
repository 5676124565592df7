"""L1 to L6 on hand-made histories, each clause from both sides."""

from __future__ import annotations

import pytest

from lockref.claims import NO_LEASE
from lockref.words import Op, Outcome
from tests.histories import History, timed


@pytest.mark.parametrize(("next_at", "expected"), [(24, "held"), (25, "violated")])
def test_a_waiter_is_served_soon_after_a_release(next_at, expected):
    """L3: released at 4 with a waiter since 0: 20 later is the last instant."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.released(a, call=3, applied=4)
    h.granted("n2", call=0, applied=next_at, returned=next_at + 1)
    assert h.verdict("L3")["verdict"] == expected
    assert h.verdict("L1")["verdict"] == "held"


def test_a_waiter_that_gave_up_at_the_bound_was_not_wronged():
    """L3: it waited exactly the bound; the lock lay free for longer, but nobody waited."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n2", call=0, returned=24)
    h.granted("n3", call=290, applied=300, returned=301)
    assert h.verdict("L3")["verdict"] == "held"


def test_a_release_without_a_waiter_bounds_nothing():
    """L3: nobody asked until later."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=290, applied=300, returned=301)
    assert h.verdict("L3")["verdict"] == "held"


def test_waiting_during_the_faults_bounds_nothing():
    """L3 starts where the faults end."""
    h = timed(faults_end_ns=90)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=0, applied=105, returned=106)
    assert h.verdict("L3")["verdict"] == "held"


def test_faults_that_never_end_leave_liveness_out():
    """L1-L3, L6 do not apply without an end of the faults; L5 does."""
    h = timed(faults_end_ns=None)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=0, applied=390, returned=391)
    for clause in ("L1", "L2", "L3", "L6"):
        assert h.verdict(clause)["verdict"] == "not_applicable"
    assert h.verdict("L5")["verdict"] == "held"


@pytest.mark.parametrize(("next_at", "expected"), [(121, "held"), (122, "violated")])
def test_a_dead_holders_lock_is_granted_after_its_validity(next_at, expected):
    """L2: valid to 101 after the crash, 20 more for the hand-over."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.fault("n1", 3, "crash", "begin")
    h.granted("n2", call=0, applied=next_at, returned=next_at + 1)
    assert h.verdict("L2")["verdict"] == expected


@pytest.mark.parametrize(("next_at", "expected"), [(121, "held"), (122, "violated")])
def test_a_waiter_gets_an_abandoned_lock_in_time(next_at, expected):
    """L1: no write for the grant after 1: the lock is granted within 120 of that."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=next_at, returned=next_at + 1)
    assert h.verdict("L1")["verdict"] == expected


def test_a_holder_that_renews_keeps_the_lock():
    """L1: a waiter may wait as long as the holder is alive and wants it."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    for at in range(50, 350, 50):
        h.renewed(a, at=at)
    h.released(a, call=360, applied=361)
    h.granted("n2", call=0, applied=362, returned=363)
    assert h.verdict("L1")["verdict"] == "held"


def test_a_heartbeat_that_outlives_its_tenure_starves_the_waiters():
    """L1, M8: renewals after the client had given up are no reason to wait."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.released(a, call=3, returned=5, outcome=Outcome.AMBIGUOUS)
    for at in range(50, 350, 50):
        h.renewed(a, at=at)
    h.fails("n2", call=0, returned=350)
    assert h.verdict("L1")["verdict"] == "violated"


def test_a_holder_that_locked_again_has_not_given_up():
    """L1: its unlock had failed; without tokens the next call of its process took the same grant, and renews it."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.released(a, call=3, returned=5, outcome=Outcome.AMBIGUOUS)
    b = h.granted("n1", call=10, applied=11, returned=12, valid_for=100)
    for at in range(50, 350, 50):
        h.renewed(b, at=at)
    h.fails("n2", call=0, returned=350)
    assert h.verdict("L1")["verdict"] == "held"


def test_a_lock_that_nobody_ever_gets_is_stuck():
    """L1: a free lock and a waiter, and no grant at all."""
    h = timed()
    h.fails("n1", call=0, returned=350)
    assert h.verdict("L1")["verdict"] == "violated"


def test_rate_errors_stretch_the_bounds():
    """L3: local seconds of a clock that is 50 % slow are two true ones."""
    h = timed(rate_error_ppm=500_000)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=0, applied=44, returned=45)
    assert h.verdict("L3")["verdict"] == "held"


@pytest.mark.parametrize(
    ("bound_ns", "op", "next_at", "expected"),
    [
        (0, Op.RENEW, 110, "held"),
        (0, Op.RENEW, 111, "violated"),
        (20, Op.RENEW, 130, "held"),
        (20, Op.RENEW, 131, "violated"),
        (200, Op.RENEW, 60, "held"),
        (200, Op.RENEW, 61, "violated"),
        (0, Op.RELEASE, 61, "violated"),
    ],
)
def test_a_stamp_that_a_wrong_clock_hides_is_a_release_once_it_is_seen(bound_ns, op, next_at, expected):
    """L3: n1's clock is 150 ahead. What it gives back at 40 by a stamp of 90 is past for n2 from 90 on, and β later.

    The correct lock was accused of that wait. Within the promise it would be, and a release in words needs no clock.
    """
    h = timed(drift_bound_ns=bound_ns)
    h.wall_ahead["n1"] = 150
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    request = h.call("n1", Op.RELEASE, 39)
    h.write("n1", op, sent=40, owner=a.owner, token=a.token, valid_until=90)
    h.returns("n1", Op.RELEASE, 42, request, Outcome.APPLIED)
    h.granted("n2", call=30, applied=next_at, returned=next_at + 1, token=2)
    assert h.verdict("L3")["verdict"] == expected


def unread(released_at: int | None) -> History:
    """n1 is granted at 2 in a record without an owner; it gives back at `released_at`, or never."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, owner="")
    if released_at is not None:
        h.released(a, call=3, returned=released_at)
    return h


@pytest.mark.parametrize(("returned", "expected"), [(125, "held"), (126, "violated")])
def test_unread_a_waiter_is_served_after_a_release(returned, expected):
    """L1: given back at 5 with a waiter since 0; 120 later somebody must have it, whatever the records say."""
    h = unread(5)
    h.fails("n2", call=0, returned=returned)
    assert h.verdict("L1")["verdict"] == expected
    assert h.verdict("L3")["verdict"] == "not_applicable"


def test_unread_a_lock_in_use_is_a_reason_to_wait():
    """L1: nobody gave it back and nobody died."""
    h = unread(None)
    h.fails("n2", call=0, returned=390)
    assert h.verdict("L1")["verdict"] == "held"


def test_unread_a_dead_holder_is_no_reason_to_wait():
    """L1, M2: its process died at 10; a lease would have lapsed by 130."""
    h = unread(None)
    h.fault("n1", 10, "crash", "begin")
    h.fails("n2", call=0, returned=131)
    assert h.verdict("L1")["verdict"] == "violated"


@pytest.mark.parametrize("outcome", [Outcome.AMBIGUOUS, Outcome.REJECTED])
def test_unread_a_call_without_an_answer_may_have_left_something(outcome):
    """L1: n3 ended in an error at 50, so waiting counts from then."""
    h = unread(5)
    h.fails("n3", call=20, returned=50, outcome=outcome)
    h.fails("n2", call=0, returned=170)
    assert h.verdict("L1")["verdict"] == "held"


def test_unread_a_grant_that_comes_late_is_no_use_before_it():
    """L1: n3 asks at 100 and is told at 219; n2 waits from 5, and nobody had the lock for more than 120 of that."""
    h = unread(5)
    h.fails("n2", call=0, returned=219)
    h.granted("n3", call=100, applied=218, returned=219, owner="")
    found = h.verdict("L1")
    assert (found["verdict"], found["witness"]["node"]) == ("violated", "n2")


@pytest.mark.parametrize(("returned", "expected"), [(170, "held"), (171, "violated")])
def test_unread_a_call_of_a_dead_process_is_over(returned, expected):
    """L1: n3 died at 50 in its call. From then on it waits for nothing; what it may have left lapses by 170."""
    h = unread(5)
    h.call("n3", Op.ACQUIRE, 20)
    h.fault("n3", 50, "crash", "begin")
    h.fails("n2", call=0, returned=returned)
    assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(
    ("claims", "valid_for", "in_time", "late"),
    [([NO_LEASE], None, "not_applicable", "not_applicable"), ([NO_LEASE], 100, "held", "violated"),
     ([], None, "held", "violated")],
)  # fmt: skip
def test_only_a_lock_without_any_lease_may_leave_a_dead_holders_record(claims, valid_for, in_time, late):
    """L2 is asked unless a lock declares that it has none, and no record of it promises an end."""
    for next_at, expected in ((120, in_time), (350, late)):
        h = timed(claims=claims)
        h.granted("n1", call=0, applied=1, returned=2, valid_for=valid_for)
        h.fault("n1", 3, "crash", "begin")
        h.granted("n2", call=0, applied=next_at, returned=next_at + 1, valid_for=valid_for)
        assert h.verdict("L2")["verdict"] == expected


@pytest.mark.parametrize(("last", "expected"), [(101, "held"), (102, "violated")])
def test_belief_ends_with_the_validity(last, expected):
    """L4: valid to 101; saying yes later means that nobody told the holder."""
    h = timed()
    h.believes(h.granted("n1", call=0, applied=1, returned=2, valid_for=100), 2, last)
    assert h.verdict("L4")["verdict"] == expected


def test_a_renewal_prolongs_belief():
    """L4: what was renewed may be believed."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.renewed(a, at=90)
    h.believes(a, 2, 150)
    assert h.verdict("L4")["verdict"] == "held"


@pytest.mark.parametrize(("returned", "expected"), [(405, "held"), (406, "violated")])
def test_calls_return_within_their_timeout_and_one_request(returned, expected):
    """L5: 400 to wait and 5 for the request under way."""
    h = timed()
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=returned)
    assert h.verdict("L5")["verdict"] == expected


@pytest.mark.parametrize(("returned", "expected"), [(10, "held"), (11, "violated")])
def test_a_try_may_send_two_requests(returned, expected):
    """L5: a try has no time to wait, and its requests need some: the first is answered within 5, the second by 10."""
    h = timed(wait_timeout_ns=0)
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=returned)
    assert h.verdict("L5")["verdict"] == expected


@pytest.mark.parametrize(
    ("request_ns", "returned", "expected"),
    [
        (5, 1_000_000_005, "held"),
        (5, 1_000_000_006, "violated"),
        (400_000_000, 1_600_000_000, "held"),
        (400_000_000, 1_600_000_001, "violated"),
    ],
)
def test_an_unlock_may_try_for_three_requests_and_a_second(request_ns, returned, expected):
    """L5: max(w, 3q, 1 s) + q, whatever an acquire of the run may take."""
    h = timed(wait_timeout_ns=0, request_timeout_ns=request_ns, validity_ns=10**12)
    held = h.granted("n1", call=0, applied=0, returned=0, valid_for=10**12)
    h.released(held, call=0, applied=0, returned=returned)
    assert h.verdict("L5")["verdict"] == expected


def test_a_paused_process_cannot_return():
    """L5: the time for which the process was stopped is not the lock's."""
    h = timed()
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=500)
    h.fault("n1", 10, "pause", "begin")
    h.fault("n1", 110, "pause", "end")
    assert h.verdict("L5")["verdict"] == "held"


@pytest.mark.parametrize(
    ("mono_ahead", "returned", "expected"),
    [(-200, 605, "held"), (-200, 606, "violated"), (200, 405, "held"), (200, 406, "violated")],
)
def test_the_clock_that_counts_less_counts(mono_ahead, returned, expected):
    """L5: a machine that was frozen asked its lock for less time than has passed; a clock that jumped made no time."""
    h = timed()
    h.mono_ahead["n1"] = {300: mono_ahead}
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=returned)
    assert h.verdict("L5")["verdict"] == expected


def test_a_clock_that_jumped_ahead_makes_no_late_call_later():
    """L5: what is told of a late call is its true length where its caller's clock shows a longer one."""
    h = timed()
    h.mono_ahead["n1"] = {300: 200}
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=500)
    assert h.verdict("L5")["witness"]["size_ns"] == 500


def test_a_call_that_never_returns_is_a_violation():
    """L5: the run is over and the call is not."""
    h = timed()
    h.call("n1", Op.ACQUIRE, 0)
    assert h.verdict("L5")["witness"]["kind"] == "call never returned"


def test_crashed_callers_and_cut_off_runs_owe_no_return():
    """L5: whoever died, or whose record ends early, is excused."""
    crashed = timed()
    crashed.call("n1", Op.ACQUIRE, 0)
    crashed.fault("n1", 5, "crash", "begin")
    assert crashed.verdict("L5")["verdict"] == "held"
    cut = timed(is_cut_off=True)
    cut.call("n1", Op.ACQUIRE, 0)
    assert cut.verdict("L5")["verdict"] == "held"
    assert [h.judged().records["state"].to_pylist() for h in (cut, crashed)] == [["cut off"], ["whole"]]


def test_without_timing_nothing_is_bounded():
    """L1-L3, L5, L6 do not apply to a run whose timing nobody gave."""
    h = History(run={"faults_end_ns": 0})
    h.call("n1", Op.ACQUIRE, 0)
    for clause in ("L1", "L2", "L3", "L5", "L6"):
        assert h.verdict(clause)["verdict"] == "not_applicable"


def orphaned(renewed_at: int) -> History:
    h = timed()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=101, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, Outcome.AMBIGUOUS)
    h.write("n1", Op.RENEW, sent=renewed_at, owner="o1", valid_until=renewed_at + 100, task="heartbeat")
    h.granted("n2", call=300, applied=301, returned=302)
    return h


@pytest.mark.parametrize(("renewed_at", "expected"), [(6, "held"), (7, "violated")])
def test_what_a_failed_acquire_left_is_over_after_one_validity(renewed_at, expected):
    """L6: returned at 6, so the orphan must be over by 106."""
    assert orphaned(renewed_at).verdict("L6")["verdict"] == expected


def taken_anew(*, orphan_until: int, at: int, answer: Outcome) -> History:
    """No tokens: what n1's failed call left lives to `orphan_until`, and n1 asks again and writes `at`."""
    h = timed()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=101, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, Outcome.AMBIGUOUS)
    if orphan_until > 101:
        h.write("n1", Op.RENEW, sent=50, owner="o1", valid_until=orphan_until, task="heartbeat")
    again = h.call("n1", Op.ACQUIRE, at - 1)
    h.write("n1", Op.RENEW, sent=at, owner="o1", valid_until=at + 100)
    h.returns("n1", Op.ACQUIRE, at + 1, again, answer, owner="o1" if answer is Outcome.APPLIED else "")
    h.write("n1", Op.RENEW, sent=at + 50, owner="o1", valid_until=at + 150, task="heartbeat")
    h.granted("n2", call=at, applied=at + 160, returned=at + 161)
    return h


@pytest.mark.parametrize(
    ("orphan_until", "at", "answer", "expected"),
    [
        (101, 60, Outcome.APPLIED, "held"),
        (101, 140, Outcome.APPLIED, "held"),
        (150, 106, Outcome.APPLIED, "held"),
        (150, 107, Outcome.APPLIED, "violated"),
        (101, 60, Outcome.AMBIGUOUS, "violated"),
    ],
)
def test_an_owner_that_is_granted_the_lock_anew_keeps_no_orphan(orphan_until, at, answer, expected):
    """L6: without tokens its new record looks like a renewal; what nobody was granted stays an orphan."""
    assert taken_anew(orphan_until=orphan_until, at=at, answer=answer).verdict("L6")["verdict"] == expected


@pytest.mark.parametrize(("answer", "expected"), [(Outcome.APPLIED, "held"), (Outcome.AMBIGUOUS, "violated")])
def test_an_owner_that_is_granted_the_lock_anew_has_not_given_up(answer, expected):
    """L1: others wait for the new grant, not for what the failed call had left."""
    h = timed()
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=101, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, Outcome.AMBIGUOUS)
    again = h.call("n1", Op.ACQUIRE, 30)
    h.write("n1", Op.RENEW, sent=31, owner="o1", valid_until=131)
    h.returns("n1", Op.ACQUIRE, 32, again, answer, owner="o1" if answer is Outcome.APPLIED else "")
    for at in range(60, 1000, 50):
        h.write("n1", Op.RENEW, sent=at, owner="o1", valid_until=at + 100, task="heartbeat")
    h.fails("n2", call=40, returned=1000)
    assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(("next_at", "expected"), [(141, "held"), (142, "violated")])
def test_the_bound_of_progress_allows_for_both_clocks(next_at, expected):
    """L1: V + 2β + p + 2q after the last write: 100 + 20 + 20."""
    h = timed(drift_bound_ns=10)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.granted("n2", call=0, applied=next_at, returned=next_at + 1)
    assert h.verdict("L1")["verdict"] == expected


def test_a_pause_counts_only_as_far_as_the_call():
    """L5: a pause whose end nobody recorded excuses no more than what it took of this call."""
    h = timed()
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=500)
    h.fault("n1", 490, "pause", "begin")
    assert h.verdict("L5")["verdict"] == "violated"


@pytest.mark.parametrize("outcome", [Outcome.AMBIGUOUS, Outcome.REJECTED])
@pytest.mark.parametrize(("renewed_at", "expected"), [(16, "held"), (17, "violated")])
def test_an_orphan_is_over_after_validity_and_bound_however_the_call_failed(outcome, renewed_at, expected):
    """L6: V + β after the return, 6 + 100 + 10; an error that is definite leaves no more than an unknown outcome."""
    h = timed(drift_bound_ns=10)
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=101, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, outcome)
    h.write("n1", Op.RENEW, sent=renewed_at, owner="o1", valid_until=renewed_at + 100, task="heartbeat")
    h.granted("n2", call=300, applied=301, returned=302)
    assert h.verdict("L6")["verdict"] == expected


@pytest.mark.parametrize(("last", "expected"), [(111, "held"), (112, "violated")])
def test_belief_may_outlast_the_validity_by_the_clock_bound(last, expected):
    """L4: the holder's clock may have been set within β since it sent the record."""
    h = timed(drift_bound_ns=10)
    h.believes(h.granted("n1", call=0, applied=1, returned=2, valid_for=100), 2, last)
    assert h.verdict("L4")["verdict"] == expected


def test_nobody_may_take_over_what_is_no_record():
    """L2, D6: a dead holder's lock that was overwritten with rubbish is not granted again, and rightly so."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.fault("n1", 10, "crash", "begin")
    h.operator(Op.WRITE, at=20)
    h.fails("n2", call=30, returned=400)
    assert h.verdict("L2")["verdict"] == "held"
    assert h.verdict("L1")["verdict"] == "held"


def _asks(h, node, *, since, until, each, pause):
    """Denied calls of a client, `each` long, with a pause after each."""
    while since < until:
        h.fails(node, call=since, returned=since + each, outcome=Outcome.PRECONDITION_FAILED)
        since += each + pause


@pytest.mark.parametrize(("pause", "expected"), [(5, "violated"), (50, "held")])
def test_a_client_that_asks_again_soon_goes_on_waiting(pause, expected):
    """L1, L2: a dead holder's lock is asked for again and again, never for long. A longer pause ends a wait."""
    h = timed(think_ns=5)
    h.granted("n1", call=0, applied=1, returned=2)
    h.fault("n1", 3, "crash", "begin")
    _asks(h, "n2", since=5, until=390, each=4, pause=pause)
    for clause in ("L1", "L2"):
        verdict = h.verdict(clause)
        assert verdict["verdict"] == expected, clause
        if expected == "violated":
            assert "again and again" in verdict["witness"]["text"]
            assert verdict["witness"]["stands"]["node"] == "n1"
            assert verdict["witness"]["stands"]["crashed_ns"] == 3


def test_short_waits_are_served_after_a_release():
    """L3: the lock lies free while a client asks for a moment at a time."""
    h = timed(think_ns=5)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    _asks(h, "n2", since=5, until=200, each=4, pause=5)
    assert h.verdict("L3")["verdict"] == "violated"


def test_short_waits_wait_for_a_holder_that_renews():
    """L1: its record is written anew all the time, so whoever asks may be denied for ever."""
    h = timed(think_ns=5)
    a = h.granted("n1", call=0, applied=1, returned=2)
    for at in range(50, 400, 50):
        h.renewed(a, at=at)
    _asks(h, "n2", since=5, until=390, each=4, pause=5)
    assert h.verdict("L1")["verdict"] == "held"


def test_a_pause_between_calls_is_allowed_for():
    """L3: a client that pauses for 8 is served at its next call; with its pause it waited for longer than the bound."""
    h = timed(think_ns=8)
    h.fails("n2", call=0, returned=5, outcome=Outcome.PRECONDITION_FAILED)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.granted("n2", call=13, applied=26, returned=27)
    assert h.verdict("L3")["verdict"] == "held"


def test_what_no_lock_may_take_over_is_no_reason_to_join_calls():
    """L1, D6: something that is no record stands there after a release, so every call ends in an error, rightly."""
    h = timed(think_ns=5)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.operator(Op.WRITE, at=5)
    _asks(h, "n2", since=6, until=390, each=4, pause=5)
    assert h.verdict("L1")["verdict"] == "held"
    assert h.verdict("L3")["verdict"] == "held"


def _asks_from_new_processes(h, node, *, since, until, lives):
    """Denied calls of a client whose process ends during each, and is started anew."""
    while since < until:
        h.fails(node, call=since, returned=since + lives - 2)
        h.fault(node, since + lives - 1, "crash", "begin")
        h.fault(node, since + lives, "crash", "end")
        since += lives


@pytest.mark.parametrize(("next_at", "expected"), [(150, "held"), (390, "violated")])
def test_a_record_without_a_stamp_is_watched_anew_by_each_process(next_at, expected):
    """L2: one validity more for processes that are started anew; if none lives for so long, the witness says so."""
    h = timed(think_ns=5, watch_ns=80)
    h.granted("n1", call=0, applied=1, returned=2)
    h.fault("n1", 3, "crash", "begin")
    _asks_from_new_processes(h, "n2", since=5, until=next_at, lives=20)
    verdict = h.verdict("L2")
    assert verdict["verdict"] == expected
    if expected == "violated":
        assert "no waiter lived as long as the lease" in verdict["witness"]["because"]


def test_a_holder_that_works_under_a_record_without_an_end_keeps_it():
    """L1: the record promises more than the run's validity, and its holder neither ended nor gave it back."""
    h = timed(think_ns=5)
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=10**9)
    _asks(h, "n2", since=5, until=350, each=4, pause=5)
    h.released(a, call=360, applied=361)
    assert h.verdict("L1")["verdict"] == "held"


@pytest.mark.parametrize(("renewed_at", "expected"), [(50, "held"), (51, "violated")])
def test_an_orphan_is_over_one_validity_after_the_faults(renewed_at, expected):
    """L6: the faults end at 50, so what a call left before may stand until 150."""
    h = timed(faults_end_ns=50)
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=101, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, Outcome.AMBIGUOUS)
    h.write("n1", Op.RENEW, sent=renewed_at, owner="o1", valid_until=renewed_at + 100, task="heartbeat")
    h.granted("n2", call=300, applied=301, returned=302)
    assert h.verdict("L6")["verdict"] == expected


@pytest.mark.parametrize(("end", "expected"), [(106, "held"), (107, "violated")])
def test_what_stands_when_the_run_ends_is_no_orphan_before_its_time(end, expected):
    """L6: the record is good until 1,000, and it has to be gone by 106; nobody knows what came after the run."""
    h = timed(end_ns=end)
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", valid_until=1000, reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, Outcome.AMBIGUOUS)
    assert h.verdict("L6")["verdict"] == expected


@pytest.mark.parametrize(("ends", "expected"), [(False, "held"), (True, "violated")])
def test_a_process_that_is_paused_for_good_owes_no_return(ends, expected):
    """L5: it never ran on. One that was woken has to return."""
    h = timed(end_ns=2000)
    h.call("n1", Op.ACQUIRE, 0)
    h.fault("n1", 5, "pause", "begin", "p")
    if ends:
        h.fault("n1", 20, "pause", "end", "p")
    h.granted("n2", call=1000, applied=1001, returned=1002)
    assert h.verdict("L5")["verdict"] == expected


@pytest.mark.parametrize(("next_at", "expected"), [(141, "held"), (142, "violated")])
def test_who_follows_a_dead_holder_allows_for_both_clocks(next_at, expected):
    """L2: valid to 101 by the dead one's clock, 10 for it, 10 for the waiter's own, 20 for the hand-over."""
    h = timed(drift_bound_ns=10)
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.fault("n1", 3, "crash", "begin")
    h.granted("n2", call=0, applied=next_at, returned=next_at + 1)
    assert h.verdict("L2")["verdict"] == expected


def test_a_living_holder_that_lets_its_lease_run_out_breaks_one_clause():
    """L1: nobody gave the lock back and its holder is alive, so L2 and L3 ask nothing; another's crash is no reason."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.fault("n3", 3, "crash", "begin")
    h.fails("n2", call=0, returned=130)
    assert [h.verdict(clause)["verdict"] for clause in ("L1", "L2", "L3")] == [
        "violated", "held", "not_applicable",
    ]  # fmt: skip


@pytest.mark.parametrize(("dies", "expected"), [("n3", "violated"), ("store", "held")])
def test_a_lease_outlives_who_ends_beside_it_and_not_its_store(dies, expected):
    """L3: another client's end keeps nobody from the lock. The end of the service does, until the faults are over."""
    h = timed(faults_end_ns=90)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.fails("n3", call=0, returned=5)
    h.fault(dies, 90, "crash", "begin")
    h.fails("n2", call=0, returned=100)
    assert h.verdict("L3")["verdict"] == expected


def test_a_call_that_waits_alone_waits_whatever_stood_there():
    """L3, D6: rubbish that was there and gone within the call does not excuse that a free lock is never granted."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    h.operator(Op.WRITE, at=5)
    h.operator(Op.DELETE, at=10)
    h.fails("n2", call=0, returned=350)
    assert h.verdict("L3")["verdict"] == "violated"


@pytest.mark.parametrize(("claims", "expected"), [([NO_LEASE], "held"), ([], "violated")])
def test_an_unlock_that_raised_may_leave_a_record_without_a_lease(claims, expected):
    """L1: it has said so, and an operator removes it."""
    h = timed(claims=claims)
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=None)
    h.released(a, call=3, returned=5, outcome=Outcome.AMBIGUOUS)
    h.fails("n2", call=0, returned=350)
    assert h.verdict("L1")["verdict"] == expected


@pytest.mark.parametrize(
    ("claims", "outcome", "expected"),
    [
        ([NO_LEASE], Outcome.AMBIGUOUS, "held"),
        ([], Outcome.AMBIGUOUS, "violated"),
        ([NO_LEASE], Outcome.REJECTED, "violated"),
    ],
)
def test_an_acquire_of_unknown_outcome_may_leave_a_record_without_a_lease(claims, outcome, expected):
    """L1, L6: an operator removes it. An error that says that nothing was granted leaves nothing."""
    h = timed(claims=claims)
    request = h.call("n1", Op.ACQUIRE, 0)
    h.write("n1", Op.ACQUIRE, sent=1, owner="o1", reply=Outcome.AMBIGUOUS)
    h.returns("n1", Op.ACQUIRE, 6, request, outcome)
    h.fails("n2", call=0, returned=350)
    assert {h.verdict(clause)["verdict"] for clause in ("L1", "L6")} == {expected}


@pytest.mark.parametrize(("unlocks", "expected"), [(1, "held"), (2, "violated")])
def test_who_has_entered_twice_is_done_with_the_lock_at_the_second_unlock(unlocks, expected):
    """L1, M8: renewals after the inner unlock are a reason to wait, those after the outer one are not."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    again = h.call("n1", Op.ACQUIRE, 3)
    h.returns("n1", Op.ACQUIRE, 4, again, Outcome.APPLIED, owner=a.owner, token=a.token, version=a.version)
    for number in range(unlocks):
        outcome = Outcome.APPLIED if number == 0 else Outcome.AMBIGUOUS
        h.released(a, call=5 + 2 * number, returned=6 + 2 * number, outcome=outcome)
    for at in range(50, 350, 50):
        h.renewed(a, at=at)
    h.fails("n2", call=0, returned=350)
    assert h.verdict("L1")["verdict"] == expected
