"""F1 to F3: claims are judged, figures are measured without any."""

from __future__ import annotations

import pytest

from lockref.errors import ConfigError
from reports.checks import decide
from reports.checks.clauses.fairness import gini, jain
from reports.checks.judgement import measure
from tests.histories import History, summarised, timed


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


def test_own_grants_of_a_client_pass_nobody_over():
    """F1: another task of n1 is granted while n1 waits, and n2 once."""
    h = timed(claims=["F1:1"], clients=2)
    h.fails("n1", call=0, returned=390)
    for node, at in (("n1", 10), ("n2", 40), ("n1", 70)):
        h.released(h.granted(node, call=at, applied=at, returned=at + 1, task="b"), call=at + 5, applied=at + 6)
    assert h.verdict("F1")["verdict"] == "held"


@pytest.mark.parametrize(("faults_end", "expected"), [(0, "violated"), (1, "held")])
@pytest.mark.parametrize("clause", ["F1:2", "F2"])
def test_calls_from_before_the_end_of_the_faults_are_not_judged(faults_end, expected, clause):
    """F1, F2: n1 asks at 0."""
    h = passed_over(3, [clause])
    h.run["faults_end_ns"] = faults_end
    assert h.verdict(clause[:2])["verdict"] == expected


def test_nobody_is_starved_where_nobody_is_served():
    """F2: a lock that no client ever got has starved no client more than another one."""
    h = timed(claims=["F2"], clients=2)
    h.fails("n1", call=0, returned=100)
    h.fails("n2", call=10, returned=390)
    assert h.verdict("F2")["verdict"] != "violated"


@pytest.mark.parametrize("asked", [0, 30])
def test_who_asked_and_got_nothing_has_a_share_of_nothing(asked):
    """F3: before the client that was served, or after it."""
    h = timed(clients=2)
    h.fails("n1", call=asked, returned=390)
    h.released(h.granted("n2", call=10, applied=10, returned=11), call=15, applied=16)
    assert measure(*h.tables()).fairness.to_pylist()[0]["jain"] == 0.5


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


def test_a_broken_claim_of_fairness_is_no_broken_liveness():
    """F1 and F2 have a verdict of their own; the exit code knows both."""
    h = passed_over(3, ["F1:2"])
    h.run["faults_end_ns"] = None
    verdicts = decide(summarised(h))
    assert (verdicts.safety, verdicts.fairness) == ("held", "violated")
    assert verdicts.liveness == "held"
