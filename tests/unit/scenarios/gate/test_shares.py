"""`--for`: time that is left goes where something broke, and where little was looked at."""

from __future__ import annotations

from scenarios.gate.shares import PART_OF_LEFT, ScenarioProgress, next_round


def progress(name: str, *, seeds: int = 10, each_ns: int = 10, has_failed: bool = False) -> ScenarioProgress:
    return ScenarioProgress(name=name, seeds=seeds, spent_ns=seeds * each_ns, has_failed=has_failed)


def cost(explored: list[ScenarioProgress], planned: dict[str, tuple[int, int]]) -> dict[str, int]:
    return {each.name: planned[each.name][1] * each.seed_ns for each in explored if each.name in planned}


def test_half_of_a_round_goes_to_scenarios_that_failed() -> None:
    """However many others there are."""
    explored = [progress("broken", seeds=1000, has_failed=True), *(progress(f"s{number}") for number in range(100))]
    spent = cost(explored, next_round(explored, PART_OF_LEFT * 10_000))
    assert spent.pop("broken") == 5_000
    assert sum(spent.values()) == 5_000


def test_a_round_of_quiet_scenarios_takes_its_whole_part() -> None:
    explored = [progress(f"s{number}", seeds=1000) for number in range(3)]
    assert sum(cost(explored, next_round(explored, PART_OF_LEFT * 9_000)).values()) == 9_000


def test_what_was_looked_at_least_comes_first() -> None:
    """By the time that it took, not by seeds: a cheap scenario has many seeds for little."""
    explored = [progress("dear", seeds=2, each_ns=1000), progress("cheap", seeds=100, each_ns=1)]
    assert next_round(explored, PART_OF_LEFT * 100) == {"cheap": (100, 100)}


def test_no_scenario_more_than_doubles_in_a_round() -> None:
    """The cost of a seed is guessed from those that it has had."""
    assert next_round([progress("s", seeds=4)], 10**15) == {"s": (4, 4)}


def test_a_round_without_time_is_empty() -> None:
    assert next_round([progress("s", each_ns=1000)], PART_OF_LEFT * 999) == {}
    assert next_round([], 10**12) == {}
