"""L4: what a holder is told of its loss, in time or too late, by guard and listener, and of a loss that never was."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.words import Kind, Op, Outcome
from reports.checks import judge
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


@pytest.mark.parametrize(("no", "expected"), [(51, []), (52, ["told without cause"])])
def test_the_first_half_of_a_validity_is_nobodys_business(no, expected):
    """L4: more than V/2 after the grant, which took effect at 1."""
    h = History(run={**TIMING, "end_ns": DUE})
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=V)
    h.renewed(a, at=40)
    h.believes(a, 2, 41, lost=no)
    assert kinds(h) == expected


@pytest.mark.parametrize(("no", "expected"), [(139, ["told without cause"]), (140, [])])
def test_half_a_validity_of_margin_is_allowed(no, expected):
    """L4: what was renewed at 90 is good until 190; from 140 on a lock may have a margin of its own."""
    h, _ = dropped(no=no)
    h.run["end_ns"] = 150
    assert kinds(h) == expected


def test_a_grant_that_was_never_renewed_may_be_given_up():
    """L4: without a landed renewal nobody knows why it was not."""
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


@pytest.mark.parametrize("outcome", [Outcome.AMBIGUOUS, Outcome.PRECONDITION_FAILED, Outcome.THROTTLED])
def test_a_renewal_that_failed_is_a_cause(outcome):
    """L4: even if a later one landed."""
    h, a = story(end_ns=DUE)
    h.write("n1", Op.RENEW, sent=30, owner=a.owner, token=a.token, valid_until=130, outcome=outcome, task="heartbeat")
    h.renewed(a, at=60)
    h.renewed(a, at=90)
    h.event(Kind.DISBELIEVED, 95, "n1", op=Op.GUARD, request=a.request)
    assert kinds(h) == []


def test_an_answer_that_came_later_counts_for_nothing():
    """L4: the renewal that had landed but was not answered by then extends no belief."""
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
