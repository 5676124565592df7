"""F1, the holder timeline, as SVG of our own.

A row per client: a solid bar while it *believes* it holds the lock, a pale
bar while the *store names* it, the grant's token in the bar; ticks for its
protected writes, crossed out where the resource refused them. Where two
clients believed at once, a hatched band joins their rows and says for how
long. Faults are lanes on top. No plotting library draws this well, and none
is needed: the picture is text, and equal timelines give equal text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lockref.durations import duration
from reports.figures.style import attribute
from reports.formats.results import Interval, Tick, Timeline
from reports.formats.text import short

WIDTH = 1080
GUTTER = 132
RIGHT = 22
HEAD = 26
LANE = 22
ROW = 50
AXIS = 34
CHARACTER = 6.6
"""About the width of a character at the size used, in SVG units: a label is left out where it does not fit."""
NAME_MAX = 18
_TOKEN = re.compile(r"[0-9]{1,19}")

_STYLE = """
.tl text{font:11px system-ui,"DejaVu Sans",Arial,sans-serif;fill:var(--ink,#1b1f24)}
.tl .name{text-anchor:end;font-weight:600}
.tl .faint{fill:var(--faint,#57606a)}
.tl .grid{stroke:var(--grid,#d0d7de);stroke-width:1}
.tl .stripe{fill:var(--stripe,#f6f8fa)}
.tl .believed{fill:#0072b2}
.tl .onbar{fill:#fff;font-weight:600}
.tl .owner{paint-order:stroke;stroke:#0072b2;stroke-width:3.5px}
.tl .granted{fill:#56b4e9;fill-opacity:.42}
.tl .fault{fill:var(--fault,#8a8f98)}
.tl .strike{stroke:var(--fault,#8a8f98);stroke-width:2}
.tl .overlap{stroke:#d55e00;stroke-width:1.2}
.tl .alarm{fill:var(--alarm,#b34700);font-weight:700;paint-order:stroke;stroke:var(--page,#fff);stroke-width:3.5px}
.tl .moment{stroke:var(--alarm,#b34700);stroke-width:1.4;stroke-dasharray:5 3}
.tl .write{stroke:var(--ink,#1b1f24);stroke-width:1.6}
.tl .stale{stroke:var(--alarm,#b34700);stroke-width:2.6}
"""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The places of true times and rows on the picture."""

    begin_ns: int
    end_ns: int
    origin_ns: int
    tops: dict[str, float]
    bottom: float

    def x(self, at_ns: int) -> float:
        span = max(1, self.end_ns - self.begin_ns)
        inside = min(max(at_ns, self.begin_ns), self.end_ns)
        return GUTTER + (inside - self.begin_ns) / span * (WIDTH - GUTTER - RIGHT)


def timeline_svg(timeline: Timeline, *, prefix: str = "tl", moment_label: str = "") -> str:
    """The picture as one `<svg>` element; fits a page of any width, light or dark.

    prefix: makes ids unique in a page that shows several. moment_label: what is
    said at the moment.
    """
    struck = {bar.row for bar in timeline.intervals if bar.kind == "fault"}
    fault_rows = [row for row in timeline.rows if row in struck]
    client_rows = [row for row in timeline.rows if row not in fault_rows]
    tops: dict[str, float] = {}
    place = float(HEAD)
    for row in fault_rows:
        tops[row] = place
        place += LANE
    place += 6 if fault_rows else 0
    for row in client_rows:
        tops[row] = place
        place += ROW
    frame = _Frame(timeline.begin_ns, timeline.end_ns, timeline.origin_ns, tops, place)
    height = place + AXIS
    label = description(timeline)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tl" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{attribute(label)}">',
        f"<style>{_STYLE}</style>",
        f'<defs><pattern id="{prefix}-hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="7" height="7" fill="#d55e00" fill-opacity=".16"/>'
        '<line x1="0" y1="0" x2="0" y2="7" stroke="#d55e00" stroke-width="2.6" stroke-opacity=".75"/></pattern></defs>',
    ]
    parts += _stripes(frame, client_rows)
    parts += _axis(frame)
    parts += [_text(GUTTER - 10, tops[row] + 14, short(row, NAME_MAX), "name faint") for row in fault_rows]
    parts += [part for bar in timeline.intervals if bar.kind == "fault" for part in _fault(frame, bar)]
    held = [bar for kind in ("granted", "believed") for bar in timeline.intervals if bar.kind == kind]
    parts += [_bar(frame, bar) for bar in held]
    parts += _overlaps(frame, [bar for bar in timeline.intervals if bar.kind == "overlap"], prefix)
    # Names last, so that no hatching crosses them.
    parts += [part for bar in held for part in _bar_name(frame, bar)]
    parts += _ticks(frame, timeline.ticks)
    parts += _moment(frame, timeline.moment_ns, moment_label)
    parts.append("</svg>")
    return "\n".join(parts)


def description(timeline: Timeline) -> str:
    """The picture in a sentence or two, for those who do not see it."""
    origin_ns = timeline.origin_ns
    clients = {bar.row for bar in timeline.intervals if bar.kind in ("believed", "granted")}
    overlaps = [bar for bar in timeline.intervals if bar.kind == "overlap"]
    refused = sum(1 for tick in timeline.ticks if not tick.is_accepted)
    text = (
        f"Holder timeline of {len(clients)} clients from {_time(timeline.begin_ns, origin_ns)} to "
        f"{_time(timeline.end_ns, origin_ns)}; {len(timeline.ticks)} protected writes, {refused} refused."
    )
    for bar in overlaps[:3]:
        text += (
            f" {short(bar.label, NAME_MAX)} and {short(bar.row, NAME_MAX)} both believed to hold the lock for "
            f"{duration(bar.end_ns - bar.begin_ns)} from {_time(bar.begin_ns, origin_ns)}."
        )
    return text


def timeline_table(timeline: Timeline) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Header and rows that say what the picture shows, in order of time."""
    origin_ns = timeline.origin_ns
    names = {"believed": "believed", "granted": "named by the store", "fault": "fault", "overlap": "both believed"}
    entries = [
        (
            bar.begin_ns,
            (names.get(bar.kind, bar.kind), short(bar.row, 40), short(bar.label, 40), _time(bar.begin_ns, origin_ns),
             _time(bar.end_ns, origin_ns), duration(bar.end_ns - bar.begin_ns)),
        )
        for bar in timeline.intervals
    ]  # fmt: skip
    entries += [
        (
            tick.at_ns,
            ("write accepted" if tick.is_accepted else "write refused", short(tick.row, 40), short(tick.label, 40),
             _time(tick.at_ns, origin_ns), "", ""),
        )
        for tick in timeline.ticks
    ]  # fmt: skip
    head = ("what", "who", "token", "from", "to", "for")
    return head, [cells for _, cells in sorted(entries, key=lambda entry: entry[0])]


def _time(at_ns: int, origin_ns: int) -> str:
    return f"{(at_ns - origin_ns) / 1e9:,.3f} s"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    held = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{held}>{escape(text)}</text>'


def _stripes(frame: _Frame, client_rows: Sequence[str]) -> list[str]:
    parts = []
    for place, row in enumerate(client_rows):
        top = frame.tops[row]
        if place % 2 == 0:
            parts.append(f'<rect class="stripe" x="0" y="{top:.1f}" width="{WIDTH}" height="{ROW}"/>')
        parts.append(_text(GUTTER - 10, top + ROW / 2 + 4, short(row, NAME_MAX), "name"))
    return parts


def _axis(frame: _Frame) -> list[str]:
    """Gridlines at round times: the step is 1, 2 or 5 times a power of ten, at most about nine of them."""
    span = max(1, frame.end_ns - frame.begin_ns)
    step = 1
    while span / step > 9:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    first = -(-(frame.begin_ns - frame.origin_ns) // step) * step + frame.origin_ns
    digits = max(0, min(9, 9 - (len(str(step)) - 1)))
    parts = []
    for at in range(first, frame.end_ns + 1, step):
        x = frame.x(at)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{HEAD}" x2="{x:.1f}" y2="{frame.bottom:.1f}"/>')
        label = f"{(at - frame.origin_ns) / 1e9:,.{digits}f} s"
        parts.append(_text(x, frame.bottom + 16, label, "faint", "middle"))
    return parts


def _fault(frame: _Frame, bar: Interval) -> list[str]:
    top = frame.tops[bar.row]
    left, right = frame.x(bar.begin_ns), frame.x(bar.end_ns)
    if bar.end_ns == bar.begin_ns:
        return [
            f'<line class="strike" x1="{left - 5:.1f}" y1="{top + 4}" x2="{left + 5:.1f}" y2="{top + 14}"/>',
            f'<line class="strike" x1="{left + 5:.1f}" y1="{top + 4}" x2="{left - 5:.1f}" y2="{top + 14}"/>',
        ]
    parts = [
        f'<rect class="fault" x="{left:.1f}" y="{top + 3}" width="{max(2.0, right - left):.1f}" height="14" rx="2"/>'
    ]
    label = f"{short(bar.label, 24)} for {duration(bar.end_ns - bar.begin_ns)}"
    if right - left > CHARACTER * len(label) + 8:
        parts.append(_text((left + right) / 2, top + 14, label, "onbar", "middle"))
    return parts


def _bar_place(frame: _Frame, bar: Interval) -> tuple[float, float, float, float]:
    """Left, right, top and height of a client's bar."""
    y, height = (6, 19) if bar.kind == "believed" else (34, 12)
    return frame.x(bar.begin_ns), frame.x(bar.end_ns), frame.tops[bar.row] + y, height


def _bar(frame: _Frame, bar: Interval) -> str:
    left, right, y, height = _bar_place(frame, bar)
    width = max(1.5, right - left)
    return f'<rect class="{bar.kind}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2"/>'


def _bar_name(frame: _Frame, bar: Interval) -> list[str]:
    left, right, y, height = _bar_place(frame, bar)
    label = short(bar.label, 12)
    if not label or right - left <= CHARACTER * len(label) + 4:
        return []
    drop, kind = (5, "onbar owner") if bar.kind == "believed" else (2.5, "")
    return [_text((left + right) / 2, y + height - drop, label, kind, "middle")]


def _overlaps(frame: _Frame, overlaps: Sequence[Interval], prefix: str) -> list[str]:
    """A band over both rows; its length stands beside it, unless another label is there already."""
    parts = []
    labelled_to = 0.0
    for bar in overlaps:
        if bar.row not in frame.tops or bar.label not in frame.tops:
            continue
        upper, lower = sorted((frame.tops[bar.row], frame.tops[bar.label]))
        left, right = frame.x(bar.begin_ns), max(frame.x(bar.end_ns), frame.x(bar.begin_ns) + 3)
        parts.append(
            f'<rect class="overlap" x="{left:.1f}" y="{upper + 3:.1f}" width="{right - left:.1f}" '
            f'height="{lower - upper + 24:.1f}" fill="url(#{prefix}-hatch)"/>'
        )
        label = f"both believe for {duration(bar.end_ns - bar.begin_ns)}"
        start = left - CHARACTER * len(label) - 6
        at_left = start > GUTTER
        begin = start if at_left else right + 6
        if begin >= labelled_to:
            parts.append(_text(begin, lower + 21 if at_left else upper + 21, label, "alarm"))
            labelled_to = begin + CHARACTER * len(label)
    return parts


def _ticks(frame: _Frame, ticks: Sequence[Tick]) -> list[str]:
    """Writes as strokes under the belief bar; refused ones as crosses; accepted ones with an outdated token, thick."""
    parts = []
    newest = -1
    for tick in ticks:
        x, y = frame.x(tick.at_ns), frame.tops[tick.row] + 25
        token = int(tick.label) if _TOKEN.fullmatch(tick.label) else None
        if not tick.is_accepted:
            parts.append(f'<path class="write" d="M{x - 4:.1f} {y:.1f}l8 8m0 -8l-8 8" fill="none"/>')
            continue
        is_stale = token is not None and token < newest
        newest = max(newest, token if token is not None else -1)
        kind = "stale" if is_stale else "write"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + 8:.1f}"/>')
        if is_stale:
            label = f"stale write with {short(tick.label, 12)} accepted"
            fits = x + CHARACTER * len(label) < WIDTH
            parts.append(_text(x + (5 if fits else -5), y + 16, label, "alarm", "start" if fits else "end"))
    return parts


def _moment(frame: _Frame, moment_ns: int | None, label: str) -> list[str]:
    if moment_ns is None:
        return []
    x = frame.x(moment_ns)
    anchor = "start" if x < WIDTH * 0.7 else "end"
    return [
        f'<line class="moment" x1="{x:.1f}" y1="{HEAD - 8}" x2="{x:.1f}" y2="{frame.bottom:.1f}"/>',
        _text(x + (5 if anchor == "start" else -5), HEAD - 10, short(label, 70), "alarm", anchor),
    ]
