"""What a store answered in a real run: histories by hand of stores that die, freeze, stall or are merely slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lockref.history import REQUESTS_PER_PROCESS
from lockref.words import Kind, Op, Outcome
from reports.account import write_run
from reports.checks import judge
from reports.checks.summary import Summary
from reports.formats.exit_codes import code_of
from reports.formats.results import Results, judged
from reports.formats.speed import speed_lines, speed_table
from tests.histories import Held, History, tables

S = 1_000_000_000
MS = 1_000_000
CLIENTS = ("n1", "n2", "n3", "n4")


def real(*, lasts: int = 15 * S, **run: Any) -> History:
    timing = {
        "validity_ns": 300 * S, "poll_interval_ns": S, "request_timeout_ns": 5 * S, "wait_timeout_ns": 60 * S,
        "faults_end_ns": 0, "end_ns": lasts, "clients": len(CLIENTS),
    }  # fmt: skip
    return History(is_simulated=False, run={**timing, **run})


def serves(h: History, begin: int, end: int, *, every: int = 100 * MS) -> None:
    """The clients take turns: a grant, 50 ms of work, a release, each request in 5 ms."""
    for turn, at in enumerate(range(begin, end, every)):
        held = h.granted(
            CLIENTS[turn % len(CLIENTS)], call=at, sent=at + MS, applied=at + 5 * MS, returned=at + 6 * MS,
            token=at + 1, owner=f"owner-{at}", valid_for=300 * S,
        )  # fmt: skip
        h.believes(held, at + 6 * MS, at + 50 * MS, lost=at + 56 * MS, why=Op.RELEASE)
        h.released(held, call=at + 56 * MS, applied=at + 60 * MS, returned=at + 61 * MS)


def asks(h: History, at: int, outcome: Outcome, *, node: str = "n1", took: int = MS) -> None:
    h.read(node, at + took, sent=at, outcome=outcome)


def fails(h: History, begin: int, end: int, *, outcome: Outcome = Outcome.AMBIGUOUS, took: int = MS) -> None:
    """Every client asks once a second and gets nothing."""
    for at in range(begin, end, S):
        for place, node in enumerate(CLIENTS):
            asks(h, at + place * MS, outcome, node=node, took=took)


def results(*histories: History) -> Results:
    events, runs = tables(*histories)
    return judged(Summary.of(judge(events, runs), events, runs), title="t", classes={}, events=len(events))


def silences(one: Results) -> list[tuple[float, float]]:
    (answers,) = one.answers
    return [(round(s.begin_ns / S, 1), round(s.end_ns / S, 1)) for s in answers.silences]


def test_a_store_that_dies_in_the_middle_ends_in_exit_5() -> None:
    """Dead from 8.6 s of 15 s: a notice, a doubt, exit 5, and rates over the time that was answered."""
    h = real()
    serves(h, 0, 8_600 * MS)
    fails(h, 8_600 * MS, 15 * S)
    found = results(h)
    assert silences(found) == [(8.6, 14.6)]
    assert found.verdict == "inconclusive"
    assert code_of([found]) == 5
    assert found.reasons[0] == "the store went away at 8.6 s and never came back"
    assert "the store answered nothing from 8.6 s to 14.6 s (28 without an answer)" in found.notices[0]
    assert any("28 of 200 requests (14 %) were not answered" in notice for notice in found.notices)
    speed = found.speed
    assert speed is not None
    assert (speed.grants, round(speed.answered_ns / S, 1)) == (86, 8.6)
    assert speed.grants_per_s == pytest.approx(10, rel=0.01)
    assert speed.silent_share == pytest.approx(6 / 14.6, abs=0.01)
    assert "without the store" in "".join(speed_lines(speed))


@pytest.mark.parametrize(("allowed", "code", "element"), [((5,), 0, "<skipped"), ((3,), 5, "<error")])
def test_a_gate_may_allow_a_lost_store(allowed: tuple[int, ...], code: int, element: str, tmp_path: Path) -> None:
    """`--allow-exit 5` softens exit and JUnit alike; allowing 3 does not."""
    h = real()
    serves(h, 0, 8 * S)
    fails(h, 8 * S, 15 * S)
    found = results(h)
    assert code_of([found], allowed) == code
    write_run(tmp_path, *tables(h), found, allowed=allowed)
    assert element in (tmp_path / "junit.xml").read_text(encoding="utf-8")


def test_a_store_that_is_dead_from_the_start_ends_in_exit_5() -> None:
    """Not one request is served: the store is named before the missing grants are."""
    h = real()
    fails(h, 0, 15 * S)
    found = results(h)
    assert found.answers[0].lost_at_ns == 0
    assert code_of([found]) == 5
    assert found.reasons[0] == "the store went away at 0.0 s and never came back"
    assert "no client was ever granted the lock" in found.reasons


@pytest.mark.parametrize(("lasts", "code"), [(60, 0), (15, 3)])
def test_a_store_that_froze_and_came_back_is_always_told(lasts: int, code: int) -> None:
    """Frozen from 3 s to 9 s: a notice in every case, inconclusive where it is more than a fifth of the run."""
    h = real(lasts=lasts * S)
    serves(h, 0, 3 * S)
    for node in CLIENTS:
        asks(h, 3 * S, Outcome.AMBIGUOUS, node=node, took=5 * S)
        asks(h, 8_200 * MS, Outcome.APPLIED, node=node, took=800 * MS)
    serves(h, 9 * S, lasts * S)
    found = results(h)
    assert silences(found) == [(3.0, 9.0)]
    assert "the store answered nothing from 3.0 s to 9.0 s" in found.notices[0]
    assert found.answers[0].lost_at_ns is None
    assert code_of([found]) == code
    assert found.verdict == ("held" if code == 0 else "inconclusive")


def test_a_freeze_shorter_than_the_request_timeout_is_told_too() -> None:
    """Nothing failed: every request was answered, three seconds late."""
    h = real()
    serves(h, 0, 3 * S)
    for node in CLIENTS:
        asks(h, 3 * S, Outcome.APPLIED, node=node, took=3 * S)
    serves(h, 6 * S, 15 * S)
    found = results(h)
    assert silences(found) == [(3.0, 6.0)]
    assert "requests waited until then" in found.notices[0]
    assert found.answers[0].unanswered == 0


def test_a_slow_store_is_not_a_silent_one() -> None:
    """One client, every request takes 1.5 s: that is the store's speed. Pauses in which nobody asks are none either."""
    h = real(lasts=60 * S)
    for at in range(0, 30 * S, 1_600 * MS):
        asks(h, at, Outcome.APPLIED, took=1_500 * MS)
    for at in range(30 * S, 60 * S, 5 * S):
        asks(h, at, Outcome.APPLIED, took=1_500 * MS)
    found = results(h)
    assert silences(found) == []
    assert found.notices == []


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.PRECONDITION_FAILED, Outcome.THROTTLED])
def test_refusals_of_a_moment_are_answers(outcome: Outcome) -> None:
    """409, 412 and 429: the store is there, however often it says them."""
    h = real()
    serves(h, 0, 5 * S)
    fails(h, 5 * S, 15 * S, outcome=outcome)
    found = results(h)
    assert silences(found) == []
    assert (found.answers[0].unanswered, found.is_store_lost) == (0, False)


def test_a_store_that_refuses_everything_to_the_end_is_lost_too() -> None:
    """Credentials that expire: 403 from 5 s on. It answers, and serves nothing."""
    h = real()
    serves(h, 0, 5 * S)
    fails(h, 5 * S, 15 * S, outcome=Outcome.REJECTED)
    found = results(h)
    assert "the store refused every request from 5.0 s to 14.0 s (40 refused)" in found.notices[0]
    assert found.reasons[0] == "the store refused every request from 5.0 s on"
    assert found.answers[0].unanswered == 0
    assert code_of([found]) == 5


def test_a_request_that_the_store_does_not_know_is_answered() -> None:
    """A listing that is refused at the end says nothing against a store that serves the lock (exit code 3 at most)."""
    h = real()
    serves(h, 0, 10 * S)
    for at in (11 * S, 12 * S, 13 * S):
        h.write("n1", Op.NONE, sent=at, replied=at + MS, outcome=Outcome.REJECTED)
    assert not results(h).is_store_lost


def test_single_lost_replies_are_counted_and_are_no_silence() -> None:
    """Two connections that broke among hundreds: told with their share, held."""
    h = real()
    serves(h, 0, 15 * S)
    asks(h, 4 * S, Outcome.AMBIGUOUS)
    asks(h, 9 * S, Outcome.AMBIGUOUS, took=3 * S)
    found = results(h)
    assert silences(found) == []
    assert found.notices == ["2 of 302 requests (0.66 %) were not answered"]
    assert (found.verdict, code_of([found])) == ("held", 0)


def test_more_than_a_fifth_of_requests_without_an_answer_is_inconclusive() -> None:
    """A store that answers now and then all the time: no silence, and no evidence."""
    h = real()
    serves(h, 0, 15 * S, every=500 * MS)
    for at in range(0, 15 * S, 500 * MS):
        asks(h, at + 200 * MS, Outcome.AMBIGUOUS)
    found = results(h)
    assert silences(found) == []
    assert found.reasons == ["30 of 90 requests (33 %) were not answered, more than 20 %"]
    assert code_of([found]) == 3


def test_a_store_that_dies_in_the_last_moment_is_lost() -> None:
    """20 ms before the end: several requests were sent after the last answer, and none was answered."""
    h = real()
    serves(h, 0, 15 * S)
    for node in CLIENTS:
        asks(h, 15 * S, Outcome.AMBIGUOUS, node=node)
    found = results(h)
    assert found.is_store_lost
    assert code_of([found]) == 5


def test_requests_that_are_open_where_a_record_ends_are_no_loss() -> None:
    """A killed bench: what had been sent a moment before was simply not answered yet."""
    h = real(is_cut_off=True)
    serves(h, 0, 10 * S)
    h.run["end_ns"] = 10 * S
    events, runs = tables(h)
    at = events["at_ns"].to_numpy()
    cut = events.filter(pa.array(at <= 9_003 * MS))
    one = judged(Summary.of(judge(cut, runs), cut, runs), title="t", classes={}, events=len(cut))
    assert not one.is_store_lost


def test_what_a_dead_process_had_under_way_is_no_loss() -> None:
    """Two clients die with requests open, two seconds pass until the end: the store had answered everybody else."""
    h = real(end_ns=12 * S)
    serves(h, 0, 10 * S)
    for node in ("n3", "n4"):
        h.event(Kind.SENT, 8 * S, node, op=Op.READ, request=h.number())
        h.fault(node, 8 * S + MS, "crash", "begin")
    found = results(h)
    assert not found.is_store_lost
    assert (silences(found), found.answers[0].unanswered) == ([], 0)


def test_one_request_that_hangs_does_not_speak_for_the_store() -> None:
    """Sent in the middle, never answered, while everybody else is served to the end."""
    h = real()
    serves(h, 0, 10 * S)
    asks(h, 5 * S, Outcome.AMBIGUOUS, took=10 * S)
    found = results(h)
    assert silences(found) == []
    assert not found.is_store_lost


def test_a_simulation_cuts_its_networks_on_purpose() -> None:
    """S7's partition and the like: virtual time is not measured."""
    h = real()
    h.is_simulated = True
    serves(h, 0, 5 * S)
    fails(h, 5 * S, 15 * S)
    found = results(h)
    assert (found.answers, found.speed, found.notices) == ([], None, [])
    assert found.verdict == "held"


def waits_through(h: History, begin: int, end: int) -> Held:
    """n4 waits from before the release at `begin`, and is served when the store is back at `end`."""
    return h.granted("n4", call=begin - S, sent=end, applied=end + MS, returned=end + 2 * MS, token=end, owner="w",
                     valid_for=300 * S)  # fmt: skip


def test_a_lock_is_not_accused_of_waiting_for_a_store_that_was_away() -> None:
    """L3: released at 3 s, granted at 33 s. The bound is 12 s; the store was away from 3 s to 33 s."""
    h = real(lasts=60 * S)
    serves(h, 0, 3 * S)
    fails(h, 3 * S, 33 * S)
    served = waits_through(h, 3 * S, 33 * S)
    h.released(served, call=33_100 * MS, applied=33_101 * MS, returned=33_102 * MS)
    serves(h, 34 * S, 60 * S)
    found = results(h)
    assert silences(found) == [(3.0, 32.0)]
    assert found.clauses["L3"].verdict != "violated"
    assert found.liveness != "violated"
    assert code_of([found]) == 3


def test_a_lock_that_sleeps_through_a_release_is_accused() -> None:
    """The same without a request in between: the store was never asked, so it is the lock that waited."""
    h = real(lasts=60 * S)
    serves(h, 0, 3 * S)
    served = waits_through(h, 3 * S, 33 * S)
    h.released(served, call=33_100 * MS, applied=33_101 * MS, returned=33_102 * MS)
    serves(h, 34 * S, 60 * S)
    found = results(h)
    assert silences(found) == []
    assert found.clauses["L3"].verdict == "violated"


def test_a_client_that_the_dead_store_starved_accuses_nobody() -> None:
    """F2 promises a turn to whoever waits; not without a store."""
    h = real(claims=["F2"])
    serves(h, 0, 5 * S)
    h.fails("n9", call=4 * S, returned=15 * S)
    fails(h, 5 * S, 15 * S)
    assert results(h).clauses["F2"].verdict == "not_applicable"


def test_a_proven_violation_wins_over_a_dead_store() -> None:
    """Two believers at once, then the store dies: exit 1."""
    h = real()
    serves(h, 0, 5 * S)
    for node in ("n1", "n2"):
        held = Held(node, "main", h.number(), f"x-{node}", None, "")
        h.believes(held, 5 * S, 6 * S)
    fails(h, 7 * S, 15 * S)
    found = results(h)
    assert (found.verdict, found.is_store_lost, code_of([found])) == ("violated", True, 1)


def test_requests_over_time_add_up() -> None:
    """The share of unanswered requests, second by second: every request is in one stretch."""
    h = real()
    serves(h, 0, 8 * S)
    fails(h, 8 * S, 15 * S)
    (answers,) = results(h).answers
    assert sum(part.requests for part in answers.over_time) == answers.requests
    assert [part.unanswered for part in answers.over_time] == [0] * 8 + [4] * 7
    assert answers.over_time[-1].end_ns == answers.run_ns


def test_each_of_several_runs_is_named() -> None:
    """Joined histories: the notice says which run's store was away, and no speed speaks for both."""
    dead, fine = real(), real()
    serves(dead, 0, 8 * S)
    fails(dead, 8 * S, 15 * S)
    serves(fine, 0, 15 * S)
    found = results(dead, fine)
    assert found.reasons[0].startswith("run 0: the store went away")
    assert (len(found.answers), found.speed) == (2, None)


def test_the_figures_of_a_crowd_by_hand() -> None:
    """n1 is served twice; n2 once, and its lease expires; n3 waits to the end, and n4 asks twice in vain."""
    h = real(lasts=20 * S)
    first = h.granted("n1", call=0, sent=MS, applied=2 * MS, returned=3 * MS, owner="a", valid_for=300 * S)
    h.released(first, call=S, applied=S + MS, returned=S + 2 * MS)
    h.granted("n2", call=S // 2, sent=1_200 * MS, applied=1_201 * MS, returned=1_202 * MS, owner="b", valid_for=5 * S)
    h.granted("n1", call=2 * S, sent=8 * S - MS, applied=8 * S, returned=8 * S + MS, owner="c", valid_for=300 * S)
    h.call("n3", Op.ACQUIRE, 3 * S)
    h.fails("n4", call=S, returned=10 * S)
    h.fails("n4", call=10 * S, returned=19 * S)
    speed = results(h).speed
    assert speed is not None
    assert (speed.calls, speed.grants, speed.clients_asked, speed.clients_served) == (6, 3, 4, 2)
    assert speed.jain == pytest.approx(9 / (4 * 5)), "of all that asked"
    sent = sum(row["kind"] == "sent" for row in h.tables()[0].to_pylist())
    assert speed.requests_per_grant == pytest.approx(sent / 3)
    waits = (speed.wait_p50_ns, speed.wait_p99_ns, speed.wait_max_ns)
    assert waits == (702 * MS, 6 * S + MS, 6 * S + MS), "each is a wait that somebody had"
    assert speed.handoff_p50_ns == speed.handoff_max_ns == 201 * MS, "an expiry is no hand-off of a release"
    assert (speed.longest_wait_client, speed.longest_wait_ns) == ("n3", 17 * S)
    assert (speed.longest_drought_client, speed.longest_drought_ns) == ("n4", 18 * S)


def test_a_drought_spans_the_calls_of_one_client() -> None:
    """n3 asks three times before it is served: its longest wait is one call, its drought all three."""
    h = real(lasts=10 * S)
    serves(h, 0, S)
    h.fails("n3", call=2 * S, returned=4 * S)
    h.fails("n3", call=4_500 * MS, returned=6 * S)
    h.granted("n3", call=6_500 * MS, sent=7 * S, applied=7 * S, returned=7 * S, token=10**12, owner="late",
              valid_for=300 * S)  # fmt: skip
    speed = results(h).speed
    assert speed is not None
    assert (speed.longest_wait_client, speed.longest_wait_ns) == ("n3", 2 * S)
    assert (speed.longest_drought_client, speed.longest_drought_ns) == ("n3", 5 * S)
    assert (speed.calls, speed.grants, speed.clients_asked, speed.clients_served) == (13, 11, 4, 4)


def test_the_shares_of_time_are_those_of_the_story() -> None:
    """Held 50 of every 100 ms, nobody waits but for the asking itself: the rest is idle."""
    h = real(lasts=10 * S)
    serves(h, 0, 10 * S)
    speed = results(h).speed
    assert speed is not None
    assert speed.held_share == pytest.approx(0.5, abs=0.01)
    assert speed.handoff_share == pytest.approx(0.06, abs=0.01)
    assert speed.idle_share == pytest.approx(0.44, abs=0.01)
    assert speed.jain == pytest.approx(1)


def test_a_crowd_that_never_asked_was_not_put_to_the_test() -> None:
    """512 clients were named and four asked: told in every case, and no evidence where most of them are missing."""
    h = real(lasts=10 * S, clients=512)
    serves(h, 0, 10 * S)
    found = results(h)
    assert "508 of 512 clients never asked for the lock" in found.notices
    assert found.reasons == ["only 4 of 512 clients ever asked for the lock"]
    assert code_of([found]) == 3


@pytest.mark.parametrize(("processes", "reasons"), [
    (1, []), (2, ["only clients of 1 of 2 processes were ever granted the lock"]), (None, []),
])  # fmt: skip
def test_a_process_that_was_never_served_was_not_put_to_the_test(processes: int | None, reasons: list[str]) -> None:
    """Several processes: all grants went to the clients of the first, so nothing excluded anybody across processes."""
    h = real(lasts=10 * S, processes=processes)
    serves(h, 0, 10 * S)
    other = h.number() + REQUESTS_PER_PROCESS
    h.event(Kind.CALL, S, "n8", op=Op.ACQUIRE, request=other)
    h.returns("n8", Op.ACQUIRE, 2 * S, other, Outcome.PRECONDITION_FAILED)
    found = results(h)
    assert found.reasons == reasons
    speed = found.speed
    assert speed is not None
    assert (speed.processes, speed.processes_served) == (processes, None if processes is None else 1)


def test_the_response_of_an_open_loop_counts_from_the_intended_start() -> None:
    """A client that was busy with its last call does not hide the wait (coordinated omission). Both are told."""
    h = real(lasts=10 * S)
    for turn, late in enumerate((0, 2 * S, 4 * S)):
        at = S + turn * S
        held = h.granted("n1", call=at, sent=at + MS, applied=at + 5 * MS, returned=at + 6 * MS, token=turn + 1,
                         owner=f"owner-{turn}", valid_for=300 * S, late_ns=late)  # fmt: skip
        h.released(held, call=at + 50 * MS, applied=at + 55 * MS, returned=at + 56 * MS)
    speed = results(h).speed
    assert speed is not None
    assert (speed.wait_p50_ns, speed.wait_max_ns) == (6 * MS, 6 * MS)
    assert (speed.response_p50_ns, speed.response_max_ns) == (2 * S + 6 * MS, 4 * S + 6 * MS)
    assert speed.late_max_ns == 4 * S
    assert "from the intended start median 2.01 s" in speed_lines(speed)[0]
    assert any(name == "call began late by at most" for name, _ in speed_table(speed)[1])


def test_a_closed_loop_intends_nothing() -> None:
    """Without an intended start there is no response time, and no line of one."""
    h = real(lasts=10 * S)
    serves(h, 0, 10 * S)
    speed = results(h).speed
    assert speed is not None
    assert (speed.response_p50_ns, speed.late_max_ns) == (None, None)
    assert "intended" not in speed_lines(speed)[0]


def test_a_run_without_a_grant_has_no_rate() -> None:
    """What is unknown is null, and no sentence is made of it."""
    h = real(lasts=10 * S)
    h.fails("n1", call=0, returned=5 * S)
    h.write("n1", Op.ACQUIRE, sent=S, replied=S + MS, outcome=Outcome.PRECONDITION_FAILED)
    speed = results(h).speed
    assert speed is not None
    assert (speed.wait_p50_ns, speed.jain, speed.requests_per_grant) == (None, None, None)
    assert speed_lines(speed)[0] == "0 grants; 1 of 1 calls not granted"
