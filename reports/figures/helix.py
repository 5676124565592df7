"""The pictures of rebalancing: one row for each rule, one mark for each size of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES = 0.36
_MARGIN_INCHES = 1.1


def dot_rows(rows: Mapping[str, Sequence[float]], *, marks: Sequence[str], across: str) -> tuple[str, bytes]:
    """The rows as SVG text and as PNG. rows: a value for each mark. The axis is logarithmic, and 1 is the best."""
    with style.canvas(height=_MARGIN_INCHES + ROW_INCHES * len(rows)) as (figure, axes):
        places = range(len(rows))
        # Marks of one row stand one above the other, so that equal values are seen.
        shift = 0.26
        for number, mark in enumerate(marks):
            axes.plot(
                [values[number] for values in rows.values()],
                [place + shift * (number - (len(marks) - 1) / 2) for place in places],
                linestyle="none",
                markersize=5,
                marker=style.MARKERS[number % len(style.MARKERS)],
                color=style.SERIES[number % len(style.SERIES)],
                label=mark,
            )
        _axes(axes, list(rows), across)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(marks), borderaxespad=0.2)
        return style.as_images(figure)


def _axes(axes: Axes, names: Sequence[str], across: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(across)
