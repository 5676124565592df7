"""Judging costs at most n log n, whatever the history: steps are counted, not seconds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from lockref.words import Op, Outcome
from reports.checks.facts.sources.chain_walk import LOOKS_PER_GAP, LOOKS_PER_WRITE, Walk
from tests.bench.checks import ODDS, SHAPES, every_table, mixture
from tests.histories import History, tables

CYCLES = 1_000
LINES = 300
"""Lines for each cycle and each doubling of their number: a shape that takes the square needs thousands."""


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of the checks are run, every turn of a loop or comprehension counted."""
    count = 0

    def on_line(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_line

    def on_call(frame: FrameType, _event: str, _arg: Any) -> Any:
        return on_line if "/reports/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def lines_allowed(cycles: int) -> float:
    """The bound: n log n."""
    return LINES * cycles * math.log2(cycles)


@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_of_history_makes_the_judge_take_the_square(name):
    history = SHAPES[name](CYCLES).tables()
    assert lines_run(partial(every_table, *history)) <= lines_allowed(CYCLES)


def test_many_runs_cost_no_more_than_their_sum():
    """One look at every run for each run would be a square, too."""
    few, many = (tables(*(mixture(4, seed=seed) for seed in range(runs))) for runs in (25, 200))
    assert lines_run(partial(every_table, *many)) <= 10 * lines_run(partial(every_table, *few))


@pytest.fixture
def looks(monkeypatch) -> list[float]:
    """For each lock that is settled, how many writes were looked at for each of its writes."""
    seen: list[float] = []
    chain = Walk.chain

    def counted(walk: Walk) -> Any:
        found = chain(walk)
        seen.append(walk.looks / walk.size)
        return found

    monkeypatch.setattr(Walk, "chain", counted)
    return seen


@pytest.mark.parametrize("left_out", [*ODDS, "nothing"])
@pytest.mark.parametrize("acquires", [50, 1_000])
def test_a_walk_looks_at_a_bounded_number_of_writes_for_each(looks, left_out, acquires):
    """Every mixture, also with twice as much of everything: the walk's own count keeps to its bound."""
    odds = {kind: 2 * odd for kind, odd in ODDS.items() if kind != left_out}
    mixture(acquires, odds=odds, seed=acquires).judged()
    # Each write may open a gap, and looks at a few others in any case.
    assert 0 < max(looks) <= LOOKS_PER_GAP + LOOKS_PER_WRITE + 8


@pytest.mark.parametrize("seed", range(150))
def test_a_store_that_keeps_its_conditions_is_not_accused_whatever_its_clients_do(seed):
    """S1: overlapping blind writes, deletes and refusals of which every answer arrived; the drawn order is legal."""
    odds = {"refused": 0.2, "blind": 0.4, "slow": 0.3, "delete": 0.2, "read": 0.3}
    assert mixture(6, odds=odds, seed=seed).verdict("S1")["verdict"] == "held"


def test_a_search_that_was_broken_off_accuses_nobody(monkeypatch):
    """S1: what does not fit is a fork only where everything was looked at."""
    monkeypatch.setattr("reports.checks.facts.sources.chain_walk.LOOKS_PER_GAP", 0)
    verdicts = {_guessing().verdict("S1")["verdict"]}
    monkeypatch.undo()
    assert (verdicts, _guessing().verdict("S1")["verdict"]) == ({"inconclusive"}, "held")


def _guessing() -> History:
    """Two unanswered writes that nobody read lead from the first grant to the delete that made room for the last."""
    h = History(is_simulated=False)
    h.granted("n1", call=0, applied=1, returned=2)
    h.write("n1", Op.RENEW, sent=3, owner="owner-n1", reply=Outcome.AMBIGUOUS)
    h.write("n1", Op.DELETE, sent=5, reply=Outcome.AMBIGUOUS)
    h.granted("n2", call=6, applied=7, returned=8)
    return h
