"""docs/explanation/clock-promise.md: the picture is of runs, and they show what the page says."""

from __future__ import annotations

from tests.docs.promise_picture import AHEAD_MS, MARGIN_NS, PICTURE, promise_svg, rows


def test_the_picture_is_current() -> None:
    """The file is what the runs give now (`make docs`)."""
    assert PICTURE.read_text(encoding="utf-8") == promise_svg(), "run `make docs`"


def test_clocks_may_differ_by_both_margins_and_no_more() -> None:
    """The holder stops M before its stamp, and up to a difference of beta + M nobody believes beside it."""
    assert [row.ahead_ms for row in rows() if row.overlap_ns > 0] == [AHEAD_MS[-1]]
    assert {round((10_000_000_000 - row.last_yes_ns) / MARGIN_NS, 1) for row in rows()} == {1.0}
