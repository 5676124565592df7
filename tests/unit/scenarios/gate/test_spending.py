"""Seeds go where they are worth most, and their number depends on no clock."""

from __future__ import annotations

from scenarios.gate.spending import SEEDS_MAX, FirstRuns, further_seeds


def first_runs(events: int = 100, *, is_broken: bool = False, is_open: bool = False) -> FirstRuns:
    return FirstRuns(runs=4, events=events, is_broken=is_broken, is_open=is_open)


def test_what_broke_gets_no_further_seeds():
    """It is red already, also where something else never happened in it."""
    asked = {
        "red": first_runs(is_broken=True),
        "open, too": first_runs(is_broken=True, is_open=True),
        "green": first_runs(),
    }
    assert set(further_seeds(asked, events=10_000)) == {"green"}


def test_what_never_happened_is_served_first():
    """Seeds may show it; and what held gets the rest."""
    given = further_seeds({"held": first_runs(100), "open": first_runs(100, is_open=True)}, events=4_000)
    assert given == {"open": 20, "held": 20}


def test_the_events_are_never_overdrawn_and_no_scenario_gets_more_than_the_most():
    """A dear scenario gets few seeds, a cheap one as many as are allowed."""
    asked = {"dear": first_runs(5_000), "cheap": first_runs(10), "open": first_runs(700, is_open=True)}
    given = further_seeds(asked, events=30_000)
    assert sum(seeds * asked[name].events for name, seeds in given.items()) <= 30_000
    assert given["cheap"] == SEEDS_MAX - 4
    assert given["dear"] < given["cheap"]


def test_nothing_is_given_where_nothing_is_left():
    """Without events there are the first seeds alone."""
    assert further_seeds({"held": first_runs()}, events=0) == {}
