"""S1 of histories whose order nobody saw: legal ones are never accused, and a winner that is doubled always is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from reports.checks.judgement import judge
from reports.checks.rulings import UNRECORDED, UNSETTLED
from tests.histories import History, tables
from tests.store_histories import draw, twin

MANY = range(1000, 1600)


def said_of(histories: Sequence[History]) -> list[dict[str, Any]]:
    """The verdict on S1 of each."""
    told = judge(*tables(*histories)).verdicts.to_pylist()
    return [row for row in told if row["clause"] == "S1"]


def check_legal(seeds: Sequence[int], *, blind: float, repeats: bool, requests: int) -> None:
    said = said_of([draw(seed, blind=blind, repeats=repeats, requests=requests).history for seed in seeds])
    assert [seed for seed, row in zip(seeds, said, strict=True) if row["verdict"] == "violated"] == []
    # To be undecided is the exception: a judge that is always undecided accuses nobody, either.
    assert sum(row["verdict"] == "held" for row in said) > 0.7 * len(said)
    open_ones = [json.loads(row["witness"])["reason"] for row in said if row["verdict"] == "inconclusive"]
    assert set(open_ones) <= {UNSETTLED, UNRECORDED}


def check_twins(seeds: Iterable[int], *, blind: float, requests: int) -> None:
    twins = {seed: twin(draw(seed, blind=blind, requests=requests), seed) for seed in seeds}
    found = {seed: history for seed, history in twins.items() if history is not None}
    assert len(found) > 0.4 * len(twins)
    said = said_of(list(found.values()))
    assert [seed for seed, row in zip(found, said, strict=True) if row["verdict"] != "violated"] == []


@pytest.mark.parametrize("blind", [0.0, 0.15, 0.5])
@pytest.mark.parametrize("repeats", [False, True])
def test_no_legal_history_is_accused(blind, repeats):
    """S1: answers get lost, blind writes overlap, a late write lands when its client has forgotten it."""
    check_legal(range(60), blind=blind, repeats=repeats, requests=40)


@pytest.mark.parametrize("blind", [0.0, 0.15, 0.5])
def test_a_winner_that_is_doubled_is_always_accused(blind):
    """S1: two authors were told that they had replaced one version, which was made once."""
    check_twins(range(60), blind=blind, requests=40)


@pytest.mark.long
@pytest.mark.parametrize("requests", [15, 40, 90])
@pytest.mark.parametrize("blind", [0.05, 0.3])
def test_many_histories(blind, requests):
    """Both of the above with 600 seeds each."""
    for repeats in (False, True):
        check_legal(MANY, blind=blind, repeats=repeats, requests=requests)
    check_twins(MANY, blind=blind, requests=requests)


def test_an_undecided_history_says_why():
    """S1: a write of this history fits nowhere in the order that was found, and another order is legal."""
    (row,) = said_of([draw(34).history])
    assert (row["verdict"], json.loads(row["witness"])["reason"]) == ("inconclusive", UNSETTLED)
