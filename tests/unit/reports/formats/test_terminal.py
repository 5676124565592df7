"""A verdict on the terminal: green only where nothing is open."""

from __future__ import annotations

import pytest

from reports.checks.spec import Verdict
from reports.formats.results import Results
from reports.formats.terminal import result_lines
from tests.unit.reports.html.test_pages import speed


@pytest.mark.parametrize(
    ("liveness", "served", "style"), [("held", 3, "good"), ("held", 2, "head"), ("inconclusive", 3, "head")]
)
def test_held_is_green_only_where_nothing_is_open(liveness: Verdict, served: int, style: str) -> None:
    """Not beside clients that were never served, who are counted, nor beside a liveness that nobody could judge."""
    given = speed("n1").model_copy(update={"clients_asked": 3, "clients_served": served})
    results = Results(verdict="held", liveness=liveness, statement="0 violations", runs=1, speed=given)
    lines = list(result_lines(results))
    assert lines[0] == ("HELD         : 0 violations", style)
    never = "  1 of 3 clients that asked were never granted the lock before the run ended. "
    allowed = "No clause that held promises each client a turn in that time. "
    assert ((f"{never}{allowed}Waits are those of the others", "head") in lines) is (served < 3)
    broken = results.model_copy(update={"verdict": "violated"})
    assert allowed not in broken.starved
