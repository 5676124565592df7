"""Thresholds: their text, exact quantiles, no verdict without samples, and the samples of each measure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lockref.errors import HistoryUnreadable
from lockref.history import detail
from lockref.words import Kind, Op, Outcome
from reports.checks import judge
from reports.checks.thresholds.kept import SAMPLES_SCHEMA, Samples, judged_threshold
from reports.checks.thresholds.limits import MEASURES, parse_threshold
from reports.checks.verdicts import Counts, decide
from scenarios.definition.load import load_scenario
from scenarios.run import simulate_many
from tests.histories import History, summarised, tables, timed

S = 1_000_000_000


def samples(values_s: list[float], late_s: float = 0) -> Samples:
    found = Samples()
    rows = [
        {"run": run, "measure": "wait", "value": int(value * S), "late_ns": int(late_s * S), "client": f"n{run}"}
        for run, value in enumerate(values_s, 1)
    ]
    found.add(pa.Table.from_pylist(rows, SAMPLES_SCHEMA))
    return found


@pytest.mark.parametrize(
    ("text", "verdict", "measured_s"),
    [
        ("wait.p50 <= 50s", "held", 50),
        ("wait.p50 < 50s", "violated", 50),
        ("wait.p99 < 100s", "held", 99),
        ("wait.max < 100s", "violated", 100),
        ("wait < 100s", "violated", 100),
        ("wait.mean <= 50.5s", "held", 50.5),
    ],
)
def test_quantiles_are_samples(text: str, verdict: str, measured_s: float) -> None:
    """Nearest rank over 1 s to 100 s: the 99th percentile is 99 s, and a strict limit excludes itself.

    A limit that names no statistic is one on each sample.
    """
    kept = judged_threshold(text, samples([float(second) for second in range(1, 101)]))
    assert (kept.verdict, kept.measured, kept.samples) == (verdict, int(measured_s * S), 100)


@pytest.mark.parametrize(("text", "measured_s"), [("wait.p50 < 1h", 4), ("wait.p90 < 1h", 7), ("wait.p99 < 1h", 7)])
def test_a_quantile_of_few_samples_is_the_next_larger_one(text: str, measured_s: int) -> None:
    """Nearest rank is rounded up: of seven samples the 90th and the 99th percentile are the longest."""
    kept = judged_threshold(text, samples([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
    assert kept.measured == measured_s * S


def test_the_worst_sample_is_the_largest_of_its_batch() -> None:
    """A limit that broke is told with the run and the client that broke it most."""
    assert str(judged_threshold("wait < 2s", samples([1.0, 3.0, 2.0]))).endswith("worst 3.000 s: n2, run 2")


def test_the_mean_is_no_median() -> None:
    """One long wait among short ones raises the mean alone."""
    assert judged_threshold("wait.mean < 2s", samples([1.0, 1.0, 7.0])).measured == 3 * S


def test_a_limit_counts_the_runs_that_ask_for_it() -> None:
    """A wait of 90 in a run without the limit is no sample of it."""
    limited, free = timed(thresholds=["wait <= 50ns"]), timed()
    limited.granted("n1", call=0, applied=1, returned=2)
    free.granted("n1", call=0, applied=89, returned=90)
    assert judge(*tables(limited, free)).threshold_samples["run"].to_pylist() == [0]
    ((_, kept),) = summarised(limited, free).thresholds
    assert (kept.verdict, kept.samples, kept.measured) == ("held", 1, 2)


@pytest.mark.parametrize(
    ("text", "limit", "is_strict"),
    [
        ("record_growth < 2kB", 2_000, True),
        ("record_growth <= 3MiB", 3 * 1024 * 1024, False),
        ("record_growth < 1KiB", 1_024, True),
        ("requests_per_grant <= 4.5", 4.5, False),
    ],
)
def test_a_limit_is_read_in_its_unit(text: str, limit: float, is_strict: bool) -> None:
    """Units of a thousand and of 1,024 bytes are different ones, and a number may have a fraction."""
    threshold = parse_threshold(text)
    assert (threshold.limit, threshold.is_strict) == (limit, is_strict)
    assert threshold.allows(limit) is not is_strict


@pytest.mark.parametrize("measure", MEASURES)
def test_no_samples_is_no_verdict(measure: str) -> None:
    """A limit on what never happened is inconclusive, not kept; for every measure."""
    unit = {"a d": "s", "a n": "", "a s": "B"}[MEASURES[measure][:3]]
    h = History(run={"thresholds": [f"{measure} < 1{unit}"]})
    h.fault("n1", 5, "pause", "fired")
    ((_, kept),) = summarised(h).thresholds
    assert (kept.verdict, kept.measured) == ("inconclusive", None)
    assert "no samples" in str(kept)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("wait", 5),
        ("wiat.p99 < 1s", 1),
        ("wait.p98 < 1s", 6),
        ("wait.p99 > 1s", 10),
        ("wait p98 < 1s", 6),
        ("wait.p99 < 1", 12),
        ("requests_per_grant < 5s", 22),
        ("requests_per_grant < 1e9", 22),
        ("record_growth < 5", 17),
        ("record_growth.max <= 5 TB", 22),
        ("objects_left < -1", 16),
        ("wait.max < 1s or less", 12),
        (f"wait < {'9' * 300}s", 0),
    ],
)
def test_other_forms_are_refused_at_their_place(text: str, column: int) -> None:
    """Unknown measures and statistics, other signs, and limits without their unit are errors that say where."""
    with pytest.raises(ValueError, match="is ") as refused:
        parse_threshold(text)
    assert f"column {column}: " in str(refused.value) if column else "expected a limit such as" in str(refused.value)


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("hand-off p99 < 2s", "handoff.p99 < 2s"),
        ("hand-off-after-death <= 3s", "handoff_after_death <= 3s"),
        ("requests-per-grant mean < 40", "requests_per_grant.mean < 40"),
        ("wait p50 <= 1s", "wait.p50 <= 1s"),
        ("wait.p50 <= 1s", "wait.p50 <= 1s"),
    ],
)
def test_a_limit_is_read_as_people_say_it(spoken: str, written: str) -> None:
    """A dash in a measure, and a blank before the statistic. What is kept and told is the one form of the grammar."""
    assert parse_threshold(spoken) == parse_threshold(written)
    assert parse_threshold(spoken).text == written


def test_a_word_that_is_nearly_right_is_named() -> None:
    """The message of a slip says what was meant."""
    with pytest.raises(ValueError, match="Did you mean 'handoff'"):
        parse_threshold("handof.p99 < 1s")


def test_a_threshold_in_a_foreign_history_is_read_strictly() -> None:
    """The judge does not guess what a runs table that somebody else wrote may mean."""
    with pytest.raises(HistoryUnreadable, match="run 0: a threshold is 'speed < 1s'; column 1"):
        judge(*tables(History(run={"thresholds": ["speed < 1s"]})))


def test_a_simulated_batch_has_samples_for_each_measure_of_time() -> None:
    """After a crash the next grant comes within a validity and the drift allowance, and a bit."""
    from lockref.lab.loading import load_provider
    from reports.checks.summary import Summary

    texts = ["wait.max < 30s", "hold.max < 9s", "handoff.max < 2s", "handoff_after_death.max < 13s"]
    scenario = load_scenario("e03").demanding(texts)
    batch = simulate_many(scenario, load_provider("hardened"), range(1, 9))
    kept = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs).thresholds
    assert [each.verdict for _, each in kept] == ["held"] * 4, [str(each) for _, each in kept]


@pytest.mark.parametrize(
    ("limit_s", "late_s", "verdict"), [(4, 0, "violated"), (4, 2, "inconclusive"), (2, 2, "violated"), (5, 2, "held")]
)
def test_a_limit_is_not_broken_by_a_late_machine(limit_s: int, late_s: int, verdict: str) -> None:
    """Waits of 5 s, of which 2 s may be the machine's: only what is left can break a limit."""
    kept = judged_threshold(f"wait.max <= {limit_s}s", samples([5.0], late_s=late_s))
    assert kept.verdict == verdict
    assert kept.measured == 5 * S, "the figure is told as it was measured"
    assert ("a late machine may be 2.000 s" in str(kept)) == (verdict == "inconclusive")


def test_parties_are_limited_each_by_itself_and_counted_in_any_order() -> None:
    """A figure of one lock says nothing of another one; the worst sample is that of the lower run."""
    parts = []
    for party, values in ((("s", "a"), [3.0]), (("s", "b"), [9.0]), (("s", "a"), [1.0, 3.0])):
        counts = Counts()
        counts.limits[party, "wait < 2s"] = samples(values)
        parts.append(counts)
    for order in (parts, parts[::-1]):
        total = Counts()
        for part in order:
            copy = Counts()
            copy.add_counts(part)
            total.add_counts(copy)
        told = {party: (kept.samples, str(kept)) for party, kept in total.thresholds}
        assert told[("s", "a")] == (3, "wait < 2s: 3.000 s over 3 samples; worst 3.000 s: n1, run 1")
        assert told[("s", "b")][0] == 1
        assert decide(total).liveness == "violated"


def sampled(history: History, measure: str) -> list[tuple[Any, ...]]:
    """value, client, lock and instant of each sample of a measure."""
    unit = {"a d": "s", "a n": "", "a s": "B"}[MEASURES[measure][:3]]
    history.run["thresholds"] = [f"{measure} < 1{unit}"]
    rows = judge(*tables(history)).threshold_samples.to_pylist()
    assert {row["measure"] for row in rows} <= {measure}
    return [(row["value"], row["client"], row["lock"], row["at_ns"]) for row in rows]


def test_nothing_is_measured_unasked() -> None:
    """Bounds are off unless a run demands them."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    assert len(judge(*tables(h)).threshold_samples) == 0


def test_requests_per_grant_counts_all_that_a_grant_cost() -> None:
    """From the grant before on, by whatever client and about whatever object; the rest counts for the last grant."""
    h = History()
    first = h.granted("n1", call=0, sent=1, applied=2, returned=3, token=1)
    h.read("n2", 4)
    h.released(first, call=5, applied=5, returned=5)
    h.event(Kind.SENT, 6, "n2", op=Op.READ, request=h.number(), lock="fence")
    h.granted("n2", call=4, sent=7, applied=8, returned=9, token=2)
    h.read("n1", 10)
    h.read("n1", 11)
    assert [row[:3] for row in sampled(h, "requests_per_grant")] == [(1, "n1", h.lock), (6, "n2", h.lock)]


def test_early_denial_is_measured_by_the_callers_clock() -> None:
    """A no after 10 s of 40 s is 30 s early; one after 41 s is none, nor one of `try_lock` or of the run's end."""
    h = History()
    for node, begun, over, timeout in (("n1", 0, 10, 40), ("n2", 0, 41, 40), ("n3", 0, 1, None)):
        request = h.call(node, Op.ACQUIRE, begun * S, timeout_ns=timeout and timeout * S)
        h.returns(node, Op.ACQUIRE, over * S, request, Outcome.PRECONDITION_FAILED)
    cut = h.call("n4", Op.ACQUIRE, 0, timeout_ns=40 * S)
    h.event(Kind.RETURN, S, "n4", op=Op.ACQUIRE, request=cut, outcome=Outcome.PRECONDITION_FAILED,
            detail=detail(cut_short=True))  # fmt: skip
    assert sampled(h, "early_denial") == [(30 * S, "n1", h.lock, 10 * S), (0, "n2", h.lock, 41 * S)]


def test_a_drought_spans_the_calls_of_one_client_and_a_standstill_those_of_all() -> None:
    """n2 asks from 4 to 30 in two calls; in that time n1 was granted the lock once, so the lock stood still less."""
    h = timed(think_ns=100, validity_ns=1000)
    first = h.granted("n1", call=0, sent=1, applied=2, returned=3, token=1, valid_for=1000)
    h.fails("n2", call=4, returned=10)
    h.released(first, call=11, applied=12, returned=13)
    again = h.granted("n1", call=14, sent=15, applied=16, returned=17, token=2, valid_for=1000)
    h.released(again, call=18, applied=19, returned=20)
    h.granted("n2", call=12, sent=28, applied=29, returned=30, token=3)
    assert sorted(sampled(h, "drought")) == sorted(
        [(3, "n1", h.lock, 3), (3, "n1", h.lock, 17), (26, "n2", h.lock, 30)]
    )
    assert sorted(sampled(h, "standstill")) == sorted(
        [(3, "n1", h.lock, 3), (13, "n1", h.lock, 17), (13, "n2", h.lock, 30)]
    )


def test_a_standstill_is_of_one_lock_and_lasts_beyond_its_last_grant() -> None:
    """Waits for two locks at the same time are two; n1 goes on waiting after n2 was granted the lock."""
    h = timed(think_ns=1)
    h.fails("n1", call=0, returned=50)
    h.granted("n2", call=5, sent=19, applied=20, returned=20, token=1)
    h.lock = "other.lock"
    h.fails("n3", call=30, returned=100)
    assert sorted((row[0], row[1], row[2]) for row in sampled(h, "standstill")) == sorted(
        [(20, "n2", "table.lock"), (30, "n1", "table.lock"), (70, "n3", "other.lock")]
    )


def test_an_early_no_counts_from_the_begin_of_its_run_and_by_its_callers_clock() -> None:
    """Of 40 s the caller's clock showed 30, which is all that a lock can go by; the real run began at 100 s."""
    h = History(run={"world": "real"}, is_simulated=False, mono_ahead={"n1": {105 * S: 20 * S}})
    request = h.call("n1", Op.ACQUIRE, 100 * S, timeout_ns=40 * S)
    h.returns("n1", Op.ACQUIRE, 110 * S, request, Outcome.PRECONDITION_FAILED)
    assert sampled(h, "early_denial") == [(10 * S, "n1", h.lock, 10 * S)]


def test_a_request_about_several_locks_is_one_request() -> None:
    """A body that tells of two locks has a row for each of them."""
    h = History()
    request = h.number()
    for lock in (h.lock, "second"):
        h.event(Kind.SENT, 1, "n1", op=Op.READ, request=request, lock=lock)
    h.granted("n1", call=0, sent=2, applied=3, returned=4, token=1)
    assert [row[:2] for row in sampled(h, "requests_per_grant")] == [(2, "n1")]


def test_what_a_refused_write_would_have_made_is_not_left() -> None:
    """The mark of n2 was never there."""
    h = History()
    h.granted("n1", call=0, sent=1, applied=2, returned=3, token=1)
    h.lock = "mark"
    h.write("n2", Op.WRITE, sent=4, if_version="v9", outcome=Outcome.PRECONDITION_FAILED)
    assert [row[:2] for row in sampled(h, "objects_left")] == [(1, "n1")]


def test_objects_left_are_those_that_a_client_wrote_and_nobody_deleted() -> None:
    """The lock's record stays, a waiter's mark is deleted, and what an operator put there is not the lock's."""
    h = History()
    h.granted("n1", call=0, sent=1, applied=2, returned=3, token=1)
    h.operator(Op.WRITE, 4)
    for at, op, key in ((5, Op.WRITE, "mark-1"), (7, Op.WRITE, "mark-2"), (9, Op.DELETE, "mark-1")):
        request = h.number()
        h.event(Kind.SENT, at, "n2", op=op, request=request, lock=key)
        h.event(Kind.APPLIED, at, "n2", op=op, request=request, lock=key, outcome=Outcome.APPLIED)
        h.event(Kind.REPLIED, at + 1, "n2", op=op, request=request, lock=key, outcome=Outcome.APPLIED)
    assert sampled(h, "objects_left") == [(2, "n2", "mark-2", 7)]


@pytest.mark.parametrize(("version", "left"), [("v9", 1), ("", 0)])
def test_what_nobody_answered_is_known_by_a_later_look(version: str, left: int) -> None:
    """In a real run only answers tell what landed: a write without one counts once somebody has read it."""
    h = History(is_simulated=False)
    for at, op, outcome in ((1, Op.WRITE, Outcome.APPLIED), (3, Op.DELETE, Outcome.AMBIGUOUS)):
        request = h.number()
        h.event(Kind.SENT, at, "n1", op=op, request=request, lock="k")
        h.event(Kind.REPLIED, at + 1, "n1", op=op, request=request, lock="k", outcome=outcome)
    h.call("n1", Op.ACQUIRE, 0)
    request = h.number()
    h.event(Kind.SENT, 5, "n2", op=Op.READ, request=request, lock="k")
    h.event(Kind.REPLIED, 6, "n2", op=Op.READ, request=request, lock="k", outcome=Outcome.APPLIED, version=version)
    assert [value for value, *_ in sampled(h, "objects_left")] == [left]


def test_a_record_grows_by_what_its_longest_body_has_more_than_its_first() -> None:
    """A refused body is none; each object is measured by itself."""
    h = History()
    rows = ((1, "k", 100, True), (2, "k", 90, True), (3, "k", 900, False), (4, "k", 140, True), (5, "x", 7, True))
    for at, key, length, lands in rows:
        request, outcome = h.number(), Outcome.APPLIED if lands else Outcome.PRECONDITION_FAILED
        h.event(Kind.SENT, at, "n1", op=Op.WRITE, request=request, lock=key, detail=detail(bytes=length))
        h.event(Kind.APPLIED, at, "n1", op=Op.WRITE, request=request, lock=key, outcome=outcome)
    assert sampled(h, "record_growth") == [(40, "n1", "k", 4), (0, "n1", "x", 5)]


def test_tasks_left_are_told_by_name() -> None:
    """The runs table counts them, where somebody has counted."""
    assert sampled(History(run={"tasks_left": ["n2/beat", "n1/beat"]}), "tasks_left")[0][:2] == (2, "n1/beat")
    assert sampled(History(run={"tasks_left": []}), "tasks_left")[0][:2] == (0, None)
    assert sampled(History(), "tasks_left") == []
