"""The picture of a safety envelope: one panel for each lock, what it promises and where it broke on the same axes.

A cell shows in how many of its runs a safety clause broke. Its colour tells how bad that is: two holders at once whose
late write nobody accepted, or a late write that was accepted. Both have a hatch, so that nothing depends on colour.
The blue area is the promise, drawn from the specification; the dark line is where the lock was measured to begin to
break. So grey between the two is what held without anybody's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from reports.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HELD: Final = "#eceef0"
PROMISED: Final = "#b9d9ee"
OVERLAP: Final = "#f0c419"
PROMISE: Final = style.SERIES[0]
INSIDE: Final = "#20252b"
"""The ink of numbers inside cells. A page in dark surroundings replaces `style.INK`, and the cells stay pale."""

PANEL_INCHES: Final = 5.6
_HEIGHT_INCHES: Final = 5.0
_LOWER: Final = 0.27
"""Where in a cell its numbers stand, as a share of its height. A promise often ends at a value of the grid, and its
line would run through numbers in the middle."""

_UPPER: Final = 0.2
"""Where in a cell the name of an area stands, above its numbers."""

_LETTERS_PER_INCH: Final = 13

_NUMBERS_MAX: Final = 14
"""Columns up to which each cell has its numbers; beyond it they would overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its place, in the units of the axes, and in how many of its runs something broke.

    harmed: in how many a late write was accepted. is_judged: False if its runs prove nothing.
    breaks_promise: a clause broke that is promised here.
    """

    x: float
    y: float
    runs: int
    violated: int
    harmed: int
    is_judged: bool
    breaks_promise: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The promise of some clauses, sampled: how far inside it each point is. Its line is where that is 0.

    left: a row for each y. is_all: every clause is promised there.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    left: Sequence[Sequence[float]]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The envelope of one lock. says: what came of it, in a line. boundary: the measured points at which it breaks."""

    title: str
    says: str
    cells: Sequence[Cell]
    boundary: Sequence[tuple[float, float]]
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis of the figure: its label with the unit, and the values of the grid on it."""

    label: str
    values: Sequence[float]


def envelope_map(panels: Sequence[Panel], *, across: Scale, up: Scale) -> tuple[str, bytes]:
    """The envelopes side by side, as SVG text and as PNG."""
    with style.panels(len(panels), width=PANEL_INCHES * len(panels), height=_HEIGHT_INCHES) as (figure, row):
        for axes, panel in zip(row, panels, strict=True):
            _draw_cells(axes, panel, across, up)
            _draw_curves(axes, panel)
            _draw_boundary(axes, panel)
            _name_areas(axes, panel, across, up)
            axes.set_title(panel.title, fontsize=15, fontweight="bold", pad=24)
            axes.text(0, 1.02, panel.says, transform=axes.transAxes, fontsize=10, va="bottom")
            axes.set_xlabel(across.label)
            axes.grid(visible=False)
            axes.set_xticks(_ticks(across.values))
            axes.set_yticks(_ticks(up.values))
        row[0].set_ylabel(up.label)
        figure.legend(handles=_legend(panels), loc="outside lower center", ncols=3, fontsize=9, handlelength=2.4)
        return style.as_images(figure)


_FAINT: Final = (1, 1, 1, 0.35)
FAR: Final = 1e15
"""A promise without a limit is this far inside, in nanoseconds."""


def _ticks(values: Sequence[float]) -> Sequence[float]:
    return values if len(values) <= _NUMBERS_MAX else values[:: -(-len(values) // _NUMBERS_MAX)]


def _edges(values: Sequence[float]) -> list[float]:
    """The borders of the cells around the values, half-way between neighbours."""
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    first, last = values[1] - values[0], values[-1] - values[-2]
    return [values[0] - first / 2, *middles, values[-1] + last / 2]


def _draw_cells(axes: Axes, panel: Panel, across: Scale, up: Scale) -> None:
    from matplotlib.patches import Rectangle

    left, low = _edges(across.values), _edges(up.values)
    columns = {value: place for place, value in enumerate(across.values)}
    rows = {value: place for place, value in enumerate(up.values)}
    has_numbers = len(across.values) <= _NUMBERS_MAX
    for cell in panel.cells:
        column, row = columns[cell.x], rows[cell.y]
        width, height = left[column + 1] - left[column], low[row + 1] - low[row]
        corner = (left[column], low[row])
        # Cells that held lie below the promise, which colours them; those that broke lie above it.
        place = 3 if cell.violated else 1
        axes.add_patch(
            Rectangle(corner, width, height, facecolor=_colour(cell), edgecolor="white", linewidth=1, zorder=place)
        )
        if cell.violated:
            hatch = "xx" if cell.harmed else "//"
            axes.add_patch(
                Rectangle(corner, width, height, fill=False, hatch=hatch, edgecolor=_FAINT, linewidth=0, zorder=place)
            )
        if cell.breaks_promise:
            axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INSIDE, linewidth=2.5, zorder=8))
        if has_numbers:
            _write(axes, cell, corner[1] + _LOWER * height)
    axes.set_xlim(left[0], left[-1])
    axes.set_ylim(low[0], low[-1])


def _write(axes: Axes, cell: Cell, height: float) -> None:
    told = f"{cell.violated}/{cell.runs}" if cell.violated else f"<3/{cell.runs}" if cell.is_judged else "?"
    weight = "bold" if cell.violated else "normal"
    colour = INSIDE if cell.violated else "#5d6a76"
    axes.text(cell.x, height, told, ha="center", va="center", fontsize=7, color=colour, fontweight=weight, zorder=9)


def _colour(cell: Cell) -> Any:
    if not cell.is_judged:
        return "#ffffff"
    if not cell.violated:
        return HELD
    from matplotlib.colors import to_rgb

    strong = to_rgb(style.VIOLATION if cell.harmed else OVERLAP)
    share = 0.35 + 0.65 * cell.violated / cell.runs
    return tuple(1 - share * (1 - part) for part in strong)


def _draw_curves(axes: Axes, panel: Panel) -> None:
    for curve in panel.curves:
        width, dashes = (3.0, "solid") if curve.is_all else (1.6, (0, (4, 2)))
        if curve.is_all:
            # Drawn apart from cells, whose white borders stay visible through it.
            axes.contourf(curve.x, curve.y, curve.left, levels=[0.0, FAR], colors=[PROMISED], alpha=0.75, zorder=2)
        axes.contour(
            curve.x, curve.y, curve.left, levels=[0.0], colors=[PROMISE], linewidths=width, linestyles=[dashes],
            zorder=6,
        )  # fmt: skip
        _name(axes, curve)


def _name(axes: Axes, curve: Curve) -> None:
    """The clauses of a curve that is not the promise of all, at the right end of its line."""
    inside = [
        (y, x)
        for y, row in zip(curve.y, curve.left, strict=True)
        for x, left in zip(curve.x, row, strict=True)
        if 0 <= left < FAR
    ]
    if inside and not curve.is_all:
        top, right = max(inside)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(
            right, top, curve.label, ha="right", va="center", color=PROMISE, fontsize=8, fontweight="bold", zorder=9,
            bbox=box,
        )  # fmt: skip


def _name_areas(axes: Axes, panel: Panel, across: Scale, up: Scale) -> None:
    """Write the meaning of each area into the area itself: nobody has to look at the legend."""
    whole = next((curve for curve in panel.curves if curve.is_all), None)
    promised = set() if whole is None else _inside(whole, panel.cells)
    # Named where most runs broke: at its edges an area has cells in which few did.
    broken = [cell for cell in panel.cells if 2 * cell.violated > cell.runs]
    areas = (
        ("a late write is accepted", [cell for cell in broken if cell.harmed], INSIDE, "white"),
        ("two holders at once", [cell for cell in broken if not cell.harmed], INSIDE, "white"),
        (
            "" if whole is None else f"promised ({whole.label})",
            [cell for cell in panel.cells if (cell.x, cell.y) in promised and not cell.violated],
            PROMISE,
            PROMISED,
        ),
    )
    step = _edges(up.values)[1] - _edges(up.values)[0]
    for text, cells, colour, ground in areas:
        rows = sorted({cell.y for cell in cells})
        if text and rows:
            row = rows[len(rows) // 2]
            columns = [cell.x for cell in cells if cell.y == row]
            if len(columns) * PANEL_INCHES / len(across.values) * _LETTERS_PER_INCH >= len(text):
                axes.text(
                    (min(columns) + max(columns)) / 2, row + _UPPER * step, text, ha="center", va="center",
                    color=colour, fontsize=10.5, fontweight="bold", zorder=9,
                    bbox={"facecolor": ground, "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
                )  # fmt: skip


def _inside(curve: Curve, cells: Sequence[Cell]) -> set[tuple[float, float]]:
    """The cells whose middle is inside a curve, by its nearest sample."""
    found = set()
    for cell in cells:
        column = min(range(len(curve.x)), key=lambda place: abs(curve.x[place] - cell.x))
        row = min(range(len(curve.y)), key=lambda place: abs(curve.y[place] - cell.y))
        if curve.left[row][column] >= 0:
            found.add((cell.x, cell.y))
    return found


def _draw_boundary(axes: Axes, panel: Panel) -> None:
    if not panel.boundary:
        return
    across, up = zip(*sorted(panel.boundary, key=lambda point: (-point[1], point[0])), strict=True)
    axes.plot(across, up, color="white", linewidth=5, solid_capstyle="round", zorder=6.5)
    axes.plot(across, up, color=INSIDE, linewidth=2.2, marker="o", markersize=4, markerfacecolor="white", zorder=7)


def _legend(panels: Sequence[Panel]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if any(panel.curves for panel in panels):
        handles.append(
            Patch(facecolor=PROMISED, edgecolor=PROMISE, linewidth=2.4, label="promised: nothing may break in here")
        )
    handles += [
        Patch(facecolor=HELD, edgecolor=style.GRID, label="held without a promise"),
        Patch(facecolor=OVERLAP, edgecolor=_FAINT, hatch="//", label="two holders at once; no late write accepted"),
        Patch(facecolor=style.VIOLATION, edgecolor=_FAINT, hatch="xx", label="a late write was accepted"),
    ]
    if any(panel.boundary for panel in panels):
        handles.append(
            Line2D(
                [], [], color=INSIDE, linewidth=2.2, marker="o", markersize=4, markerfacecolor="white",
                label="measured: here it begins to break",
            )
        )  # fmt: skip
    handles.append(Line2D([], [], linestyle="none", label="<3/N: no run of N broke; fewer than 3/N do, at 95 %"))
    if any(cell.breaks_promise for panel in panels for cell in panel.cells):
        handles.append(Patch(facecolor="white", edgecolor=INSIDE, linewidth=2.5, label="broke inside its promise"))
    return handles
