"""From an HTTP answer to an outcome: which row decides, and what a read makes of it."""

from __future__ import annotations

from lockref.clouds.answers import A_READ, decide
from lockref.clouds.statuses import StatusRow, classify
from lockref.words import Outcome


def row(status: int, outcome: Outcome, code: str = "*") -> StatusRow:
    return StatusRow(status=status, code=code, outcome=outcome, why="because")


def test_a_whole_status_decides_before_a_code_of_its_class():
    """A5: 412 is 412 whatever the vendor calls it; a code alone speaks only where no row has the status."""
    rows = [row(4, Outcome.THROTTLED, "SlowDown"), row(412, Outcome.PRECONDITION_FAILED), row(4, Outcome.REJECTED)]
    found = [classify(rows, 412, "SlowDown"), classify(rows, 429, "SlowDown"), classify(rows, 403, "Denied")]
    assert [one.outcome for one in found] == [Outcome.PRECONDITION_FAILED, Outcome.THROTTLED, Outcome.REJECTED]
    assert classify(rows, 500).outcome is Outcome.AMBIGUOUS


def test_a_read_without_a_body_is_no_success():
    """A1: a 2xx that brought nothing, or a condition that was never set, says nothing about the object."""
    for outcome in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
        assert _read(row(204, outcome), 204) is Outcome.AMBIGUOUS
    assert _read(row(403, Outcome.REJECTED), 403) is Outcome.REJECTED


def _read(decides: StatusRow, status: int) -> Outcome:
    return decide(decides, A_READ, status=status, code="", version="", service="S3").outcome
