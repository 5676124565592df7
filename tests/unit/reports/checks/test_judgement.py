"""A judgement makes a table when somebody asks for it, and once."""

from __future__ import annotations

import numpy as np
import pytest

from lockref.words import Op, Outcome
from reports.checks import judge, judgement
from reports.checks.facts.columns import are_among
from reports.checks.facts.segments import SMALL, in_order
from reports.checks.judgement import TABLES
from tests.histories import History


def one_grant() -> History:
    h = History()
    request = h.call("n1", Op.ACQUIRE, 10)
    h.write("n1", Op.ACQUIRE, sent=11, applied=12, owner="o1", token=1, valid_until=100)
    h.returns("n1", Op.ACQUIRE, 13, request, Outcome.APPLIED, owner="o1", token=1)
    return h


def test_who_reads_verdicts_alone_waits_for_no_other_table(monkeypatch):
    """Most tests and every second judgement of a run read nothing else."""
    asked = []

    def counted(_case):
        asked.append("reach")
        raise ValueError("made")

    monkeypatch.setattr(judgement, "reach_table", counted)
    found = judge(*one_grant().tables())
    assert len(found.verdicts)
    assert asked == []
    with pytest.raises(ValueError, match="made"):
        _ = found.reach


def test_a_table_is_made_once():
    """Also where the verdicts were put in doubt in between."""
    found = judge(*one_grant().tables())
    doubted = found.with_verdicts(found.verdicts.slice(0, 0))
    assert [found.table(name) is found.table(name) for name in TABLES] == [True] * len(TABLES)
    assert len(doubted.verdicts) == 0
    assert doubted.reach.equals(found.reach)


@pytest.mark.parametrize("members", [(Outcome.APPLIED,), (Outcome.REJECTED, Outcome.AMBIGUOUS), tuple(Outcome)])
def test_members_of_an_enumeration_are_found_as_numpy_finds_them(members):
    for numbers in (np.arange(7, dtype=np.uint8), np.zeros(0, dtype=np.uint8), np.array([6, 6, 0, 5], dtype=np.uint8)):
        assert are_among(numbers, members).tolist() == np.isin(numbers, members).tolist()


@pytest.mark.parametrize("count", [0, 1, 40, SMALL, SMALL + 1, 3 * SMALL])
@pytest.mark.parametrize("rows", ["rising", "equal", "falling"])
def test_rows_stand_by_group_then_row_then_as_they_come_however_many_there_are(count, rows):
    row = {"rising": np.arange(count), "equal": np.zeros(count, dtype=np.int64), "falling": -np.arange(count)}[rows]
    group = (np.arange(count) * 7) % 5
    order = np.arange(count)[in_order(group, row)]
    assert order.tolist() == sorted(range(count), key=lambda place: (group[place], row[place]))
