"""Failures of many scenarios are few causes; two mistakes are never one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from reports.checks.summary import Finding
from scenarios.failures.kinds import effects
from scenarios.gate.causes import Case, Examined, also_broken, causes_of, first_cause


def finding(clause: str, *faults: str, run: int = 1, kind: str = "", similar: int = 0) -> Finding:
    return Finding(
        clause=clause,
        kind=kind,
        fault_kinds=tuple(sorted(faults)),
        run=run,
        at_ns=1,
        witness={"kind": kind},
        similar=similar,
    )


def grouped(
    *cases: Case,
    needs: dict[str, tuple[str, ...]],
    broken: dict[str, set[str]] | None = None,
    beside: dict[str, set[str]] | None = None,
    unshrunk: Collection[str] = (),
):
    """needs: by scenario, what its failure needs when it is shrunk. broken: what its run breaks; beside: undemanded."""
    asked: list[str] = []

    def examine(case: Case) -> Examined:
        asked.append(case.scenario)
        return Examined(
            identity=f"LK-{case.scenario}",
            replay="",
            sentence="",
            needs=needs[case.scenario],
            broken=dict.fromkeys((broken or {}).get(case.scenario, {case.finding.clause}), 1),
            is_shrunk=case.scenario not in unshrunk,
            beside=dict.fromkeys((beside or {}).get(case.scenario, set()), 1),
        )

    return causes_of(cases, examine), asked


def test_one_missing_check_is_one_cause_and_is_examined_once():
    """Three scenarios have more faults than it needs; they are accounted for without a run of their own."""
    found, asked = grouped(
        Case("a", finding("S3", "pause", similar=2), 0),
        Case("b", finding("S3", "pause", "crash"), 1),
        Case("c", finding("S3", "suspend", "error"), 2),
        needs={"a": ("pause",)},
    )
    assert [(cause.clause, cause.scenarios, cause.runs) for cause in found] == [("S3", ("a", "b", "c"), 5)]
    assert asked == ["a"]


def test_a_failure_without_what_a_cause_needs_is_another_cause():
    """One mistake shows when a holder is stopped, the other when an answer is lost."""
    found, _ = grouped(
        Case("a", finding("S3", "pause"), 0),
        Case("b", finding("S3", "lose_reply"), 1),
        needs={"a": ("pause",), "b": ("lose_reply",)},
    )
    assert [cause.scenarios for cause in found] == [("a",), ("b",)]


def test_clauses_and_shapes_are_never_joined():
    """A false denial and a false grant both break S7, and are two mistakes."""
    found, _ = grouped(
        Case("a", finding("S7", kind="false denial"), 0),
        Case("b", finding("S7", kind="false grant"), 1),
        Case("c", finding("S6", kind="false denial"), 2),
        needs={"a": (), "b": (), "c": ()},
    )
    assert len(found) == 3


def test_what_follows_from_a_cause_is_told_beside_it():
    """In one run S6 is why S3 and S4 break; a run that shows S4 first is looked at, and breaks S6 as well."""
    of_one_run = [finding("S3", "pause"), finding("S6", "pause"), finding("S4", "crash", "pause", run=7)]
    assert [each.clause for each in first_cause(of_one_run)] == ["S6", "S4"]
    found, _ = grouped(
        Case("a", finding("S6", "pause"), 0),
        Case("b", finding("S4", "crash", "pause"), 1),
        needs={"a": ("pause",), "b": ("pause",)},
        broken={"a": {"S6", "S3"}, "b": {"S6", "S4"}},
    )
    assert [(cause.clause, cause.scenarios, also_broken(cause)) for cause in found] == [
        ("S6", ("a", "b"), ("S3", "S4"))
    ]


def test_safety_is_told_first_and_then_what_most_scenarios_show():
    """The order does not depend on the order in which scenarios ended."""
    cases = [
        Case("a", finding("L1"), 0),
        Case("b", finding("S7", "error"), 1),
        Case("c", finding("S3", "pause"), 2),
        Case("d", finding("S3", "pause"), 3),
    ]
    needs = {"a": (), "b": ("error",), "c": ("pause",)}
    for order in (cases, cases[::-1]):
        found, _ = grouped(*order, needs=needs)
        assert [cause.clause for cause in found] == ["S3", "S7", "L1"]


def test_a_lock_cannot_tell_some_kinds_of_faults_apart():
    """An answer that is lost and a store that is cut off are one thing to it; a pause is another."""
    assert effects(["partition", "lose_reply"]) == effects(["error"]) != effects(["pause"])


def test_what_broke_before_a_cause_is_no_consequence_of_it():
    """A holder that believes too long (S3, at 1) and then deletes its successor's record (S6, at 5): two mistakes."""
    early, late = finding("S3", "pause"), replace(finding("S6", "pause"), at_ns=5)
    assert first_cause([early, late]) == [early, late]
    assert first_cause([replace(early, at_ns=9), late]) == [late]
    assert first_cause([finding("L4", "pause"), late]) == [late]


def test_a_cause_that_turns_out_to_need_less_takes_over_what_was_found_before():
    """The first two seemed to need a pause and a crash; the third breaks without a fault, and accounts for them."""
    found, _ = grouped(
        Case("a", finding("S5", "pause"), 0),
        Case("b", finding("S5", "crash"), 1),
        Case("c", finding("S5", "error"), 2),
        needs={"a": ("pause",), "b": ("crash",), "c": ()},
    )
    assert [(cause.known.identity, cause.scenarios) for cause in found] == [("LK-c", ("a", "b", "c"))]


def test_what_follows_from_a_clause_that_its_scenario_does_not_demand_is_told_with_that_cause():
    """L4 where nobody demands S3: the guard that says yes too late is one mistake, and another scenario tells it."""
    cases = Case("a", finding("S3", "pause"), 0), Case("b", finding("L4", "pause"), 1)
    needs: dict[str, tuple[str, ...]] = {"a": ("pause",), "b": ("pause",)}
    found, _ = grouped(*cases, needs=needs, beside={"b": {"S3"}})
    assert [(cause.clause, cause.scenarios) for cause in found] == [("S3", ("a", "b"))]
    apart, _ = grouped(*cases, needs=needs)
    assert [cause.clause for cause in apart] == ["S3", "L4"]
    alone, _ = grouped(cases[1], needs=needs, beside={"b": {"S3"}})
    assert [cause.clause for cause in alone] == ["L4"]


def test_a_clause_that_breaks_without_the_fault_of_a_cause_is_no_consequence_of_that_cause():
    """S6 is known to need a pause. In a run without one, an S6 beside S4 comes from something else."""
    found, _ = grouped(
        Case("a", finding("S6", "pause"), 0),
        Case("b", finding("S4", "lose_reply"), 1),
        needs={"a": ("pause",), "b": ("lose_reply",)},
        broken={"a": {"S6"}, "b": {"S6", "S4"}},
    )
    assert [(cause.clause, cause.scenarios) for cause in found] == [("S6", ("a",)), ("S4", ("b",))]


def test_a_mistake_that_needs_no_fault_takes_none_for_its_own_that_needs_a_changed_record():
    """S3 twice: a guard without a clock, and a holder that keeps what is gone. Shrunk to no fault, it is the first."""
    cases = Case("a", finding("S3", "pause"), 0), Case("b", finding("S3", "delete_object"), 1)
    found, _ = grouped(*cases, needs={"a": (), "b": ("delete_object",)})
    assert [(cause.kind.word, cause.scenarios) for cause in found] == [
        ("S3:two-clients:no-fault", ("a",)),
        ("S3:two-clients:changed", ("b",)),
    ]
    one, asked = grouped(*cases, needs={"a": (), "b": ()})
    assert [(cause.kind.word, cause.scenarios) for cause in one] == [("S3:two-clients:no-fault", ("a", "b"))]
    assert asked == ["a", "b"]
    hasty, _ = grouped(*cases, needs={"a": (), "b": ("delete_object",)}, unshrunk={"b"})
    assert [cause.scenarios for cause in hasty] == [("a", "b")]


def test_a_late_yes_without_a_second_holder_is_told_with_the_one_that_two_clients_show():
    """L4 of the guard where nobody held beside it. A cause of S3 without a late yes is another mistake."""
    cases = Case("a", finding("S3", "pause"), 0), Case("b", finding("L4", "pause", kind="told too late"), 1)
    needs: dict[str, tuple[str, ...]] = {"a": (), "b": ("pause",)}
    one, _ = grouped(*cases, needs=needs, broken={"a": {"S3", "L4"}})
    assert [(cause.clause, cause.scenarios) for cause in one] == [("S3", ("a", "b"))]
    two, _ = grouped(*cases, needs=needs)
    assert [cause.clause for cause in two] == ["S3", "L4"]
    other = Case("b", finding("L4", "pause", kind="told without cause"), 1)
    apart, _ = grouped(cases[0], other, needs=needs, broken={"a": {"S3", "L4"}})
    assert [cause.clause for cause in apart] == ["S3", "L4"]
