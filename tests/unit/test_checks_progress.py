"""L1-L6, F1-F3, vacuity, classes and measures, each from both sides."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from lockref.history import Kind, Op
from lockref.stores.port import Outcome
from reports.checks import decide, judge
from reports.checks.clauses.fairness import gini, jain
from reports.checks.judge import measure
from reports.checks.summary import Summary
from reports.checks.verdicts import Shortfall
from tests.histories import History, tables, verdict

TIMING = {
    "validity_ns": 100,
    "poll_interval_ns": 10,
    "request_timeout_ns": 5,
    "wait_timeout_ns": 400,
    "drift_bound_ns": 0,
    "faults_end_ns": 0,
}
"""Hand-over within 10 + 2 · 5 = 20; a grant within 120 of the last write; a call within 405."""


def timed(**run: object) -> History:
    return History(run={**TIMING, **run})


def tallied(*histories: History) -> Summary:
    events, runs = tables(*histories)
    return Summary.of(judge(events, runs), events, runs)


# L1-L3: gaps.


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


# L1 where nobody can read the records: what clients were told must do.


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


def test_unread_a_call_without_an_answer_may_have_left_something():
    """L1: n3 ended without knowing at 50, so waiting counts from then."""
    h = unread(5)
    h.fails("n3", call=20, returned=50, outcome=Outcome.AMBIGUOUS)
    h.fails("n2", call=0, returned=170)
    assert h.verdict("L1")["verdict"] == "held"


# L4: told in time.


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


# L5: calls end.


@pytest.mark.parametrize(("returned", "expected"), [(405, "held"), (406, "violated")])
def test_calls_return_within_their_timeout_and_one_request(returned, expected):
    """L5: 400 to wait and 5 for the request under way."""
    h = timed()
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=returned)
    assert h.verdict("L5")["verdict"] == expected


def test_a_paused_process_cannot_return():
    """L5: the time for which the process was stopped is not the lock's."""
    h = timed()
    h.granted("n2", call=0, applied=1, returned=2)
    h.fails("n1", call=0, returned=500)
    h.fault("n1", 10, "pause", "begin")
    h.fault("n1", 110, "pause", "end")
    assert h.verdict("L5")["verdict"] == "held"


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


# L6: orphans.


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


# F1-F3.


def passed_over(times: int, claims: list[str]) -> History:
    h = timed(claims=claims, clients=2)
    h.fails("n1", call=0, returned=390)
    for place in range(times):
        at = 10 + 20 * place
        h.released(h.granted("n2", call=at, applied=at, returned=at + 1), call=at + 5, applied=at + 6)
    return h


@pytest.mark.parametrize(("claims", "expected"), [(["F1:3"], "held"), (["F1:2"], "violated"), ([], "not_applicable")])
def test_bypasses_are_counted_against_the_claim(claims, expected):
    """F1: n1 waited while n2 was granted three times."""
    assert passed_over(3, claims).verdict("F1")["verdict"] == expected


def test_a_claim_without_a_number_means_one_round():
    """F1: as many bypasses as there are clients."""
    assert passed_over(2, ["F1"]).verdict("F1")["verdict"] == "held"
    assert passed_over(3, ["F1"]).verdict("F1")["verdict"] == "violated"


def test_a_claim_that_is_no_number_is_refused():
    """F1: a provider's own mistake, named."""
    with pytest.raises(ConfigError, match="F1:many"):
        passed_over(1, ["F1:many"]).judged()


@pytest.mark.parametrize(("claims", "expected"), [(["F2"], "violated"), ([], "not_applicable")])
def test_a_client_that_gets_nothing_is_starved(claims, expected):
    """F2: n1 asked and was never served while n2 was."""
    assert passed_over(1, claims).verdict("F2")["verdict"] == expected


def test_jain_and_gini_know_their_ends():
    """F3: equal shares, and one of four having it all."""
    import numpy as np

    equal, lone = np.array([3, 3, 3, 3]), np.array([0, 0, 0, 12])
    assert (jain(equal), jain(lone)) == (1.0, 0.25)
    assert (gini(equal), gini(lone)) == (0.0, 0.75)


def test_fairness_is_measured_without_any_claim():
    """F3: shares, streaks, waits and bypasses of two clients."""
    h = passed_over(3, [])
    row = measure(*h.tables()).fairness.to_pylist()[0]
    assert (row["clients"], row["grants"], row["streak_max"], row["bypass_max"]) == (2, 3, 3, 3)
    assert row["jain"] == 0.5
    assert row["reacquire_median_ns"] == 20


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


# Vacuity and classes.


def reached(h: History) -> dict[str, int]:
    return {row["situation"]: row["count"] for row in h.judged().reach.to_pylist() if row["count"]}


@pytest.mark.parametrize(("asks", "met"), [(1, 1), (4, 1), (6, 0)])
def test_unreadable_records_leave_calls_to_tell_of_contention(asks, met):
    """Vacuity: n1 is told of its grant at 3 and gives it back at 5; whoever asks in between, or waits then, met it."""
    h = timed()
    h.released(h.granted("n1", call=0, applied=2, returned=3, owner=""), call=5, applied=6, returned=7)
    h.granted("n2", call=asks, applied=8, returned=9, owner="")
    situations = reached(h)
    assert situations.get("contention", 0) == met
    assert (situations["grant"], situations["release"]) == (2, 1)


def test_a_client_does_not_meet_itself():
    """Vacuity: one client that locks again while it is in, and a use of another lock, are no contention."""
    h = timed()
    h.granted("n1", call=0, applied=2, returned=3, owner="")
    h.granted("n1", call=4, applied=5, returned=6, owner="")
    assert "contention" not in reached(h)


def test_situations_are_counted_from_the_history():
    """Vacuity: one history with most of what may happen."""
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
        "grant": 2, "clients_served": 2, "handoff": 1,
        "denied": 1, "contention": 2, "renewal": 1, "release": 1, "takeover_after_expiry": 1,
        "renewal_race": 1, "lost_reply_release": 1, "paused_holder_resumed": 1, "late_write_attempted": 1,
        "rejected_write": 1, "effect": 1, "expired_while_believed": 1, "partition": 1, "clock_fault": 1, "crash": 1,
        "fault:pause": 1, "fault:partition": 1, "fault:step": 1, "fault:crash": 1,
    }  # fmt: skip


def test_a_demanded_situation_must_be_reached_by_some_run():
    """Vacuity: the batch counts, not the run; what no run reached makes it inconclusive, by name."""
    calm, contended = timed(must_happen=["denied"]), timed(must_happen=["denied"])
    calm.granted("n1", call=0, applied=1, returned=2)
    contended.granted("n1", call=0, applied=1, returned=2)
    contended.fails("n2", call=3, returned=4)
    alone = tallied(calm)
    assert alone.unreached == {("by hand", "by hand"): {"denied": Shortfall(found=0, least=1)}}
    assert decide(alone).safety == "inconclusive"
    assert decide(tallied(calm, contended)).safety == "held"


def test_one_locks_experience_is_no_other_locks_evidence():
    """Vacuity: what a scenario demands must happen under each provider, however the batches come."""
    contended, calm = timed(must_happen=["denied"]), timed(must_happen=["denied"], provider="another")
    contended.granted("n1", call=0, applied=1, returned=2)
    contended.fails("n2", call=3, returned=4)
    calm.granted("n1", call=0, applied=1, returned=2)
    silent = timed(scenario="a third")
    verdicts = decide(tallied(contended, calm, silent))
    assert verdicts.reasons == (
        "no client was ever granted the lock in a third with by hand",
        "never happened in by hand with another: denied",
    )
    assert verdicts.safety == "inconclusive"
    apart = Summary()
    for history in (silent, calm, contended):
        apart.add(tallied(history))
    assert decide(apart) == verdicts


def test_a_batch_without_any_grant_proves_nothing():
    """Vacuity: nothing demanded, nothing granted."""
    verdicts = decide(tallied(History()))
    assert (verdicts.safety, verdicts.reasons) == ("inconclusive", ("no client was ever granted the lock",))


def test_a_violation_outranks_what_did_not_happen():
    """What was seen was seen, whatever else was not."""
    h = timed(must_happen=["partition"])
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 9)
    h.believes(h.granted("n2", call=0, applied=3, returned=4), 4, 8)
    assert decide(tallied(h)).safety == "violated"


def test_liveness_has_a_verdict_of_its_own():
    """A lock may be safe and stuck."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.released(a, call=3, applied=4)
    h.granted("n2", call=0, applied=60, returned=61)
    verdicts = decide(tallied(h))
    assert (verdicts.safety, verdicts.liveness) == ("held", "violated")


def test_without_timing_liveness_is_not_said_to_hold():
    """No bound can be made of a runs table without V, p, q and w: L1 to L6 do not apply, so neither does liveness."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    verdicts = decide(tallied(h))
    assert {verdicts.clauses[name] for name in ("L1", "L2", "L3", "L5", "L6")} == {"not_applicable"}
    assert verdicts.safety == "held"


def test_a_broken_claim_of_fairness_is_no_broken_liveness():
    """F1 and F2 have a verdict of their own; the exit code knows both."""
    h = passed_over(3, ["F1:2"])
    h.run["faults_end_ns"] = None
    verdicts = decide(tallied(h))
    assert (verdicts.safety, verdicts.fairness) == ("held", "violated")
    assert verdicts.liveness == "held"


def overlap(op: Op = Op.APPEND, token: bool = False, late: str | None = None) -> History:
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=2, token=1 if token else None)
    b = h.granted("n2", call=0, applied=4, returned=5, token=2 if token else None)
    h.believes(a, 2, 9)
    h.believes(b, 5, 8)
    h.effect(b, at=6, op=op)
    if late:
        h.effect(a, at=7, op=op, is_accepted=late == "accepted")
    return h


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (overlap(), "latent overlap"),
        (overlap(token=True), "latent overlap"),
        (overlap(Op.WRITE, token=True), "fenced overlap"),
        (overlap(token=True, late="rejected"), "fenced overlap"),
        (overlap(late="accepted"), "harm"),
        (overlap(Op.WRITE, token=True, late="accepted"), "harm"),
    ],
)
def test_overlaps_are_classed_by_what_they_came_to(history, expected):
    """Clean, fenced, latent, harm: a list takes what comes, a register compares tokens."""
    assert history.judged().classes["class"].to_pylist() == [expected]


def test_a_run_without_overlap_is_clean_and_a_token_that_falls_is_not():
    """The two other classes."""
    h = History()
    a = h.granted("n1", call=0, applied=1, returned=2, token=2)
    h.released(a, call=3, applied=4)
    assert h.judged().classes["class"].to_pylist() == ["clean"]
    h.granted("n2", call=5, applied=6, returned=7, token=1)
    assert h.judged().classes["class"].to_pylist() == ["token regression"]


def test_rows_in_any_order_are_judged_alike():
    """The table may come shuffled, as Spark hands it over."""
    events, runs = tables(overlap(late="accepted"), overlap(), timed())
    shuffled = events.take(list(reversed(range(len(events)))))
    assert judge(shuffled, runs).verdicts.equals(judge(events, runs).verdicts)


def test_a_run_nobody_described_is_judged_by_defaults():
    """Events of a run without a row in the runs table."""
    events, runs = tables(overlap())
    judgement = judge(events, runs.slice(0, 0))
    assert verdict(judgement, "S3")["verdict"] == "violated"
    assert verdict(judgement, "L1")["verdict"] == "not_applicable"


def test_the_kinds_of_rows_that_checks_know_are_all_kinds():
    """A new kind of event must be thought about here."""
    assert [kind.name for kind in Kind] == [
        "CALL", "RETURN", "SENT", "APPLIED", "REPLIED", "BELIEVED", "DISBELIEVED", "EFFECT", "FAULT", "CLOCK",
    ]  # fmt: skip


def test_request_numbers_may_be_far_apart():
    """Processes of a real run number their requests in ranges of their own; joins do not depend on it."""
    plain, apart = overlap(late="accepted"), overlap(late="accepted")
    for _, _, event in apart._events:
        event["request"] = event["request"] * 10**15 + 7
    company = timed()
    found, expected = (judge(*tables(history, company)).verdicts for history in (apart, plain))
    for name in ("run", "clause", "verdict", "count", "at_ns"):
        assert found[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.parametrize(("second_token", "expected"), [(2, "fenced overlap"), (None, "latent overlap")])
def test_a_fence_with_a_gap_is_none(second_token, expected):
    """Classes: a register fences only if every write brought a token to compare."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1)
    h.effect(a, at=3, op=Op.WRITE)
    h.released(a, call=4, applied=5)
    b = h.granted("n2", call=4, applied=6, returned=7, token=second_token)
    h.effect(b, at=8, op=Op.WRITE)
    h.believes(a, 2, 9)
    h.believes(b, 7, 9)
    assert h.judged().classes["class"].to_pylist() == [expected]


def test_harm_outranks_its_cause():
    """Classes: where a token came again and a stale write was accepted, the run is harm."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, token=5)
    h.released(a, call=3, applied=4)
    b = h.granted("n2", call=3, applied=5, returned=6, token=5)
    h.effect(b, at=7, op=Op.WRITE)
    h.effect(a, at=8, op=Op.WRITE)
    judgement = h.judged()
    assert h.verdict("S2")["verdict"] == h.verdict("S4")["verdict"] == "violated"
    assert judgement.classes["class"].to_pylist() == ["harm"]


# What a mutated judge got away with.


def test_a_tally_ranks_and_adds():
    """Safety before the rest, whatever the run; broken runs are those with a safety clause broken, and add up."""
    stuck = timed()
    stuck.granted("n2", call=0, applied=1, returned=2)
    stuck.fails("n1", call=0, returned=500)
    broken = timed()
    broken.believes(broken.granted("n1", call=0, applied=1, returned=2), 2, 9)
    broken.believes(broken.granted("n2", call=0, applied=3, returned=4), 4, 8)
    events, runs = tables(stuck, broken, broken)
    found = Summary.of(judge(events, runs), events, runs)
    assert found.broken_runs == 2
    assert [finding.is_safety for finding in found.findings] == sorted(
        (finding.is_safety for finding in found.findings), reverse=True
    )
    assert {finding.clause for finding in found.findings} >= {"S3", "L5"}
    found.add(Summary.of(broken.judged(), *broken.tables()))
    assert (found.broken_runs, found.runs) == (3, 4)


def test_what_is_in_force_is_not_late_and_an_operators_hand_loses_no_reply():
    """Vacuity: a write under a grant that never ended is in time; nobody waits for an answer to the operator."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2)
    h.effect(a, at=3)
    assert "late_write_attempted" not in reached(h)
    h.operator(Op.DELETE, at=5)
    assert not {name for name in reached(h) if name.startswith(("late_write", "lost_reply"))}


@pytest.mark.parametrize(("begin", "end", "count"), [(5, 20, 1), (12, 20, 0), (5, None, 0)])
def test_a_paused_holder_resumed_if_it_held_and_ran_on(begin, end, count):
    """Vacuity: the pause began while the tenure believed, and ended."""
    h = timed()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 9, lost=10)
    h.fault("n1", begin, "pause", "begin")
    if end is not None:
        h.fault("n1", end, "pause", "end")
    assert reached(h).get("paused_holder_resumed", 0) == count


def test_a_suspend_is_a_disturbed_clock():
    """Vacuity: a machine that slept had its clock stand still."""
    h = timed()
    h.fault("n1", 5, "suspend", "begin")
    assert reached(h)["clock_fault"] == 1


def test_grants_of_an_unread_lock_are_counted_by_its_answers():
    """Vacuity: where records cannot be read, a granted call is a grant; the batch proves something."""
    h = timed()
    h.granted("n1", call=0, applied=1, returned=2, owner="")
    assert reached(h)["grant"] == 1


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


def test_the_lowest_run_speaks_for_all_that_broke_alike():
    """However batches arrive, a distinct failure is told once, by its lowest run, with the number of the others."""
    broken = timed()
    broken.believes(broken.granted("n1", call=0, applied=1, returned=2), 2, 9)
    broken.believes(broken.granted("n2", call=0, applied=3, returned=4), 4, 8)
    fine = timed()
    fine.granted("n1", call=0, applied=1, returned=2)
    batches = [tables(fine, fine, broken, broken), tables(fine, broken, broken, broken)]
    for order in (batches, batches[::-1]):
        joined = Summary()
        for events, runs in order:
            joined.add(Summary.of(judge(events, runs), events, runs))
        [found] = [finding for finding in joined.findings if finding.clause == "S3"]
        assert (found.run, found.similar) == (1, 4)
