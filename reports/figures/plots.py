"""The plots: one function for each, from results to a `Figure`.

F-numbers are those of docs/results.md. Each comes with the text that stands
in for it (`alt`) and with the table of what it shows, because a picture alone
cannot be searched, copied or heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockref.durations import duration, plain_duration
from reports.checks.witness_rows import CUT_SHORT_WORD
from reports.figures import style
from reports.formats.results import ClientCount, Fairness, Quantiles, Results, Scatter
from reports.formats.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES_MAX = 4
"""More lines than this are not told apart: the ones with the most samples are drawn, the rest counted."""
BARS_MAX = 24
NAMED_BARS_MAX = 24
"""More clients have bars without names: all of them are drawn, the table says who they are."""
NUMBERS_MAX = 80
"""So many characters stand in a line above the bars without touching."""
LABEL_MAX = 34
NAME_HEIGHT_PIXELS = 15
"""As much as two names under each other need."""
_MS = 1e6
CUT_COLOUR = "#5f5f5f"
"""The colour of calls that the end of the run cut short: neither granted nor denied."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot and what must go with it. `name` is a file name's stem; `table` is a header and rows of text."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    png: bytes
    table: tuple[Sequence[str], Sequence[Sequence[str]]]
    notices: list[str] = field(default_factory=list)


def draw(results: Results, notices: list[str] | None = None) -> list[Figure]:
    """Every plot that the results have data for. A plot that fails is a notice, never a verdict."""
    figures: list[Figure] = []
    for make in (wait_curve, wait_quantiles, handoff, raw_latency, lease_left, clients):
        try:
            made = make(results)
        except (ValueError, ArithmeticError, RuntimeError, OSError) as error:
            if notices is not None:
                notices.append(f"the figure {make.__name__} could not be drawn: {error}")
            continue
        if made is not None:
            figures.append(made)
    return figures


def _most(rows: Sequence[Quantiles], what: str) -> tuple[list[Quantiles], list[str]]:
    chosen = sorted(rows, key=lambda row: (-row.samples, row.cell, row.op, row.outcome))[:SERIES_MAX]
    left_out = len(rows) - len(chosen)
    return chosen, [f"{what}: {left_out} series with fewer samples are in the table only"] if left_out else []


def _of(results: Results, measure: str, outcome: str | None = None) -> list[Quantiles]:
    return [row for row in results.latency if row.measure == measure and (outcome is None or row.outcome == outcome)]


_ANSWERS = {
    "applied": "granted",
    "precondition_failed": "denied",
    "ambiguous": "unknown",
    "rejected": "failed",
    CUT_SHORT_WORD: "cut short by the end",
}
"""What an outcome means to a caller who waits."""


def _answer(row: Quantiles) -> str:
    """The ending of the call or request, in words."""
    return _ANSWERS.get(row.outcome, "failed") if row.measure == "wait" else row.outcome.replace("_", " ")


def _label(row: Quantiles, rows: Sequence[Quantiles]) -> str:
    """The label of a series: its operation, its outcome and its cell, as far as the series differ in them."""
    shown = {"op": row.op.replace("_", " "), "outcome": _answer(row), "cell": row.cell}
    parts = [said for name, said in shown.items() if said and len({getattr(other, name) for other in rows}) > 1]
    return short(" · ".join(parts) or row.cell or row.measure, LABEL_MAX)


def _quantile_table(rows: Sequence[Quantiles]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head = ("series", "samples", "min", "p50", "p90", "p95", "p99", "p99.9", "max")
    body = []
    for row in rows:
        name = " · ".join(part.replace("_", " ") for part in (row.cell, row.op, _answer(row)) if part)
        quoted = (row.min_ns, row.p50_ns, row.p90_ns, row.p95_ns, row.p99_ns, row.p999_ns, row.max_ns)
        body.append((short(name, 90), f"{row.samples:,}", *(duration(value) for value in quoted)))
    return head, body


def finish(name: str, title: str, caption: str, alt: str, draw_on: Callable[[Axes], None], *,
            table: tuple[Sequence[str], Sequence[Sequence[str]]], notices: Sequence[str] = (),
            height: float = style.SIZE_INCHES[1]) -> Figure:  # fmt: skip
    """A figure from what draws it: as SVG and as PNG, with its words and its numbers."""
    with style.canvas(height=height) as (figure, axes):
        draw_on(axes)
        svg, png = style.as_images(figure)
        return Figure(name, title, caption, alt, svg, png, table=table, notices=list(notices))


def log_durations(axes: Axes, which: str) -> None:
    """A logarithmic axis whose labels are durations."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(base=10, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_duration(value * _MS)))
    axis.set_minor_formatter(NullFormatter())


def _floor(value_ns: float) -> float:
    """Milliseconds for a logarithmic axis, which has no place for zero: at least a tenth of a microsecond."""
    return max(value_ns / _MS, 1e-4)


def _floor_under(values_ns: Iterable[float]) -> Callable[[float], float]:
    """As `_floor`, with zero just below the shortest of these: in a simulation many a call takes no time at all."""
    least = _floor(min((value for value in values_ns if value > 0), default=0) / 2)
    return lambda value_ns: max(value_ns / _MS, least)


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Name lines at their right ends (x, y, text, colour), pushed apart so that names do not cover each other."""
    axes.figure.canvas.draw()
    to_pixels = axes.transData.transform
    # All names stand in one column right of the plot: at its own end, a name would lie on a line that goes on.
    edge = axes.get_xlim()[1]
    free = float("-inf")
    for _, y, text, colour in sorted(ends, key=lambda end: end[1]):
        wanted = to_pixels((edge, y))[1]
        free = max(wanted, free + NAME_HEIGHT_PIXELS)
        axes.annotate(
            text, (edge, y), xytext=(6, (free - wanted) * 72 / axes.figure.dpi), textcoords="offset points",
            color=colour, va="center", fontsize=9, annotation_clip=False,
        )  # fmt: skip


def wait_curve(results: Results) -> Figure | None:
    """F6: every wait by rank, tail stretched: the k-th gridline is one in 10^k."""
    rows, notices = _most(_of(results, "wait"), "waits")
    if not rows:
        return None

    def draw_on(axes: Axes) -> None:
        ends = []
        farthest = 1.0
        place = _floor_under(value for row in rows for _, value in row.curve)
        for row, colour in zip(rows, style.SERIES, strict=False):
            # Ranks beyond what so many samples can show are left out, the maximum stands at 1/n.
            points = [(1 / (1 - at), value) for at, value in row.curve if at < 1 and 1 / (1 - at) < row.samples]
            points.append((float(max(row.samples, 2)), row.max_ns))
            axes.plot([x for x, _ in points], [place(y) for _, y in points], color=colour)
            ends.append((points[-1][0], place(points[-1][1]), _label(row, rows), colour))
            farthest = max(farthest, points[-1][0])
        axes.set_xscale("log")
        axes.set_xlim(1, farthest * 1.05)
        ticks = [(2.0, "50 %"), (10.0, "90 %"), (100.0, "99 %"), (1e3, "99.9 %"), (1e4, "99.99 %"), (1e5, "99.999 %")]
        shown = [tick for tick in ticks if tick[0] <= farthest * 1.05]
        axes.set_xticks([at for at, _ in shown], [text for _, text in shown])
        axes.minorticks_off()
        log_durations(axes, "y")
        axes.set_xlabel("share of calls that waited no longer")
        axes.set_ylabel("wait for the lock")
        _label_ends(axes, ends)

    worst = max(rows, key=lambda row: row.p99_ns)
    return finish(
        "f6-wait-percentiles",
        "How long clients wait",
        "Service time of each acquire call, from the call to its answer, whatever the answer. Clients call again only "
        "after the last answer, so a slow lock is asked less often: read it as what callers saw, not as offered load.",
        f"Percentile curve of waits. Longest 99th percentile: {duration(worst.p99_ns)}, {_label(worst, rows)}.",
        draw_on,
        table=_quantile_table(_of(results, "wait")),
        notices=notices,
    )


def wait_quantiles(results: Results) -> Figure | None:
    """Requests and calls as dots from median to 99th percentile, a tick at the maximum."""
    rows = [row for row in results.latency if row.measure in ("request", "release", "hold", "wait")]
    rows = sorted(rows, key=lambda row: (row.measure, row.cell, row.op, row.outcome))
    if not rows:
        return None
    shown = sorted(rows, key=lambda row: -row.samples)[:BARS_MAX]
    shown = [row for row in rows if row in shown]
    notices = (
        [f"{len(rows) - len(shown)} rows with fewer samples are in the table only"] if len(shown) < len(rows) else []
    )
    many = len({row.cell for row in rows}) > 1

    def name(row: Quantiles) -> str:
        parts = (row.measure if row.measure != "request" else f"request {row.op}", _answer(row))
        return short(" · ".join([*parts, row.cell] if many else parts), LABEL_MAX + 14)

    def draw_on(axes: Axes) -> None:
        for place, row in enumerate(reversed(shown)):
            # A call that the end of the run cut short was not denied: its client would have waited on.
            is_cut = row.outcome == CUT_SHORT_WORD
            failed = row.outcome not in ("applied", "")
            colour = CUT_COLOUR if is_cut else style.SERIES[2] if failed else style.SERIES[0]
            axes.plot([_floor(row.p50_ns), _floor(row.p99_ns)], [place, place], color=colour, linewidth=2.2)
            axes.plot([_floor(row.p50_ns)], [place], marker="o", color=colour, markersize=6)
            axes.plot([_floor(row.p99_ns)], [place], marker="|", color=colour, markersize=9, markeredgewidth=2)
            axes.plot([_floor(row.max_ns)], [place], marker="x", color=style.INK, markersize=4)
        axes.set_yticks(range(len(shown)), [name(row) for row in reversed(shown)])
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.grid(visible=False, axis="y")
        log_durations(axes, "x")
        axes.set_xlabel("● median   | 99th percentile   × maximum")

    return finish(
        "latency-quantiles",
        "Calls and store requests",
        "Exact quantiles over all samples. Denied, unknown and failed answers have rows of their own. So have calls "
        "that the end of the run cut short, which are no denials. None is dropped.",
        f"Median, 99th percentile and maximum of {len(shown)} kinds of calls and requests; the table has the figures.",
        draw_on,
        table=_measure_table(rows),
        notices=notices,
        height=max(style.SIZE_INCHES[1] * 0.6, 0.75 + 0.24 * len(shown)),
    )


def _measure_table(rows: Sequence[Quantiles]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head, body = _quantile_table(rows)
    return ("measure", *head), [(row.measure, *cells) for row, cells in zip(rows, body, strict=True)]


def handoff(results: Results) -> Figure | None:
    """F8: how long it took until one who waited got what a holder gave up, as shares."""
    rows, notices = _most(_of(results, "handoff"), "hand-offs")
    if not rows:
        return None

    def draw_on(axes: Axes) -> None:
        # A successor may come before the promise ends, which a logarithmic axis has no place for.
        is_early = any(row.min_ns < 0 for row in rows)
        place = _floor_under(value for row in rows for _, value in row.curve)
        for row, colour in zip(rows, style.SERIES, strict=False):
            axes.step(
                [value / _MS if is_early else place(value) for _, value in row.curve],
                [at * 100 for at, _ in row.curve],
                where="post",
                color=colour,
            )
        if is_early:
            axes.axvline(0, color=style.VIOLATION, linestyle="--", linewidth=1)
            axes.annotate(
                "promise ends", (0, 4), xytext=(4, 0), textcoords="offset points", color=style.VIOLATION, fontsize=9
            )
        else:
            log_durations(axes, "x")
        axes.set_ylim(0, 102)
        axes.set_ylabel("hand-offs done, %")
        axes.set_xlabel("time from the end of a grant to the waiter's" + (", ms" if is_early else ""))
        handles = [
            (_label(row, rows) if len(rows) > 1 else row.op, colour)
            for row, colour in zip(rows, style.SERIES, strict=False)
        ]
        for line, (text, colour) in enumerate(handles):
            axes.annotate(
                text, (1, 0.08 + 0.09 * line), xycoords="axes fraction", xytext=(-4, 0), textcoords="offset points",
                color=colour, ha="right", fontsize=9,
            )  # fmt: skip

    told = "; ".join(f"{_label(row, rows)}: median {duration(row.p50_ns)}, p99 {duration(row.p99_ns)}" for row in rows)
    return finish(
        "f8-hand-off",
        "Hand-off: what a failover costs",
        "After release: from the release taking effect until one who waited then is served, whoever comes between. "
        "After expiry: from the end of the promised validity. After death: from the crash. The last two count from the "
        "successor's call where that came later, so an idle lock does not count.",
        f"Cumulative share of hand-offs by duration. {told}.",
        draw_on,
        table=_quantile_table(_of(results, "handoff")),
        notices=notices,
    )


def raw_latency(results: Results) -> Figure | None:
    """F5: single waits over time, by answer."""
    return _scatter(
        [row for row in results.scatters if row.measure == "wait"],
        name="f5-raw-waits",
        title="Every wait",
        caption="One mark per acquire call, at the time of calling since its run began. "
        "Calls that took no time stand at the bottom.",
        ylabel="wait for the lock",
    )


def lease_left(results: Results) -> Figure | None:
    """F4: what was left of the lease when each renewal was sent; below zero it had already ended."""
    rows = [row for row in results.scatters if row.measure == "lease"]
    if not rows:
        return None
    points = [point for row in rows for point in row.points]
    late = sum(1 for _, value in points if value <= 0)

    def draw_on(axes: Axes) -> None:
        for row, colour, marker in zip(rows[:SERIES_MAX], style.SERIES, style.MARKERS, strict=False):
            axes.plot(
                [at / 1e9 for at, _ in row.points], [value / 1e9 for _, value in row.points], linestyle="",
                marker=marker, color=colour, alpha=0.55, markersize=3.5, markeredgewidth=0, rasterized=True,
            )  # fmt: skip
        axes.axhline(0, color=style.VIOLATION, linestyle="--", linewidth=1.2)
        axes.annotate(
            "lease over", (1, 0), xycoords=("axes fraction", "data"), xytext=(-2, 3), textcoords="offset points",
            color=style.VIOLATION, ha="right", fontsize=9,
        )  # fmt: skip
        axes.set_xlabel("time since the run began, s")
        axes.set_ylabel("lease left, s")

    return finish(
        "f4-lease-left",
        "How near each renewal came to the end of its lease",
        "What was left of the promised validity, by the holder's own clock, when it sent the renewal. "
        "A mark below the line is a renewal sent after the promise had ended.",
        f"Lease left at {len(points):,} renewals; {late:,} were sent after the lease was over.",
        draw_on,
        table=_quantile_table(_of(results, "lease")),
    )


def _scatter(rows: list[Scatter], *, name: str, title: str, caption: str, ylabel: str) -> Figure | None:
    groups: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        groups.setdefault(_ANSWERS.get(row.outcome, "failed"), []).extend(row.points)
    if not groups:
        return None
    order = [answer for answer in _ANSWERS.values() if answer in groups]
    total = sum(row.total for row in rows)
    drawn = sum(len(points) for points in groups.values())
    style_of = dict(
        zip(_ANSWERS.values(), zip((*style.SERIES, CUT_COLOUR), ("o", "s", "^", "x", "D"), strict=True), strict=True)
    )

    def draw_on(axes: Axes) -> None:
        place = _floor_under(value for points in groups.values() for _, value in points)
        for answer in order:
            colour, marker = style_of[answer]
            points = sorted(groups[answer])
            axes.plot(
                [at / 1e9 for at, _ in points], [place(value) for _, value in points], linestyle="", marker=marker,
                color=colour, alpha=0.6, markersize=3.5, markeredgewidth=1 if marker == "x" else 0,
                label=f"{answer} ({len(points):,})", rasterized=True,
            )  # fmt: skip
        log_durations(axes, "y")
        axes.set_xlabel("time since the run began, s")
        axes.set_ylabel(ylabel)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2, handletextpad=0.2)

    counts = ", ".join(f"{len(groups[answer]):,} {answer}" for answer in order)
    table = [
        (
            answer,
            f"{len(groups[answer]):,}",
            duration(min(value for _, value in groups[answer])),
            duration(max(value for _, value in groups[answer])),
        )
        for answer in order
    ]
    return finish(
        name,
        title,
        caption,
        f"{title}: {counts}.",
        draw_on,
        table=(("answer", "marks", "shortest", "longest"), table),
        notices=[f"shows {drawn:,} of {total:,} samples"] if drawn < total else [],
    )


def clients(results: Results) -> Figure | None:
    """F9: grants per client of the cell with the most, and Jain's index."""
    if not results.clients:
        return None
    totals: dict[str, int] = {}
    for row in results.clients:
        totals[row.cell] = totals.get(row.cell, 0) + row.granted
    cell = max(sorted(totals), key=lambda name: totals[name])
    rows = sorted((row for row in results.clients if row.cell == cell), key=lambda row: (-row.granted, row.client))
    notices = []
    if results.clients_left_out:
        notices.append(f"without {results.clients_left_out:,} clients that got as often or less")
    if len(totals) > 1:
        notices.append(f"drawn for {short(cell)}; the others are in the table only")
    jain = next((row for row in results.fairness if row.cell == cell), None)

    def draw_on(axes: Axes) -> None:
        places = range(len(rows))
        is_named = len(rows) <= NAMED_BARS_MAX
        axes.bar(places, [row.granted for row in rows], color=style.SERIES[0], width=0.72 if is_named else 1.0)
        axes.grid(visible=False, axis="x")
        axes.set_ylim(0, max(1, *(row.granted for row in rows)) * 1.12)
        axes.set_ylabel("grants")
        if is_named:
            axes.set_xticks(places, [short(row.client, 14) for row in rows], rotation=0 if len(rows) <= 12 else 60)
            axes.set_xlabel("client")
        else:
            axes.set_xlim(-0.5, len(rows) - 0.5)
            axes.set_xlabel(f"all {len(rows):,} clients, by their grants")
        is_numbered = is_named and len(rows) * max(len(f"{row.granted:,}") for row in rows) <= NUMBERS_MAX
        for place, row in zip(places, rows, strict=True) if is_numbered else ():
            axes.annotate(
                f"{row.granted:,}",
                (place, row.granted),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
        if jain is not None and jain.jain_p50 is not None:
            axes.set_title(jain_text(jain))

    return finish(
        "f9-clients",
        "Who got the lock",
        "Grants per client, over all runs; a client that was never granted the lock has a bar of zero. Jain's index is "
        "1 where all clients of a run got the same, 1/n where one of n got everything.",
        f"Grants per client: from {rows[-1].granted:,} to {rows[0].granted:,} among {len(rows)} clients."
        + (f" {jain_text(jain)}." if jain is not None and jain.jain_p50 is not None else ""),
        draw_on,
        table=_client_table(results.clients),
        notices=notices,
    )


def jain_text(row: Fairness) -> str:
    """Jain's index of a cell in words."""
    if row.jain_p50 is None:
        return "Jain's index: no grants"
    if row.runs == 1:
        return f"Jain's index {row.jain_p50:.3f}"
    return f"Jain's index: median {row.jain_p50:.3f}, lowest {row.jain_min:.3f} over {row.runs:,} runs"


def _client_table(rows: Sequence[ClientCount]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head = ("cell", "client", "calls", "grants", "longest wait")
    return head, [
        (short(row.cell, 60), short(row.client, 40), f"{row.asked:,}", f"{row.granted:,}", duration(row.wait_max_ns))
        for row in rows
    ]
