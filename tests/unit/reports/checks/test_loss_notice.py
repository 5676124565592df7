"""L4: what a holder is told of its loss, in time or too late, by guard and listener, and of a loss that never was."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import judge
from reports.checks.disturbances import REQUEST_KINDS
from sim.faults.fault import RequestFault
from sim.faults.plan import FAULT_TYPES
from tests.histories import Held, History, verdict

V, Q, BETA = 100, 5, 10
TIMING = {"validity_ns": V, "poll_interval_ns": 10, "request_timeout_ns": Q, "drift_bound_ns": BETA}
DUE = 1 + V + BETA + Q
"""When the grant of `lost` must have been reported: its write was sent at 1."""


def story(*, claims: tuple[str, ...] = ("L4",), **run: Any) -> tuple[History, Held]:
    """n1 has the lock, granted at 2 by a write of 1, and never renews it. Its guard is asked while it is good."""
    h = History(run={**TIMING, "claims": list(claims), "end_ns": 1000, **run})
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=V, token=1)
    h.believes(a, 2, 50)
    return h, a


def reports(h: History, a: Held, at: int) -> None:
    """The lock tells its listener that the grant of `a` is lost."""
    h.event(Kind.DISBELIEVED, at, a.node, op=Op.NONE, request=a.request, owner=a.owner, token=a.token, task=a.task)


def kinds(h: History) -> list[str]:
    found = h.verdict("L4")
    return [found["witness"]["kind"]] * found["count"] if found["verdict"] == "violated" else []


@pytest.mark.parametrize(("at", "expected"), [(60, []), (DUE, []), (DUE + 1, ["loss not reported"])])
def test_a_loss_is_reported_by_the_deadline_and_one_request(at, expected):
    """L4, H12: the clock bound and one request timeout are allowed, and no more."""
    h, a = story()
    reports(h, a, at)
    assert kinds(h) == expected


def test_a_loss_that_nobody_hears_of_is_found():
    """L4: the guard may say no as early as it likes; the listener hears nothing, to the end of the run."""
    h, a = story()
    h.event(Kind.DISBELIEVED, 95, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == ["loss not reported"]


@pytest.mark.parametrize("claims", [(), ("F2",)])
def test_a_lock_that_claims_no_reports_is_not_accused(claims):
    """L4: a listener is optional; the guard is judged all the same."""
    h, _ = story(claims=claims)
    assert h.verdict("L4")["verdict"] == "held"
    h, a = story(claims=claims)
    h.event(Kind.BELIEVED, 1 + V + BETA + 1, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == ["told too late"]


@pytest.mark.parametrize(("call", "expected"), [(DUE, []), (DUE + 1, ["loss not reported"])])
def test_a_client_that_calls_again_learns_it_there(call, expected):
    """L4: an unlock, or another lock, by the time at which the report is due."""
    for unlocks in (True, False):
        h, a = story()
        if unlocks:
            h.released(a, call=call, outcome=Outcome.REJECTED)
        else:
            h.fails("n1", call=call, returned=call + 1)
        assert kinds(h) == expected


def test_another_clients_call_tells_nobody_else():
    """L4: the next call counts per client, not per node or lock."""
    h, _ = story()
    h.fails("n2", call=80, returned=81)
    h.fails("n1", call=80, returned=81, task="second")
    assert kinds(h) == ["loss not reported"]


@pytest.mark.parametrize(("crash", "expected"), [(90, []), (DUE + 1, ["loss not reported"])])
def test_the_dead_need_not_be_told(crash, expected):
    """L4: a process that had ended by then hears nothing; one that ends later should have."""
    h, _ = story()
    h.fault("n1", crash, "crash", "begin")
    h.fault("n2", 3, "crash", "begin", fault_id="other")
    assert kinds(h) == expected


@pytest.mark.parametrize(("report", "expected"), [(DUE + 40, []), (DUE + 41, ["loss not reported"])])
def test_a_paused_process_is_told_when_it_goes_on(report, expected):
    """L4: the pause of its own process is not counted, another's is."""
    h, a = story()
    h.fault("n1", 70, "pause", "begin")
    h.fault("n1", 110, "pause", "end")
    h.fault("n2", 120, "pause", "begin", fault_id="other")
    h.fault("n2", 900, "pause", "end", fault_id="other")
    reports(h, a, report)
    assert kinds(h) == expected


@pytest.mark.parametrize(("end", "expected"), [(DUE, []), (DUE + 1, ["loss not reported"])])
def test_the_end_of_the_run_ends_the_question(end, expected):
    """L4: what would have been reported after the run, nobody knows."""
    h, _ = story(end_ns=end)
    assert kinds(h) == expected


def test_a_renewed_grant_is_due_later():
    """L4: the deadline is that of the last applied write."""
    h, a = story(end_ns=DUE + 60)
    h.renewed(a, at=61)
    assert kinds(h) == []
    h.run["end_ns"] = DUE + 61
    assert kinds(h) == ["loss not reported"]


def test_every_lost_grant_is_reported():
    """L4, H12: the report of one tenure is no report of the next."""
    h = History(run={**TIMING, "claims": ["L4"], "end_ns": 2000})
    for turn in range(2):
        a = h.granted("n1", call=1000 * turn, applied=1000 * turn + 1, returned=1000 * turn + 2, valid_for=V)
        h.believes(a, 1000 * turn + 2, 1000 * turn + 3)
        if turn == 0:
            reports(h, a, 90)
    assert kinds(h) == ["loss not reported"]


def test_an_old_history_is_judged_by_the_guard():
    """L4: rows of op none once stood for every end of belief; without the claim they are neither report nor loss."""
    h, a = story(claims=())
    h.renewed(a, at=60)
    h.event(Kind.DISBELIEVED, 70, "n1", op=Op.NONE, request=a.request)
    h.released(a, call=70, applied=71)
    assert h.verdict("L4")["verdict"] == "held"


# A loss that never was.


def dropped(
    *, no: int = 95, op: Op = Op.GUARD, answered: bool = True, claims: tuple[str, ...] = ("L4",), renewals: bool = True
) -> tuple[History, Held]:
    """n1 renews every 30 and is told no at `no`, though the renewal of 90 is good until 190."""
    h, a = story(claims=claims, end_ns=DUE)
    for at in (30, 60, 90) if renewals else ():
        h.renewed(a, at=at)
    if not answered:
        h.event(Kind.SENT, 85, "n1", op=Op.READ, request=h.number(), task="heartbeat")
    h.event(Kind.DISBELIEVED, no, "n1", op=op, request=a.request)
    return h, a


@pytest.mark.parametrize("op", [Op.GUARD, Op.ACQUIRE, Op.NONE])
def test_a_holder_whose_renewals_land_is_told_no_by_mistake(op):
    """L4: the guard's no or the report of a loss, with every renewal answered: work is dropped early."""
    h, _ = dropped(op=op)
    assert kinds(h) == ["told without cause"]


@pytest.mark.parametrize(("no", "expected"), [(3, ["told without cause"]), (50, ["told without cause"]), (51, [])])
def test_a_grant_is_good_from_the_answer_of_its_call(no, expected):
    """L4: granted until 101 by what was written at 1; nothing has happened since, also before the first renewal."""
    h = History(run={**TIMING, "end_ns": DUE})
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=V)
    h.believes(a, 2, 2, lost=no)
    assert kinds(h) == expected


@pytest.mark.parametrize(("no", "expected"), [(139, ["told without cause"]), (140, [])])
def test_half_a_validity_of_margin_is_allowed(no, expected):
    """L4: what was renewed at 90 is good until 190; from 140 on a lock may have a margin of its own."""
    h, _ = dropped(no=no)
    h.run["end_ns"] = 150
    assert kinds(h) == expected


def test_a_grant_that_was_never_renewed_may_run_out():
    """L4: no lock is obliged to renew; from V/2 before the end of what was written at 1 it may let go."""
    h, _ = dropped(renewals=False, no=60)
    h.run["end_ns"] = 61
    assert kinds(h) == []


def test_an_unlock_is_no_loss():
    """L4: what ends belief before a release is the client's own will."""
    h, _ = dropped(op=Op.RELEASE)
    assert kinds(h) == []


def test_a_request_without_an_answer_is_a_cause():
    """L4: also a reading, also one that is still under way."""
    h, _ = dropped(answered=False)
    assert kinds(h) == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.AMBIGUOUS, []),
        (Outcome.REJECTED, []),
        (Outcome.PRECONDITION_FAILED, ["told without cause"]),
        (Outcome.CONFLICT, ["told without cause"]),
        (Outcome.THROTTLED, ["told without cause"]),
    ],
)
def test_only_what_leaves_the_holder_in_doubt_is_a_cause(outcome, expected):
    """L4: silence, and a store that refuses it. A 412 is none while the grant stands, nor is "not now" (409, 429)."""
    h, a = story(end_ns=DUE)
    h.write("n1", Op.RENEW, sent=30, owner=a.owner, token=a.token, valid_until=130, outcome=outcome, task="heartbeat")
    h.event(Kind.DISBELIEVED, 45, "n1", op=Op.GUARD, request=a.request)
    h.run["end_ns"] = 46
    assert kinds(h) == expected


def test_the_faults_that_strike_requests_are_those_of_the_injector():
    """Only such a fault is told by answers; what is missing in the list would excuse a loss by its name alone."""
    assert {kind for kind, fault in FAULT_TYPES.items() if issubclass(fault, RequestFault)} == REQUEST_KINDS


@pytest.mark.parametrize(("lives_on", "expected"), [(True, ["told without cause"]), (False, [])])
def test_the_end_of_the_task_that_locked_is_a_cause(lives_on, expected):
    """L4, H13: a thread locked for its client and was not heard of since; a pool's thread goes on with requests."""
    h = History(run={**TIMING, "end_ns": DUE})
    request = h.call("n1", Op.ACQUIRE, 0)
    made = h.write("n1", Op.ACQUIRE, sent=1, owner="owner-n1", token=1, valid_until=1 + V, task="pool")
    h.returns("n1", Op.ACQUIRE, 2, request, Outcome.APPLIED, owner="owner-n1", token=1, version=made)
    h.read("n1", 10, version=made, owner="owner-n1", task="pool" if lives_on else "heartbeat")
    h.event(Kind.DISBELIEVED, 20, "n1", op=Op.GUARD, request=request)
    assert kinds(h) == expected


@pytest.mark.parametrize("struck", ["hidden_retry", "duplicate", "error"])
def test_a_fault_that_struck_a_request_is_told_by_its_answer(struck):
    """L4: the 412 of a hidden copy came from the holder's own write, so the fault is no cause by itself."""
    h, _ = dropped()
    h.fault("n1", 80, struck, "fired")
    assert kinds(h) == ["told without cause"]


def test_a_waiters_note_in_the_record_is_no_cause():
    """L4: the renewal meets a 412 because a waiter wrote its name beside the owner's; the grant stands."""
    h, a = story(end_ns=DUE)
    h.renewed(a, at=30)
    h.write("n2", Op.RENEW, sent=34, applied=35, owner=a.owner, token=a.token, valid_until=130, version="noted")
    h.write(
        "n1", Op.RENEW, sent=40, owner=a.owner, token=a.token, valid_until=140, task="heartbeat",
        outcome=Outcome.PRECONDITION_FAILED,
    )  # fmt: skip
    h.read("n1", 42, version="noted", owner=a.owner, task="heartbeat")
    h.event(Kind.DISBELIEVED, 45, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == ["told without cause"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("n1's", ["told without cause"]), ("n2's", []), ("nobody's", []), ("", [])],
)
def test_a_look_that_shows_anothers_record_is_a_cause(version, expected):
    """L4: a store whose reads lag showed another's grant, or nothing; a former record of one's own is none."""
    h = History(run={**TIMING, "claims": ["L4"], "end_ns": 1000 + DUE})
    for node, at in (("n1", 0), ("n2", 10)):
        before = h.granted(node, call=at, applied=at + 1, returned=at + 2, version=f"{node}'s", token=at + 1)
        h.released(before, call=at + 3, applied=at + 4)
    a = h.granted("n1", call=1000, applied=1001, returned=1002, valid_for=V, token=20)
    h.read("n1", 1010, version=version, task="heartbeat")
    h.event(Kind.DISBELIEVED, 1015, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == expected


@pytest.mark.parametrize(("replied", "expected"), [(44, ["told without cause"]), (46, [])])
def test_an_answer_that_is_still_out_is_a_cause(replied, expected):
    """L4: the renewal has landed, and its holder cannot know: from its sending to its answer, silence is a cause."""
    h, a = story(end_ns=DUE)
    h.write("n1", Op.RENEW, sent=30, replied=replied, owner=a.owner, token=a.token, valid_until=130, task="heartbeat")
    h.event(Kind.DISBELIEVED, 45, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == expected


def test_an_answer_that_came_later_extends_no_belief():
    """L4: by 95 the holder knew of the grant until 101 alone, whatever had landed."""
    h, a = story(end_ns=DUE)
    h.write("n1", Op.RENEW, sent=60, replied=97, owner=a.owner, token=a.token, valid_until=160, task="heartbeat")
    h.event(Kind.DISBELIEVED, 95, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == []


@pytest.mark.parametrize(("node", "expected"), [("n1", []), ("n2", ["told without cause"])])
def test_what_befell_the_process_is_a_cause(node, expected):
    """L4: a pause, a step of its clock; another process's are none."""
    for kind in ("pause", "step", "suspend"):
        h, _ = dropped()
        h.fault(node, 80, kind, "fired")
        assert kinds(h) == expected


@pytest.mark.parametrize("clock", ["wall_ns", "mono_ns"])
@pytest.mark.parametrize(("by", "expected"), [(V // 4, "violated"), (V // 4 + 1, "held"), (-V // 4 - 1, "held")])
def test_a_clock_that_jumped_is_a_cause(clock, by, expected):
    """L4: more than V/4 against true time, on either clock, in a run whose world tells nothing of it."""
    h, _ = dropped()
    events, runs = h.tables()
    rows = zip(events[clock].to_pylist(), events["at_ns"].to_pylist(), events["kind"].to_pylist(), strict=True)
    jumped = [read + by if at >= 80 and kind == "disbelieved" else read for read, at, kind in rows]
    table = events.set_column(events.column_names.index(clock), clock, [jumped])
    assert verdict(judge(table, runs), "L4")["verdict"] == expected


def test_another_task_of_the_process_may_have_unlocked():
    """L4, U6: tasks that share a lock share its end."""
    h, a = dropped()
    h.released(Held("n1", "second", a.request, a.owner, a.token, ""), call=70, returned=71)
    assert kinds(h) == []


@pytest.mark.parametrize(("outcome", "expected"), [(Outcome.AMBIGUOUS, []), (Outcome.REJECTED, ["told without cause"])])
def test_an_entry_that_ended_in_doubt_is_a_cause(outcome, expected):
    """L4, H9: a lock that cannot be entered twice may lose itself by trying; one that refuses has lost nothing."""
    h, _ = dropped()
    h.fails("n1", call=70, returned=71, outcome=outcome)
    assert kinds(h) == expected


def test_only_an_unlock_by_another_task_is_a_cause():
    """L4: not what the other task asked for and was denied, nor the holder's own inner unlock."""
    h, _ = dropped()
    h.fails("n1", call=70, returned=71, task="second")
    assert kinds(h) == ["told without cause"]
    h, a = dropped()
    again = h.call("n1", Op.ACQUIRE, 50)
    h.returns("n1", Op.ACQUIRE, 51, again, Outcome.APPLIED, owner=a.owner, token=a.token)
    h.released(a, call=70, returned=71)
    assert "told without cause" in kinds(h)


def test_a_grant_that_somebody_replaced_is_lost_for_a_reason():
    """L4: whoever took it, rightly or not."""
    h, _ = dropped()
    h.granted("n2", call=91, applied=92, returned=93, token=2)
    assert kinds(h) == []


def test_a_renewal_whose_answer_denied_it_extends_no_belief():
    """L4: it landed, and the holder heard 412. What it knows of is good until 101."""
    h, a = story(end_ns=DUE)
    h.write(
        "n1", Op.RENEW, sent=48, replied=49, owner=a.owner, token=a.token, valid_until=148,
        reply=Outcome.PRECONDITION_FAILED, task="heartbeat",
    )  # fmt: skip
    h.event(Kind.DISBELIEVED, 95, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == []


def test_only_an_entry_in_doubt_is_a_cause():
    """L4: the holder's own inner unlock ends nothing, also where it ended in doubt."""
    h, a = dropped()
    again = h.call("n1", Op.ACQUIRE, 50)
    h.returns("n1", Op.ACQUIRE, 51, again, Outcome.APPLIED, owner=a.owner, token=a.token)
    h.released(a, call=70, returned=71, outcome=Outcome.AMBIGUOUS)
    assert "told without cause" in kinds(h)


def test_an_entry_in_doubt_before_the_grant_is_no_cause():
    """L4: what the process did not know then, it knows since its grant."""
    h = History(run={**TIMING, "end_ns": DUE})
    h.fails("n1", call=0, returned=1, outcome=Outcome.AMBIGUOUS)
    a = h.granted("n1", call=2, applied=3, returned=4, valid_for=V)
    h.believes(a, 4, 4, lost=40)
    assert kinds(h) == ["told without cause"]


@pytest.mark.parametrize(("ahead", "expected"), [(V // 4, ["told without cause"]), (V // 4 + 1, [])])
def test_a_stamp_by_a_clock_far_from_ones_own_is_a_cause(ahead, expected):
    """L4: the holder before gave the lock, and stamped the record by its own clock, which is V/4 off at most."""
    h = History(run={**TIMING, "end_ns": DUE}, wall_ahead={"n1": ahead})
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=V, token=1)
    h.write("n2", Op.ACQUIRE, sent=20, owner=a.owner, token=a.token, valid_until=1 + ahead + V)
    unlock = h.call("n1", Op.RELEASE, 40)
    made = h.write("n1", Op.ACQUIRE, sent=41, owner="owner-n2", token=2, valid_until=41 + ahead + V)
    h.returns("n1", Op.RELEASE, 50, unlock, Outcome.APPLIED)
    waited = h.call("n2", Op.ACQUIRE, 10)
    h.returns("n2", Op.ACQUIRE, 44, waited, Outcome.APPLIED, owner="owner-n2", token=2, version=made)
    h.believes(Held("n2", "main", waited, "owner-n2", 2, made), 44, 50, lost=70)
    assert kinds(h) == expected
