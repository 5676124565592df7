"""The picture, the tables and the page of a safety envelope, made from what a survey found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from lockref.quantities import NS_PER_UNIT
from reports.figures.envelope import FAR, Cell, Curve, Panel, Scale, envelope_map
from reports.figures.envelope_lines import Line, envelope_lines
from reports.html.envelope import Told, write_envelope
from scenarios.envelope.axes import PPM_PER_PERCENT
from scenarios.envelope.contended import Point, text_at
from scenarios.envelope.sentences import answer

if TYPE_CHECKING:
    from scenarios.envelope.axes import Axis
    from scenarios.envelope.cells import Cell as MeasuredCell
    from scenarios.envelope.survey import Surveyed

SAMPLES: Final = 160
"""Points of a curve along each axis."""

LINE_SAMPLES: Final = 2_000
"""Points at which the promise is asked along a single axis."""

CAPTION: Final = (
    "Each cell is one pair of values and shows in how many of its runs a safety clause broke. The blue area is the "
    "promise, computed from the specification: inside it nothing may break. A dashed line is the promise of the "
    "clauses that it names. The dark line is measured, by halving between the last value that held and the first that "
    "broke."
)


def write_pictures(
    surveyed: Sequence[Surveyed],
    axes: Sequence[Axis],
    folder: Path,
    *,
    failures: Mapping[str, Sequence[Mapping[str, str]]],
    notices: Sequence[str],
    origin: str,
) -> Path:
    """Draw the envelopes, and write `envelope.png`, `.svg` and `.html` into the folder; return the page."""
    first, *rest = [axis for axis in axes if not axis.is_fixed]
    picture = _map(surveyed, axes, first, rest[0]) if rest else _lines(surveyed, axes, first)
    return write_envelope(
        [_told(found, axes, failures.get(found.spec.name, ())) for found in surveyed],
        folder,
        picture=picture,
        caption=CAPTION,
        head=[
            *(f"{axis.of.name}" for axis in axes),
            "runs", "broke", "95 % interval", "late write accepted", "clauses", "promised here",
        ],
        scenario=text_at(Point(**{axis.of.name: axis.values[-1] for axis in axes})),
        notices=notices,
        origin=origin,
    )  # fmt: skip


def table_of(found: Surveyed, axes: Sequence[Axis]) -> Table:
    """The grid of one lock as a table for a terminal: the second axis downwards, from its largest value."""
    first, *rest = [axis for axis in axes if not axis.is_fixed]
    cells = {cell.point: cell for cell in found.grid}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{rest[0].of.name} \\ {first.of.name}" if rest else first.of.name)
    for value in first.values:
        table.add_column(first.of.told(value), justify="right")
    base = _base(axes)
    lines = {"": base}
    if rest:
        second = rest[0].of
        lines = {second.told(value): replace(base, **{second.name: value}) for value in reversed(rest[0].values)}
    for told, line in lines.items():
        row = [cells.get(replace(line, **{first.of.name: across})) for across in first.values]
        table.add_row(told, *map(_count, row))
    return table


def _count(cell: MeasuredCell | None) -> str:
    if cell is None:
        return "–"
    if not cell.is_judged:
        return "?"
    return f"{cell.violated}/{cell.runs}" if cell.violated else f"<3/{cell.runs}"


def _base(axes: Sequence[Axis]) -> Point:
    return Point(**{axis.of.name: axis.values[0] for axis in axes})


def _unit(axis: Axis) -> tuple[str, float]:
    """The unit of an axis in a figure, and how much of it is one of the axis' own."""
    if axis.of.is_share:
        return "%", 1 / PPM_PER_PERCENT
    if axis.values[-1] < NS_PER_UNIT["s"]:
        return "ms", 1 / NS_PER_UNIT["ms"]
    return "s", 1 / NS_PER_UNIT["s"]


def _scale(axis: Axis) -> Scale:
    unit, factor = _unit(axis)
    return Scale(label=f"{axis.of.label}, {unit}", values=[value * factor for value in axis.values])


def _map(surveyed: Sequence[Surveyed], axes: Sequence[Axis], first: Axis, second: Axis) -> tuple[str, bytes]:
    panels = [_panel(found, axes, first, second) for found in surveyed]
    return envelope_map(panels, across=_scale(first), up=_scale(second))


def _panel(found: Surveyed, axes: Sequence[Axis], first: Axis, second: Axis) -> Panel:
    (_, by_x), (_, by_y) = _unit(first), _unit(second)
    broken = {cell.point for cell, _ in found.broken_promises}
    boundary = []
    for each in found.boundaries:
        held, broke = each.bracket.held, each.bracket.broke
        if held is not None and broke is not None:
            middle = replace(each.at, **{each.along: (held + broke) // 2})
            boundary.append((middle.value(first.of.name) * by_x, middle.value(second.of.name) * by_y))
    return Panel(
        title=found.spec.name,
        says=answer(found, axes).headline,
        cells=[
            Cell(
                x=cell.point.value(first.of.name) * by_x,
                y=cell.point.value(second.of.name) * by_y,
                runs=cell.runs,
                violated=cell.violated,
                harmed=cell.harmed,
                is_judged=cell.is_judged,
                breaks_promise=cell.point in broken,
            )
            for cell in found.grid
        ],
        boundary=boundary,
        curves=_curves(found, axes, first, second),
    )


def _curves(found: Surveyed, axes: Sequence[Axis], first: Axis, second: Axis) -> list[Curve]:
    """The promise of all clauses together, and of each group of clauses whose limits are fewer."""
    if not found.promises:
        return []
    across, up = _samples(first), _samples(second)
    base = _base(axes)
    points = [[replace(base, **_within(first, x), **_within(second, y)) for x in across] for y in up]
    groups: dict[tuple[str, ...], list[str]] = {}
    for clause, promise in found.promises.items():
        groups.setdefault(tuple(limit.name for limit in promise.limits), []).append(clause)
    (_, by_x), (_, by_y) = _unit(first), _unit(second)
    x, y = [value * by_x for value in across], [value * by_y for value in up]

    def curve(clauses: Sequence[str], *, is_all: bool) -> Curve:
        promises = [found.promises[clause] for clause in clauses]
        left = [[max(-FAR, min(FAR, min(each.left_ns(point) for each in promises))) for point in row] for row in points]
        return Curve(label=_span(clauses), x=x, y=y, left=left, is_all=is_all)

    most = max(len(limits) for limits in groups)
    partial = [curve(clauses, is_all=False) for limits, clauses in groups.items() if 0 < len(limits) < most]
    return [*partial, curve(list(found.promises), is_all=True)]


def _span(clauses: Sequence[str]) -> str:
    """`S1–S7` for all of them, else each."""
    return f"{clauses[0]}–{clauses[-1]}" if len(clauses) > 4 else ", ".join(clauses)


def _within(axis: Axis, value: int) -> dict[str, int]:
    """The value as that of a point: the borders of the figure lie beyond what some disturbances may be."""
    return {axis.of.name: min(max(value, axis.of.least), axis.of.most)}


def _samples(axis: Axis) -> list[int]:
    """Values from half a step below the axis to half a step above it, as the cells of the figure reach."""
    low, high = axis.values[0], axis.values[-1]
    first, last = axis.values[1] - low, high - axis.values[-2]
    begin, end = low - first // 2, high + last // 2
    return [begin + (end - begin) * place // (SAMPLES - 1) for place in range(SAMPLES)]


def _lines(surveyed: Sequence[Surveyed], axes: Sequence[Axis], axis: Axis) -> tuple[str, bytes]:
    unit, factor = _unit(axis)
    lines = []
    for found in surveyed:
        cells = sorted(found.cells, key=lambda cell: cell.point)
        bracket = found.boundaries[0].bracket if found.boundaries else None
        begins = None
        if bracket is not None and bracket.held is not None and bracket.broke is not None:
            begins = (bracket.held * factor, bracket.broke * factor)
        lines.append(
            Line(
                title=found.spec.name,
                points=[
                    (cell.point.value(axis.of.name) * factor, cell.violated, cell.runs) for cell in cells if cell.runs
                ],
                says=answer(found, axes).headline,
                promised=_promised(found, axes, axis, factor),
                begins=begins,
            )
        )
    return envelope_lines(lines, across=f"{axis.of.label}, {unit}")


def _promised(found: Surveyed, axes: Sequence[Axis], axis: Axis, factor: float) -> tuple[float, float] | None:
    """The values of the only axis between which everything is promised; None where nothing is."""
    low, high = axis.values[0], axis.values[-1]
    samples = [low + (high - low) * place // LINE_SAMPLES for place in range(LINE_SAMPLES + 1)]
    inside = [value for value in samples if found.is_promised(replace(_base(axes), **{axis.of.name: value}))]
    return (inside[0] * factor, inside[-1] * factor) if inside else None


def _told(found: Surveyed, axes: Sequence[Axis], failures: Sequence[Mapping[str, str]]) -> Told:
    told = answer(found, axes)
    verdict, badge = badge_of(found)
    cells = sorted(found.cells, key=lambda cell: cell.point)
    return Told(
        title=found.spec.name,
        verdict=verdict,
        badge=badge,
        sentences=told.sentences,
        promises=[(promise.clause, promise.text, "; ".join(promise.references)) for promise in found.promises.values()],
        rows=[_row(cell, found, axes) for cell in cells],
        failures=[each["replay"] or each["again"] for each in failures],
    )


def badge_of(found: Surveyed) -> tuple[str, str]:
    """The verdict whose colour the badge of a lock has, and its words: green only for one that broke nowhere."""
    if found.broken_promises:
        return "violated", "broke its promise"
    if not found.promises:
        return "not_applicable", "promises nothing"
    if any(cell.has_broken for cell in found.cells):
        return "inconclusive", "kept its promise, broke beyond it"
    return "held", "kept its promise"


def _row(cell: MeasuredCell, found: Surveyed, axes: Sequence[Axis]) -> list[str]:
    low, high = cell.interval
    return [
        *(axis.of.told(cell.point.value(axis.of.name)) for axis in axes),
        str(cell.runs),
        f"{cell.violated}/{cell.runs}" if cell.violated else f"<3/{cell.runs}",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        str(cell.harmed),
        ", ".join(f"{clause}: {number}" for clause, number in cell.clauses.items()) or "none",
        ", ".join(sorted(found.promises_at(cell.point))) or "nothing",
    ]
