"""The pictures of Delta's commits: lines over the number of writers, of versions, of adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def line_chart(
    lines: Mapping[str, Points], *, across: str, up: str, limit: tuple[str, float] | None = None, is_log: bool = False
) -> tuple[str, bytes]:
    """The lines as SVG text and as PNG. limit: a level in words and its height. is_log: both axes are logarithmic."""
    with style.canvas() as (figure, axes):
        for number, (label, points) in enumerate(lines.items()):
            colour = style.SERIES[number % len(style.SERIES)]
            marker = style.MARKERS[number % len(style.MARKERS)]
            axes.plot(*zip(*points, strict=True), marker=marker, color=colour, label=label)
        if limit is not None:
            axes.axhline(limit[1], color=style.VIOLATION, linestyle="--", label=limit[0])
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        _scale(axes, is_log=is_log)
        if len(lines) > 1 or limit is not None:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
        return style.as_images(figure)


def _scale(axes: Axes, *, is_log: bool) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    if not is_log:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10))
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.set_minor_formatter(NullFormatter())
