"""The picture of an evaluation: grants per second and hand-off of each store, against the number of clients.

Every point stands with its interval. A figure without one is a hollow point: there were too few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lockref.durations import duration
from reports.comparison.comparison import Cell
from reports.comparison.standing import Crowd, Standing, interval
from reports.figures import style
from reports.figures.plots import Figure, finish, log_durations
from reports.formats.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME_MAX = 40
_MS = 1e6
_APART = 0.05
"""By how much the points of two stores stand apart on the logarithmic axis, so that their intervals do not cover each
other."""


def store_figures(standings: Sequence[Standing]) -> list[Figure]:
    """The pictures, as far as anything was measured."""
    return [
        figure
        for figure in (
            _against_clients(
                standings, lambda crowd: crowd.rate, unit="1/s", name="grants", title="Grants per second",
                label="grants per second",
            ),
            _against_clients(
                standings, lambda crowd: crowd.handoff, unit="ns", name="hand-off", title="Hand-off after a release",
                label="hand-off, median",
            ),
        )
        if figure is not None
    ]  # fmt: skip


def _against_clients(
    standings: Sequence[Standing], figure_of: Callable[[Crowd], Cell], *, unit: str, name: str, title: str, label: str
) -> Figure | None:
    """One figure of all stores against the number of clients; None where no store has it."""
    shown = [
        (one, [(crowd, cell) for crowd in one.crowds if (cell := figure_of(crowd)).value is not None])
        for one in standings
    ]
    shown = [(one, points) for one, points in shown if points]
    if not shown:
        return None
    scale = _MS if unit == "ns" else 1.0

    def draw_on(axes: Axes) -> None:
        from matplotlib.ticker import LogLocator

        axes.set_xscale("log")
        counts = sorted({crowd.contenders for _, points in shown for crowd, _ in points})
        for place, (one, points) in enumerate(shown):
            _draw_store(axes, one.name, points, place=place, stores=len(shown), scale=scale)
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.minorticks_off()
        axes.set_xlim(min(counts) / 1.6, max(counts) * 1.6)
        axes.set_xlabel("clients that contend for one lock")
        axes.set_ylabel(label)
        if unit == "ns":
            log_durations(axes, "y")
            # Hand-offs often lie within one power of ten, which alone would leave the axis without a label.
            axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
        else:
            axes.set_ylim(bottom=0)
        axes.legend(loc="best", fontsize=8.5, handlelength=1.4)

    told = "; ".join(
        f"{one.name}: " + ", ".join(f"{crowd.contenders:,} clients {_value(cell, unit)}" for crowd, cell in points)
        for one, points in shown
    )
    head = ("store", "clients", label, "how the run ended")
    body = [
        (one.name, f"{crowd.contenders:,}", interval(cell, unit=unit), crowd.word)
        for one, points in shown
        for crowd, cell in points
    ]
    return finish(
        f"stores-{name}",
        title,
        "Each bar is the interval at 95 % within the run; of several repeats, from the smallest to the largest. Points "
        "of two stores stand a little apart. A hollow point had too few samples for an interval.",
        f"{title} against the number of clients. {told}.",
        draw_on,
        table=(head, body),
    )


def _draw_store(
    axes: Axes, name: str, points: Sequence[tuple[Crowd, Cell]], *, place: int, stores: int, scale: float
) -> None:
    """One store: a line through its points, and the interval of each. place: of this store among all `stores`."""
    shift = 10 ** (_APART * (place - (stores - 1) / 2))
    colour = style.SERIES[place % len(style.SERIES)]
    marker = style.MARKERS[place % len(style.MARKERS)]
    at = [crowd.contenders * shift for crowd, _ in points]
    line = "-" if place < len(style.SERIES) else "--"
    axes.plot(at, [(cell.value or 0) / scale for _, cell in points], color=colour, linewidth=1, linestyle=line,
              label=short(name, _NAME_MAX))  # fmt: skip
    for x, (_, cell) in zip(at, points, strict=True):
        has_interval = cell.low is not None and cell.high is not None
        if cell.low is not None and cell.high is not None:
            axes.plot([x, x], [cell.low / scale, cell.high / scale], color=colour, linewidth=2.4)
        axes.plot([x], [(cell.value or 0) / scale], marker=marker, color=colour, markersize=6,
                  markerfacecolor=colour if has_interval else "none", linestyle="")  # fmt: skip


def _value(cell: Cell, unit: str) -> str:
    return duration(cell.value) if unit == "ns" else f"{cell.value:.3g}"
