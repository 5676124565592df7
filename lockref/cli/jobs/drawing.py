"""The pictures of docs/delta.md and docs/helix.md: computed, drawn, and put on a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from lockref.cli.jobs.shown.progress import Progress
from reports.figures.delta import line_chart
from reports.figures.helix import dot_rows
from reports.html.pictures import DrawnPicture, write_page
from scenarios.delta.pictures import PICTURES
from scenarios.helix.pictures import pictures as helix_pictures
from scenarios.helix.rebalancing import RULES, SIZES, rows

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def draw_delta(console: Console, out: Path) -> int:
    """The pictures of Delta's commits: `delta.html` in `out`, and each as PNG."""
    drawn = []
    progress = Progress(console, "pictures", steps=len(PICTURES))
    for make in PICTURES:
        picture = make()
        lines = {series.label: series.points for series in picture.series}
        svg, png = line_chart(lines, across=picture.across, up=picture.up, limit=picture.limit, is_log=picture.is_log)
        drawn.append(DrawnPicture(picture.name, picture.title, picture.caption, svg, png, picture.head, picture.rows))
        progress.done()
    title = "Delta Lake's commits under one lock per table"
    origin = Markup(
        "Simulated in virtual time by <code>lockref delta figures</code>. <code>lockref delta plan</code> answers for "
        "other numbers."
    )
    console.say(f"page  {write_page(drawn, out, name='delta', title=title, origin=origin)}")
    return 0


def draw_helix(console: Console, out: Path) -> int:
    """Draw the cost of each rebalancer when an instance leaves: `helix.html` in `out`, and each picture as PNG."""
    counted, drawn = [], []
    progress = Progress(console, "rebalancers and sizes", steps=len(SIZES) * len(RULES))
    for row in rows(SIZES):
        counted.append(row)
        progress.done()
    for picture in helix_pictures(counted):
        svg, png = dot_rows(picture.rows, marks=picture.marks, across=picture.across)
        drawn.append(DrawnPicture(picture.name, picture.title, picture.caption, svg, png, picture.head, picture.table))
    title = "What a change of instances costs under each rebalancer"
    origin = Markup("Counted on the controller's pipeline, without a server, by <code>lockref cluster figures</code>.")
    console.say(f"page  {write_page(drawn, out, name='helix', title=title, origin=origin)}")
    return 0
