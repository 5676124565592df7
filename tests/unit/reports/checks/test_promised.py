"""Departures of a run from the promise of a lock: shown beside each violation, and never instead of it."""

from __future__ import annotations

import pytest

from lockref.words import Op
from reports.account import summarised_results
from reports.checks.promised import READING_NS
from reports.checks.summary import Summary
from reports.formats.junit import junit_xml
from tests.histories import History, summarised, timed

S = 1_000_000_000
PROMISED = {"drift_bound_ns": S // 2, "validity_ns": 10 * S, "poll_interval_ns": S, "request_timeout_ns": S // 3,
            "wait_timeout_ns": 30 * S, "faults_end_ns": 0}  # fmt: skip


def overlapping(**wall_ahead: int) -> History:
    """n1 holds until 9 s; n2 is granted at 6 s, and n3 asks. So S3 and S5 break, whatever the clocks say."""
    h = History(run=dict(PROMISED), wall_ahead=wall_ahead)
    # The kernel stamps a fault with true time.
    h.fault("store", 0, "delay", "fired")
    a = h.granted("n1", call=0, applied=1 * S, returned=2 * S, token=1, valid_for=9 * S)
    h.fails("n3", call=3 * S, returned=4 * S)
    b = h.granted("n2", call=5 * S, applied=6 * S, returned=7 * S, token=2, valid_for=10 * S)
    h.believes(a, 2 * S, 9 * S)
    h.believes(b, 7 * S, 8 * S)
    return h


def left(h: History, clause: str) -> list[str]:
    found = h.verdict(clause)
    assert found["verdict"] == "violated"
    return [each["text"] for each in found["witness"].get("beyond_promise", [])]


@pytest.mark.parametrize(
    ("wall_ahead", "told"),
    [
        pytest.param({"n2": 3 * S}, ["n2's clock is 3 s ahead; the lock is promised 500 ms"], id="ahead"),
        pytest.param({"n2": -3 * S}, ["n2's clock is 3 s behind; the lock is promised 500 ms"], id="behind"),
        pytest.param(
            {"n1": -S * 2 // 5, "n2": S * 2 // 5},
            ["n2's clock is 800 ms ahead of n1's; the lock is promised 500 ms"],
            id="each within the bound, and apart",
        ),
        pytest.param({"n2": S * 2 // 5}, [], id="within the bound"),
        pytest.param({}, [], id="clocks agree"),
    ],
)
def test_a_clock_beyond_the_bound_is_named_beside_the_violation(wall_ahead, told):
    """The verdict stays violated, whatever the plan did to the clocks."""
    assert left(overlapping(**wall_ahead), "S3") == told


def test_nobody_is_told_of_a_bound_that_nobody_described():
    """A run without a row in the runs table has no known bound."""
    h = overlapping(n2=3 * S)
    h.run["is_inferred"] = True
    found = h.verdict("S3")
    assert "beyond_promise" not in found["witness"]


@pytest.mark.parametrize(("over_ns", "is_told"), [(0, False), (1, True)])
def test_a_real_run_reads_its_two_clocks_one_after_the_other(over_ns, is_told):
    """S5: up to ten milliseconds beyond the bound are the reading's, on a machine that was never late."""
    h = overlapping(n2=S // 2 + READING_NS + over_ns)
    h.is_simulated = False
    h.run["request_timeout_ns"] = 5 * S
    assert bool(left(h, "S5")) is is_told


def test_of_two_clients_the_one_that_left_true_time_is_named():
    """S5: nobody is a third clock, but the kernel stamps what it does with true time."""
    h = History(run=dict(PROMISED), wall_ahead={"n2": -3 * S})
    h.granted("n1", call=0, applied=1 * S, returned=2 * S, token=1, valid_for=9 * S)
    h.granted("n2", call=3 * S, applied=4 * S, returned=5 * S, token=2, valid_for=9 * S)
    assert left(h, "S5") == ["n2's clock is 3 s behind; the lock is promised 500 ms"]


def test_a_store_that_breaks_its_word_is_not_excused_by_a_clock():
    """S1: what a store applies has nothing to do with anybody's clock."""
    h = overlapping(n2=3 * S)
    h.write("n3", Op.ACQUIRE, sent=8 * S, if_version="another", owner="owner-n3", token=3, valid_until=20 * S)
    assert left(h, "S1") == []


def test_a_clock_that_goes_wrong_after_the_violation_is_not_told():
    """Only what came before can have mattered."""
    h = overlapping()
    h.wall_ahead["n4"] = 60 * S
    h.fails("n4", call=20 * S, returned=21 * S)
    assert left(h, "S3") == []


def paused(
    *, op: Op, token: int | None, begin: int = 19, until: int | None = 40, who: str = "n1", believes_until: int = 19,
    released: int | None = None,
) -> History:  # fmt: skip
    """n1 is paused right after its guard's yes, and writes when n2 has written. TIMING: a lease of 100.

    who: another one is paused. released: n1 has given back by then.
    """
    h = timed()
    a = h.granted("n1", call=0, applied=2, returned=3, token=token, valid_for=18)
    h.believes(a, 3, believes_until)
    if released is not None:
        h.released(a, call=released, applied=released, returned=released)
    b = h.granted("n2", call=10, applied=22, returned=23, token=None if token is None else token + 1)
    h.believes(b, 23, 25)
    h.effect(b, at=25, op=op)
    h.effect(a, at=41, op=op, attempt=1)
    h.fault(who, begin, "pause", "begin")
    if until is not None:
        h.fault(who, until, "pause", "end")
    return h


@pytest.mark.parametrize(
    ("op", "token", "why"),
    [
        (Op.APPEND, 1, "the resource checks no tokens"),
        (Op.WRITE, None, "the lock shows no token that the resource could check"),
        (Op.INCREMENT, None, "the lock shows no token that the resource could check"),
    ],
)
def test_a_pause_beyond_the_lease_is_named_where_no_token_stops_the_late_write(op, token, why):
    """S4 stays violated: the plan asked for what no such lock prevents."""
    (told,) = left(paused(op=op, token=token), "S4")
    assert (
        told
        == f"n1 was paused for 21 ns with 1 ns of its lease left, and {why}; only a token stops what it writes then"
    )


def test_a_pause_says_nothing_about_a_resource_that_checks_tokens():
    """A resource that let an old token in is the violation itself, with or without a pause."""
    assert left(paused(op=Op.WRITE, token=1), "S4") == []


def test_a_pause_within_the_lease_is_not_told():
    """Such a pause is promised: a lock must survive it."""
    assert left(paused(op=Op.APPEND, token=1, until=20), "S4") == []


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"begin": 21}, id="begun when the lease was over"),
        pytest.param({"released": 12}, id="begun when the grant was given back"),
        pytest.param({"who": "n3"}, id="of a client that held nothing"),
    ],
)
def test_a_pause_that_met_no_grant_is_not_told(how):
    """S4: such a pause is not why the write came late."""
    assert left(paused(op=Op.APPEND, token=1, **how), "S4") == []


def test_a_pause_without_an_end_lasts_to_the_end_of_the_run():
    """S4: the run ends at 41, so it lasted for 22."""
    (told,) = left(paused(op=Op.APPEND, token=1, until=None), "S4")
    assert told.startswith("n1 was paused for 22 ns with 1 ns of its lease left")


@pytest.mark.parametrize(("begin", "until", "told"), [(5, 30, "25 ns with 15 ns"), (10, 22, "21 ns with 1 ns")])
def test_of_several_pauses_of_a_client_the_longest_is_told(begin, until, told):
    """S4: one line for each client. Here another pause lasts from 19 to 40."""
    h = paused(op=Op.APPEND, token=1)
    h.fault("n1", begin, "pause", "begin", "f2")
    h.fault("n1", until, "pause", "end", "f2")
    (only,) = left(h, "S4")
    assert only.startswith(f"n1 was paused for {told} of its lease left")


def test_a_pause_explains_no_overlap_of_beliefs():
    """S3: a lock is promised that it may be paused; a client that is paused says nothing."""
    h = paused(op=Op.APPEND, token=1, believes_until=24)
    assert left(h, "S3") == []
    assert left(h, "S4") != []


@pytest.mark.parametrize("op", [Op.APPEND, Op.INCREMENT])
@pytest.mark.parametrize("is_simulated", [True, False])
def test_a_late_write_to_a_list_or_a_counter_without_tokens_is_counted(op, is_simulated):
    """S4: the guard's yes was right, and nobody was paused. The update that it overtook is no violation either."""
    h = History(is_simulated=is_simulated)
    a = h.granted("n1", call=0, applied=2, returned=3, valid_for=18)
    h.believes(a, 3, 19)
    b = h.granted("n2", call=10, applied=22, returned=23)
    h.believes(b, 23, 31)
    h.effect(b, at=25, op=op)
    h.effect(a, at=30, op=op, attempt=1, base=0)
    h.effect(b, at=32, op=op, base=1)
    assert h.verdict("S4")["verdict"] == "held"
    assert summarised(h).reach["late_write_without_token"] == (1, 1)


def test_a_lost_update_beside_a_counted_write_stays_harm():
    """S4: only the update right behind the late write lost to it."""
    h = History()
    a = h.granted("n1", call=0, applied=2, returned=3, valid_for=18)
    h.believes(a, 3, 19)
    b = h.granted("n2", call=10, applied=22, returned=23)
    h.believes(b, 23, 26)
    h.effect(b, at=25, op=Op.APPEND)
    h.effect(a, at=30, op=Op.APPEND, attempt=1, base=0)
    c = h.granted("n3", call=31, applied=60, returned=61)
    h.believes(c, 61, 63)
    h.effect(c, at=62, op=Op.APPEND, base=2)
    d = h.granted("n2", call=64, applied=300, returned=301)
    h.believes(d, 301, 302)
    h.effect(d, at=302, op=Op.APPEND, base=1)
    assert h.verdict("S4")["verdict"] == "violated"


def test_terminal_and_junit_tell_it():
    """Wherever a failure is shown, the departures of its run from the promise are shown, too."""
    summary: Summary = summarised(overlapping(n2=3 * S))
    results = summarised_results(summary, title="t", scenario="s", provider="p", provenance={})
    told = "n2's clock is 3 s ahead; the lock is promised 500 ms"
    blocks = {failure.clause: failure.block for failure in results.failures}
    assert f"unpromised {told}" in blocks["S3"]
    assert any(entry["text"] == told for entry in results.failures[0].witness["beyond_promise"])
    assert "3 s ahead; the lock is promised 500 ms" in junit_xml([results])
