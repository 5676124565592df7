"""Expectations: what a batch showed against what its scenario says it shows."""

from __future__ import annotations

from collections import Counter

from reports.checks.verdicts import Counts, decide
from scenarios.definition.expectations import surprises
from scenarios.definition.load import parse_scenario

SCENARIO = parse_scenario(
    "version: 1\nname: x\nmust_happen: [contention, 'fault:pause']\n"
    "expect: {hudi: {S3: violated, S1: held}, hardened: held}\n"
)
PARTY = ("x", "hudi")


def counted(verdicts: list[tuple[int, str, str]], reached: dict[str, int]) -> Counts:
    """A batch of `SCENARIO`'s runs in which somebody was granted the lock."""
    counts = Counts(runs=len({run for run, _, _ in verdicts}))
    counts.demand(PARTY, SCENARIO.must_happen)
    for _, clause, verdict in verdicts:
        counts.verdicts.setdefault(clause, Counter())[verdict] += 1
    for situation, count in {"grant": 1, **reached}.items():
        counts.reach_situation(PARTY, situation, runs=1, count=count)
    return counts


HAPPENED = {"contention": 3, "fault:pause": 1}


def test_one_broken_run_breaks_the_batch() -> None:
    """Violated beats inconclusive beats held beats not applicable, over the runs of a batch."""
    batch = counted(
        [
            (1, "S1", "held"),
            (1, "S3", "held"),
            (2, "S3", "violated"),
            (1, "S7", "held"),
            (2, "S7", "inconclusive"),
            (1, "S2", "not_applicable"),
        ],
        HAPPENED,
    )
    assert decide(batch).clauses == {"S1": "held", "S2": "not_applicable", "S3": "violated", "S7": "inconclusive"}


def test_what_was_expected_is_no_surprise() -> None:
    """A known-bad scenario that breaks as expected is in order."""
    batch = counted([(1, "S1", "held"), (1, "S3", "violated")], HAPPENED)
    assert list(surprises(SCENARIO, "hudi", batch)) == []


def test_too_few_of_what_must_happen_is_told_with_both_numbers() -> None:
    """Floors: six grants where a hundred were asked for are inconclusive, and a surprise."""
    few = Counts(runs=1, verdicts={"S1": Counter(held=1)})
    few.demand(PARTY, ["grant >= 100", "clients_served >= 16", "handoff >= 3", "denied >= 2"])
    for situation, count in {"grant": 6, "clients_served": 1, "handoff": 5, "denied": 1}.items():
        few.reach_situation(PARTY, situation, runs=1, count=count)
    [reason] = decide(few).reasons
    assert reason == (
        "only 1 client served (at least 16 asked for), 1 times denied (at least 2 asked for), "
        "6 grants (at least 100 asked for)"
    )
    assert decide(few).safety == "inconclusive"
    assert "only 6 grants (at least 100 asked for)" in list(surprises(SCENARIO, "hudi", few))


def test_runs_of_one_batch_reach_a_floor_together() -> None:
    """The count is over the batch, as reaching a situation at all is."""
    batch = Counts()
    for _ in range(2):
        run = Counts(runs=1, verdicts={"S1": Counter(held=1)})
        run.demand(PARTY, ["grant >= 10"])
        run.reach_situation(PARTY, "grant", runs=1, count=6)
        batch.add_counts(run)
    assert decide(batch).safety == "held"


def test_a_lock_that_no_longer_breaks_is_news() -> None:
    """A clause expected to break that holds is reported, and so is the reverse."""
    batch = counted([(1, "S1", "violated"), (1, "S3", "held")], HAPPENED)
    assert list(surprises(SCENARIO, "hudi", batch)) == [
        "S3 is held, expected violated",
        "S1 is violated, expected held",
    ]


def test_held_covers_every_clause() -> None:
    """`hardened: held` is broken by any clause, liveness included."""
    batch = counted([(1, "S1", "held"), (1, "L1", "violated")], HAPPENED)
    assert list(surprises(SCENARIO, "hardened", batch)) == ["L1 violated, expected to hold"]


def test_what_could_not_be_decided_does_not_hold() -> None:
    """A build that should hold surprises where safety is open: a clause, or the record of a run."""
    batch = counted([(1, "S1", "held"), (1, "S5", "inconclusive")], HAPPENED)
    assert list(surprises(SCENARIO, "hardened", batch)) == [
        "inconclusive, expected to hold: S5 could not be decided in 1 run"
    ]
    batch = counted([(1, "S1", "held")], HAPPENED)
    batch.damaged = 2
    (surprise,) = surprises(SCENARIO, "hardened", batch)
    assert "2 runs could not be judged" in surprise
    # What decides nothing about safety is no surprise, nor is anything where a single clause was named.
    assert (
        list(surprises(SCENARIO, "hardened", counted([(1, "S1", "held"), (1, "L1", "inconclusive")], HAPPENED))) == []
    )
    assert list(surprises(SCENARIO, "hudi", counted([(1, "S1", "held"), (1, "S3", "violated")], HAPPENED))) == []


def test_what_never_happened_is_named() -> None:
    """Situations: a demanded situation with count 0, or without a row, makes the batch prove nothing."""
    batch = counted([(1, "S1", "held")], {"contention": 0})
    assert list(batch.unreached[PARTY]) == ["contention", "fault:pause"]
    assert list(surprises(SCENARIO, "nobody", batch)) == ["contention never happened", "fault:pause never happened"]


def test_a_verdict_that_no_clause_has_is_news() -> None:
    """`violated` as a whole asks for some clause that is."""
    scenario = parse_scenario("version: 1\nname: x\nexpect: {hudi: violated}\n")
    assert list(surprises(scenario, "hudi", counted([(1, "S1", "held")], HAPPENED))) == ["no clause is violated"]
    assert list(surprises(scenario, "hudi", counted([(1, "S1", "violated")], HAPPENED))) == []
