"""Summaries, verdicts and classes: what single judgements add up to."""

from __future__ import annotations

import pytest

from lockref.words import Kind, Op
from reports.checks import decide, judge
from reports.checks.spec import CAUSES_FIRST, CLAUSES
from reports.checks.summary import Summary
from tests.histories import History, summarised, tables, timed, verdict


def test_a_violation_outranks_what_did_not_happen():
    """What was seen was seen, whatever else was not."""
    h = timed(must_happen=["partition"])
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 9)
    h.believes(h.granted("n2", call=0, applied=3, returned=4), 4, 8)
    assert decide(summarised(h)).safety == "violated"


def test_liveness_has_a_verdict_of_its_own():
    """A lock may be safe and stuck."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.released(a, call=3, applied=4)
    h.granted("n2", call=0, applied=60, returned=61)
    verdicts = decide(summarised(h))
    assert (verdicts.safety, verdicts.liveness) == ("held", "violated")


def test_without_timing_liveness_is_not_said_to_hold():
    """No bound can be made of a runs table without V, p, q and w: L1 to L6 do not apply, so neither does liveness."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    verdicts = decide(summarised(h))
    assert {verdicts.clauses[name] for name in ("L1", "L2", "L3", "L5", "L6")} == {"not_applicable"}
    assert verdicts.safety == "held"


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


def test_a_summary_ranks_and_adds():
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


def test_of_one_run_causes_are_told_before_what_follows_from_them():
    """n1's late release without a condition (S6) is why the token comes again (S2) and two believe (S3)."""
    h = timed()
    a = h.granted("n1", call=0, applied=1, returned=2, token=1, valid_for=10)
    h.believes(h.granted("n2", call=0, applied=20, returned=21, token=2), 21, 60)
    h.released(a, call=22, applied=23, if_version="")
    h.believes(h.granted("n3", call=24, applied=30, returned=31, token=2), 31, 50)
    events, runs = tables(h)
    found = [finding.clause for finding in Summary.of(judge(events, runs), events, runs).findings]
    assert [clause for clause in found if clause in ("S6", "S2", "S3")] == ["S6", "S2", "S3"]


def test_every_clause_has_a_place_among_causes():
    """A clause that is added later must be put where it belongs."""
    assert sorted(CAUSES_FIRST) == sorted(CLAUSES)
