"""Thresholds: exact quantiles, and no verdict without samples."""

from __future__ import annotations

import pyarrow as pa
import pytest

from reports.checks.judgement import measure
from scenarios.definition.kept_thresholds import check_thresholds
from scenarios.definition.load import load_scenario
from scenarios.definition.thresholds import parse_threshold
from scenarios.run import simulate_many

S = 1_000_000_000


def tables(
    waits_s: list[float], handoffs_s: list[float], after: str = "release", late_s: float = 0
) -> dict[str, pa.Table]:
    calls = pa.table(
        {
            "op": pa.array(["acquire"] * len(waits_s), pa.string()),
            "outcome": pa.array(["applied"] * len(waits_s), pa.string()),
            "wait_ns": pa.array([int(wait * S) for wait in waits_s], pa.int64()),
            "wait_late_ns": pa.array([int(late_s * S)] * len(waits_s), pa.int64()),
            "hold_ns": pa.array([None] * len(waits_s), pa.int64()),
            "hold_late_ns": pa.array([int(late_s * S)] * len(waits_s), pa.int64()),
        }
    )
    handoffs = pa.table(
        {
            "after": pa.array([after] * len(handoffs_s), pa.string()),
            "handoff_ns": pa.array([int(handoff * S) for handoff in handoffs_s], pa.int64()),
            "late_ns": pa.array([int(late_s * S)] * len(handoffs_s), pa.int64()),
        }
    )
    return {"calls": calls, "handoffs": handoffs}


@pytest.mark.parametrize(
    ("text", "verdict", "measured_s"),
    [
        ("wait.p50 <= 50s", "held", 50),
        ("wait.p50 < 50s", "violated", 50),
        ("wait.p99 < 100s", "held", 99),
        ("wait.max < 100s", "violated", 100),
        ("wait.mean <= 50.5s", "held", 50.5),
    ],
)
def test_quantiles_are_samples(text: str, verdict: str, measured_s: float) -> None:
    """Nearest rank over 1 s to 100 s: the 99th percentile is 99 s, and a strict limit excludes itself."""
    (kept,) = check_thresholds([text], **tables([float(second) for second in range(1, 101)], []))
    assert (kept.verdict, kept.measured_ns, kept.samples) == (verdict, int(measured_s * S), 100)


@pytest.mark.parametrize(("text", "measured_s"), [("wait.p50 < 1h", 4), ("wait.p90 < 1h", 7), ("wait.p99 < 1h", 7)])
def test_a_quantile_of_few_samples_is_the_next_larger_one(text: str, measured_s: int) -> None:
    """Nearest rank is rounded up: of seven samples the 90th and the 99th percentile are the longest."""
    (kept,) = check_thresholds([text], **tables([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], []))
    assert kept.measured_ns == measured_s * S


@pytest.mark.parametrize("text", ["wait.p99 < 1s", "hold.max < 1s", "handoff.max < 1s", "handoff_after_death.p50 < 1s"])
def test_no_samples_is_no_verdict(text: str) -> None:
    """A limit on what never happened is inconclusive, not kept."""
    (kept,) = check_thresholds([text], **tables([], []))
    assert (kept.verdict, kept.measured_ns) == ("inconclusive", None)
    assert "no samples" in str(kept)


def test_handoffs_after_release_and_after_death_are_two_measures() -> None:
    """Failover after a death costs a validity; mixing it with hand-offs after a release would hide both."""
    texts = ["handoff.max < 2s", "handoff_after_death.max < 2s"]
    verdicts = [kept.verdict for kept in check_thresholds(texts, **tables([], [11.0], after="death"))]
    assert verdicts == ["inconclusive", "violated"]
    after_expiry = check_thresholds(["handoff_after_expiry.max < 2s"], **tables([], [11.0], after="expiry"))
    assert [kept.verdict for kept in after_expiry] == ["violated"]


@pytest.mark.parametrize("text", ["", "wait", "wait.p98 < 1s", "wait.p99 > 1s", "wait.p99 < 1", "speed.p99 < 1s"])
def test_other_forms_are_refused(text: str) -> None:
    """Unknown measures and statistics, and limits without unit, are errors."""
    with pytest.raises(ValueError, match="is "):
        parse_threshold(text)


def test_a_simulated_batch_has_samples_for_each_measure() -> None:
    """After a crash the next grant comes within a validity and the drift allowance, and a bit."""
    from lockref.lab.loading import load_provider

    batch = simulate_many(load_scenario("e03"), load_provider("hardened"), range(1, 9))
    measures = measure(batch.events, batch.runs)
    texts = ["wait.max < 30s", "hold.max < 9s", "handoff.max < 2s", "handoff_after_death.max < 13s"]
    kept = check_thresholds(texts, calls=measures.calls, handoffs=measures.handoffs)
    assert [each.verdict for each in kept] == ["held"] * 4, [str(each) for each in kept]


@pytest.mark.parametrize(
    ("limit_s", "late_s", "verdict"), [(4, 0, "violated"), (4, 2, "inconclusive"), (2, 2, "violated"), (5, 2, "held")]
)
def test_a_limit_is_not_broken_by_a_late_machine(limit_s: int, late_s: int, verdict: str) -> None:
    """Waits and hand-offs of 5 s, of which 2 s may be the machine's: only what is left can break a limit."""
    for measure_name in ("wait", "handoff"):
        (kept,) = check_thresholds([f"{measure_name}.max <= {limit_s}s"], **tables([5.0], [5.0], late_s=late_s))
        assert kept.verdict == verdict
        assert kept.measured_ns == 5 * S, "the figure is told as it was measured"
        assert ("a late machine may be 2.000 s" in str(kept)) == (verdict == "inconclusive")
