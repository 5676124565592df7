"""The pictures of Delta's commits: what they show is computed, and the page holds pictures and numbers."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from reports.figures.delta import line_chart
from reports.html.pictures import DrawnPicture, write_page
from scenarios.delta import pictures


def test_the_numbers_of_the_pictures() -> None:
    """Fair against unfair, ten adds in one version, and the load right after a checkpoint."""
    fair, unfair = pictures.queues().series
    assert (fair.points[2], unfair.points[4]) == ((3, 100), (5, 292))
    versions, waits, gets = pictures.coalescing().series
    assert (versions.points[-1], waits.points[0], gets.points[0]) == ((100, 10), (1, 499.5), (1, 6490))
    assert pictures.time_to_load().series[0].points[9:11] == [(9, 1.15), (10, 0.75)]


def test_the_deadline_s_picture_has_the_limits_of_the_model() -> None:
    """Ten without a gap, nine with a tenth of a second, five with a second; polls leave room for some."""
    at_once, tenth, second, polled = (series.points[-1][1] for series in pictures.deadline().series)
    assert (at_once, tenth, second) == (10, 9, 5)
    assert 3 <= polled <= 8


def test_a_picture_on_the_page(tmp_path: Path) -> None:
    """PNG beside the page, SVG and table in it, hostile words escaped."""
    picture = pictures.time_to_load()
    svg, png = line_chart({"<b>": picture.series[0].points}, across="x", up="y", limit=("limit", 1.0))
    drawn = DrawnPicture("name", "<title>", "words", svg, png, picture.head, picture.rows)
    folder = tmp_path / "figures"
    text = write_page([drawn], folder, name="page", title="t", origin=Markup("o")).read_text(encoding="utf-8")
    assert "<svg role=" in text
    assert "<td>1.15</td>" in text
    assert "&lt;title&gt;" in text
    assert "<b>" not in text
    assert (tmp_path / "figures" / "name.png").read_bytes().startswith(b"\x89PNG")
