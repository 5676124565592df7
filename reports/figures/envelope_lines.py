"""The picture of a safety envelope on one axis: the share of runs that broke, with its interval, for each lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reports.checks.measures.confidence import share_95
from reports.figures import style
from reports.figures.envelope import PANEL_INCHES, PROMISE, PROMISED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT_INCHES: Final = 4.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The envelope of one lock. says: what came of it, in a line. points: value, runs that broke, runs.

    promised: the values between which everything is promised; None where nothing is.
    begins: the measured bracket in which it begins to break, if it does.
    """

    title: str
    says: str
    points: Sequence[tuple[float, int, int]]
    promised: tuple[float, float] | None
    begins: tuple[float, float] | None


def envelope_lines(lines: Sequence[Line], *, across: str) -> tuple[str, bytes]:
    """The envelopes side by side, as SVG text and as PNG. A bar is the 95 % interval: up to 3/N, else Wilson's."""
    with style.panels(len(lines), width=PANEL_INCHES * len(lines), height=_HEIGHT_INCHES) as (figure, row):
        for axes, line in zip(row, lines, strict=True):
            _draw(axes, line)
            axes.set_title(line.title, fontsize=15, fontweight="bold", pad=24)
            axes.text(0, 1.02, line.says, transform=axes.transAxes, fontsize=10, va="bottom")
            axes.set_xlabel(across)
        row[0].set_ylim(-0.03, 1.03)
        row[0].set_ylabel("share of runs in which a safety clause broke")
        shown = {label: handle for axes in row for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize=9)
        return style.as_images(figure)


def _draw(axes: Axes, line: Line) -> None:
    if line.promised is not None:
        axes.axvspan(
            *line.promised,
            facecolor=PROMISED,
            edgecolor=PROMISE,
            linewidth=2.4,
            label="promised: nothing may break in here",
        )
    if line.begins is not None:
        axes.axvspan(
            *line.begins,
            facecolor=style.VIOLATION,
            edgecolor="white",
            hatch="xx",
            label="measured: here it begins to break",
        )
    values = [value for value, _, _ in line.points]
    shares = [broken / runs for _, broken, runs in line.points]
    intervals = [share_95(broken, runs) for _, broken, runs in line.points]
    below = [max(0.0, share - low) for share, (low, _) in zip(shares, intervals, strict=True)]
    above = [max(0.0, high - share) for share, (_, high) in zip(shares, intervals, strict=True)]
    axes.errorbar(
        values, shares, yerr=[below, above], color=style.INK, marker="o", markerfacecolor="white", capsize=3,
        elinewidth=1, label="runs that broke, with the 95 % interval",
    )  # fmt: skip
