"""The picture of an envelope: what stands in it, and that equal envelopes give equal bytes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reports.figures import style
from reports.figures.envelope import FAR, HELD, Cell, Curve, Panel, Scale, envelope_map
from reports.figures.envelope_lines import Line, envelope_lines

pytestmark = pytest.mark.drawn

ACROSS = Scale(label="pause, s", values=(0.0, 2.0, 4.0))
UP = Scale(label="offset, s", values=(0.0, 1.0))


def cell(x: float, y: float, *, violated: int = 0, harmed: int = 0, is_judged: bool = True) -> Cell:
    return Cell(x=x, y=y, runs=20, violated=violated, harmed=harmed, is_judged=is_judged, breaks_promise=False)


PANEL = Panel(
    title="my <lock>",
    says="broke from a pause of 2 s on",
    cells=[
        cell(0.0, 0.0), cell(2.0, 0.0, violated=7), cell(4.0, 0.0, violated=19, harmed=3),
        cell(0.0, 1.0, is_judged=False), cell(2.0, 1.0, violated=20, harmed=20),
    ],
    boundary=[(1.5, 0.0), (1.2, 1.0)],
    curves=[
        Curve(label="S5", x=(-1.0, 5.0), y=(-0.5, 1.5), left=((1.0, 1.0), (-1.0, -1.0)), is_all=False),
        Curve(label="S1–S7", x=(-1.0, 5.0), y=(-0.5, 1.5), left=((1.0, -5.0), (-1.0, -6.0)), is_all=True),
    ],
)  # fmt: skip


def texts(svg: str) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)


def test_each_cell_says_in_how_many_of_its_runs_something_broke() -> None:
    """Zero is told as fewer than 3/N; a cell that proves nothing as a question mark; one that is missing not at all."""
    svg, _ = envelope_map([PANEL], across=ACROSS, up=UP)
    told = texts(svg)
    assert [told.count(text) for text in ("&lt;3/20", "7/20", "19/20", "20/20", "?")] == [1, 1, 1, 1, 1]
    assert {"pause, s", "offset, s", "my &lt;lock&gt;", "broke from a pause of 2 s on", "S5"} <= set(told)


def test_what_broke_is_told_by_colour_and_by_hatch_and_the_worst_is_the_strongest() -> None:
    svg, _ = envelope_map([PANEL], across=ACROSS, up=UP)
    assert svg.count("fill: url(#") >= 3, "three cells broke"
    assert style.VIOLATION in svg
    assert HELD in svg
    for harmed in (0, 1):
        one = replace(PANEL, cells=[cell(0.0, 0.0, violated=20, harmed=harmed)], curves=[], boundary=[])
        drawn, _ = envelope_map([one], across=ACROSS, up=UP)
        assert len(re.findall(rf'style="fill: {style.VIOLATION}', drawn)) == harmed


def test_the_legend_names_only_what_is_drawn() -> None:
    bare = replace(PANEL, boundary=[], curves=[])
    told = texts(envelope_map([bare], across=ACROSS, up=UP)[0])
    assert not [text for text in told if text.startswith(("promised", "measured", "broke inside"))]
    told = texts(envelope_map([PANEL], across=ACROSS, up=UP)[0])
    assert {"promised: nothing may break in here", "measured: here it begins to break"} <= set(told)
    guilty = replace(PANEL, cells=[replace(cell(0.0, 0.0, violated=1), breaks_promise=True)])
    assert "broke inside its promise" in texts(envelope_map([guilty], across=ACROSS, up=UP)[0])


def test_the_area_of_the_promise_is_named_where_it_has_room() -> None:
    wide = replace(
        PANEL,
        cells=[cell(x, y) for x in ACROSS.values for y in UP.values],
        curves=[Curve(label="S1–S7", x=(-1.0, 5.0), y=(-0.5, 1.5), left=((FAR, FAR), (FAR, FAR)), is_all=True)],
    )
    assert "promised (S1–S7)" in texts(envelope_map([wide], across=ACROSS, up=UP)[0])
    many = Scale(label="pause, s", values=tuple(map(float, range(12))))
    narrow = replace(wide, cells=[cell(0.0, 0.0)])
    assert "promised (S1–S7)" not in texts(envelope_map([narrow], across=many, up=UP)[0])


def test_equal_envelopes_give_equal_bytes() -> None:
    first, second = (envelope_map([PANEL, PANEL], across=ACROSS, up=UP) for _ in range(2))
    assert first == second
    assert first[1].startswith(b"\x89PNG")


@pytest.mark.parametrize("promised", [(0.0, 2.0), None])
def test_one_axis_is_drawn_as_a_line_with_its_intervals(promised: tuple[float, float] | None) -> None:
    line = Line(
        title="hudi", says="broke", points=[(0.0, 0, 20), (2.0, 7, 20)], promised=promised, begins=(1.5, 2.0)
    )  # fmt: skip
    svg, png = envelope_lines([line], across="pause, s")
    told = texts(svg)
    assert ("promised: nothing may break in here" in told) == (promised is not None)
    assert {"hudi", "broke", "pause, s", "measured: here it begins to break"} <= set(told)
    assert (svg, png) == envelope_lines([line], across="pause, s")
