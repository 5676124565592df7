"""The pictures of an evaluation: every store with its interval, and axes that can be read."""

from __future__ import annotations

import re

import pytest

from reports.comparison.comparison import Cell
from reports.comparison.standing import Crowd
from reports.comparison.store_runs import HELD
from reports.figures.stores import store_figures
from tests.unit.reports.comparison.test_advice import store

pytestmark = pytest.mark.drawn


def crowd(contenders: int, handoff: Cell) -> Crowd:
    rate = Cell(value=20.0, low=18.0, high=22.0)
    return Crowd(
        contenders=contenders, runs=1, word=HELD, rate=rate, handoff=handoff, handoff_99=Cell(), served=contenders,
        jain=1.0, requests=4.0, cost=None,
    )  # fmt: skip


def test_each_store_is_drawn_and_told_with_its_interval() -> None:
    """Two stores, two numbers of clients: names in the legend, and all figures in the table beside the picture."""
    handoff = Cell(value=55e6, low=42e6, high=80e6)
    stores = [store(name, crowds=(crowd(1, Cell()), crowd(10, handoff))) for name in ("ministack", "azurite")]
    grants, handoffs = store_figures(stores)
    for figure in (grants, handoffs):
        assert "ministack" in figure.svg
        assert "azurite" in figure.svg
    assert [row[:3] for row in grants.table[1]] == [
        (name, clients, "20 (18 to 22)") for name in ("ministack", "azurite") for clients in ("1", "10")
    ]
    assert [row[1] for row in handoffs.table[1]] == ["10", "10"], "one client alone hands nothing off"


def test_a_narrow_range_of_hand_offs_has_labels() -> None:
    """From 42 to 80 ms there is no power of ten: the axis has labels all the same."""
    _, handoffs = store_figures([store("a", crowds=(crowd(10, Cell(value=55e6, low=42e6, high=80e6)),))])
    assert len(re.findall(r">\d+ ms<", handoffs.svg)) >= 1


def test_a_store_without_figures_is_not_drawn() -> None:
    assert store_figures([store("a", crowds=())]) == []
