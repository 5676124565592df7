"""A picture for each resource of a soak: what was sampled, the line of its slope, and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lockref.samples import HARNESS, LOCK
from reports.figures import style
from reports.figures.plots import Figure, finish
from reports.soak.verdict import PER, Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS_MAX: Final = 800
HEIGHT_INCHES: Final = 2.2
_S_PER_MINUTE: Final = 60


def soak_figures(findings: Sequence[Finding]) -> list[Figure]:
    """The pictures of the resources that have values, those of the lock first; none of the harness."""
    shown = [each for each in findings if len(each.series.values) > 1 and each.role == LOCK]
    shown += [each for each in findings if len(each.series.values) > 1 and each.role not in (LOCK, HARNESS)]
    return [_figure(each) for each in shown]


def _figure(finding: Finding) -> Figure:
    values = finding.series.values.tolist()
    minutes = [each / _S_PER_MINUTE for each in finding.series.at_s.tolist()]

    def draw(axes: Axes) -> None:
        step = max(1, len(values) // POINTS_MAX)
        axes.plot(
            minutes[::step], values[::step], color=style.SERIES[0], marker=".", markersize=3, linestyle="none",
            label="sampled", gid="samples",
        )  # fmt: skip
        if finding.lines:
            line, low, high = finding.lines
            colour = style.VIOLATION if finding.verdict in ("leaks", "rises") else style.INK
            axes.plot(minutes, line, color=colour, linewidth=1.6, label="slope")
            axes.fill_between(
                minutes, low, high, color=colour, alpha=0.15, linewidth=0, label="95 % interval of the slope"
            )
        axes.set_xlabel("minutes of the soak, without the warm-up")
        axes.set_ylabel(finding.unit)
        axes.set_ylim(bottom=min([0.0, *values]))
        axes.legend(loc="lower right", fontsize=7, ncols=3)

    told = finding.told()
    return finish(
        f"{finding.role}-{finding.name}",
        f"{finding.title}, of the {finding.role}: {finding.verdict}",
        finding.line,
        finding.line,
        draw,
        table=(
            ("slope", "value", "low", "high"),
            [
                (label, *(f"{each[part]:.4g}" for part in ("slope", "low", "high")))
                for label, each in (
                    (f"per {PER:,} cycles", told["slope_per_1000_cycles"]),
                    ("an hour", told["slope_per_hour"]),
                )
                if each is not None
            ],
        ),
        height=HEIGHT_INCHES,
    )
