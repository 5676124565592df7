"""The space-time diagram of one failure, as SVG of our own.

A column per client, one for the store, one for the resource; time goes down. A solid arrow is a request, a dashed one
its answer, a cross a message that was lost. A blue bar stands while a client believes that it holds the lock, a pale
bar while the store names it, a hatched one while its process is paused.

The axis is no ruler. In twenty seconds of a run the requests of interest fall into a few milliseconds, and on a linear
axis they would be one line. So each instant has a place below the one before, the time stands beside it, and a stretch
in which nothing happens is short and says how long it was. Equal diagrams give equal text.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from lockref.durations import plain_duration
from reports.explanation.explanation import Bar, Diagram, Mark, Message
from reports.figures.style import attribute
from reports.formats.text import seconds, short

GUTTER: Final = 88
RIGHT: Final = 236
LANE_LEAST, LANE_MOST, LANES_WIDTH = 108, 196, 900
SMALL_LANE, SMALL_RIGHT = 150, 40
"""Limits of a small picture: the most that a lane takes, and the least right of the last one."""
HEAD: Final = 44
LABEL: Final = 16
"""Between two labels, one below the other."""
CHARACTER: Final = 6.3
"""About the width of a character at the size used: a label that would leave the picture stands left of its lane."""
TIP_WIDTH: Final = 96
"""Characters of a line of the text that is shown for a request under the pointer."""
TITLE_MAX: Final = 280
"""Characters of that text."""
_STEPS: Final = ((1_000_000, 7), (100_000_000, 12), (1_000_000_000, 18))
"""By length of a pause between two instants, how far apart they are drawn; longer ones are said in words."""
_GAP: Final = 30
NAME_MAX: Final = 18
LEAST_SCALE: Final = 0.8
"""A page shows the picture no smaller than that, for the sake of its letters; what is wider can be pushed."""

_STYLE: Final = """
.st text{font:12px system-ui,"DejaVu Sans",Arial,sans-serif;fill:var(--ink,#1b1f24)}
.st .name{font-weight:700;text-anchor:middle}
.st .faint{fill:var(--faint,#57606a)}
.st .clock{fill:var(--faint,#57606a);text-anchor:end;font-variant-numeric:tabular-nums}
.st .label{paint-order:stroke;stroke:var(--page,#fff);stroke-width:3.5px}
.st .life{stroke:var(--grid,#d0d7de);stroke-width:1.4}
.st .gap{stroke:var(--grid,#d0d7de);stroke-width:1;stroke-dasharray:2 5}
.st .ask{stroke:var(--trace,#0072b2);stroke-width:1.6;fill:none}
.st .answer{stroke:var(--trace,#0072b2);stroke-width:1.2;stroke-dasharray:5 3;fill:none}
.st .tip{fill:var(--trace,#0072b2)}
.st .refused .ask,.st .refused .answer{stroke:var(--fault,#6e7781)}
.st .refused .tip{fill:var(--fault,#6e7781)}
.st .lost{stroke:var(--ink,#1b1f24);stroke-width:2.2;fill:none}
.st .guilty .ask{stroke:#d55e00;stroke-width:3.2}
.st .guilty .tip{fill:#d55e00}
.st .alarm{fill:var(--alarm,#b34700);font-weight:700}
.st .belief{fill:var(--trace,#0072b2);fill-opacity:.85}
.st .grant{fill:#56b4e9;fill-opacity:.42}
.st .down{fill:none;stroke:var(--ink,#1b1f24);stroke-dasharray:3 3}
.st .cut{fill:var(--fault,#6e7781);fill-opacity:.22}
.st .onbar{font-size:10px;text-anchor:middle}
.st .dot{fill:var(--ink,#1b1f24)}
.st .lease{stroke:#d55e00;stroke-width:2.6}
.st .faultmark{fill:var(--fault,#6e7781)}
.st .faulttext{fill:var(--faint,#57606a);font-style:italic}
.st .hit{stroke:transparent;stroke-width:14;fill:none}
.st .m{outline:none}
.st .m:is(:hover,:focus) .ask{stroke-width:3.6}
.st .told{visibility:hidden;pointer-events:none}
.st .told rect{fill:var(--card,#f6f8fa);stroke:var(--ink,#1b1f24)}
@media print{.st .told{display:none}}
"""


@dataclass(slots=True)
class _Sheet:
    """The places of lanes and instants, and the parts drawn so far: no line may cross a label, so labels come last.

    prefix: makes ids unique in a page.
    """

    lanes: tuple[str, ...]
    lane_width: int
    right: int
    prefix: str
    rows: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    bottom: int = HEAD
    parts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    crosses: list[str] = field(default_factory=list)
    tips: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        return GUTTER + len(self.lanes) * self.lane_width + self.right

    def x(self, lane: str) -> int:
        return GUTTER + self.lanes.index(lane) * self.lane_width + self.lane_width // 2

    def y(self, at_ns: int) -> int:
        """The place of an instant, which the diagram has."""
        return self.rows[at_ns]


def space_time_svg(
    diagram: Diagram, *, prefix: str = "st", clause: str = "", is_small: bool = False, has_legend: bool = True
) -> str:
    """The picture as one `<svg>` element; fits a page, light or dark.

    prefix: makes ids unique in a page that shows several. clause: what the guilty event breaks, said beside it.
    is_small: narrow, and without the texts under the pointer: for a file that is shown as an image.
    has_legend: what the signs mean stands below; a page of several pictures says it once.
    """
    count = max(1, len(diagram.lanes))
    most = SMALL_LANE if is_small else LANE_MOST
    sheet = _Sheet(diagram.lanes, max(LANE_LEAST, min(most, LANES_WIDTH // count)), RIGHT, prefix)
    labelled = _labelled(diagram)
    if is_small:
        sheet.right = _right_of_labels(sheet, labelled, clause)
    _place(sheet, diagram, labelled)
    legend = _legend(diagram, min(120, int(sheet.width / CHARACTER))) if has_legend else []
    height = sheet.bottom + (26 + LABEL * len(legend) if legend else 0)
    _axis(sheet)
    for bar in sorted(diagram.bars, key=lambda bar: _BEHIND.index(bar.kind)):
        _bar(sheet, bar)
    for number, each in enumerate(labelled):
        if isinstance(each, Message):
            _message(sheet, each, number, clause)
        elif isinstance(each, Mark):
            _mark(sheet, each, sheet.places[number], clause)
        else:
            text = f"… {short(each[1], 150)}"
            sheet.labels.append(_text(GUTTER + 4, sheet.places[number] + 4, text, "label faulttext"))
    for place, line in enumerate(legend):
        sheet.parts.append(_text(8, sheet.bottom + 26 + LABEL * place, line, "faint"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="st" viewBox="0 0 {sheet.width} {height}" role="group" '
        f'style="--least:{round(LEAST_SCALE * sheet.width)}px" '
        f'aria-label="{attribute(short(description(diagram), 2 * TITLE_MAX))}">'
    )
    if is_small:
        sheet.tips.clear()
    ground = f'<rect width="{sheet.width}" height="{height}" style="fill:var(--page,#fff)"/>'
    style = f"<style>{_STYLE}{_reveals(sheet)}</style>"
    return "\n".join(
        [head, style, _defs(prefix), ground, *sheet.parts, *sheet.labels, *sheet.crosses, *sheet.tips, "</svg>"]
    )


def description(diagram: Diagram) -> str:
    """The picture in a sentence, for those who do not see it."""
    guilty = [message.text for message in diagram.messages if message.is_guilty]
    guilty += [f"{mark.lane} {mark.label} at {seconds(mark.at_ns)}" for mark in diagram.marks if mark.is_guilty]
    wrong = f" The event that breaks the clause: {guilty[0]}." if guilty else ""
    return (
        f"Space-time diagram of {', '.join(diagram.lanes)} from {seconds(diagram.begin_ns)} to "
        f"{seconds(diagram.end_ns)} with {len(diagram.messages)} requests.{wrong}"
    )


def _right_of_labels(sheet: _Sheet, labelled: list[_Labelled], clause: str) -> int:
    """The room right of the last lane that the labels need; at most that of a large picture."""
    needed = SMALL_RIGHT
    for each in labelled:
        if isinstance(each, tuple) or each.lane not in sheet.lanes:
            continue
        length = len(each.label) + (len(f"  ✗ breaks {clause}") + 4 if each.is_guilty and clause else 0)
        end = sheet.x(each.lane) + 24 + int(CHARACTER * length)
        needed = max(needed, end - GUTTER - len(sheet.lanes) * sheet.lane_width)
    return min(needed, RIGHT)


_Labelled: TypeAlias = Message | Mark | tuple[int, str]
_BEHIND: Final = ("grant", "cut", "down", "pause", "belief")
"""The kinds of bars, those that lie below the others first."""


def _at(each: _Labelled) -> int:
    if isinstance(each, Message):
        return each.sent_ns
    return each.at_ns if isinstance(each, Mark) else each[0]


def _labelled(diagram: Diagram) -> list[_Labelled]:
    """All that has a label, in the order of time; at one instant faults before requests, and what ends last."""
    found: list[_Labelled] = [*diagram.messages, *diagram.marks, *diagram.folded]
    rank = {"fault": 0, "lease": 1, "no": 3, "yes": 1, "return": 3}
    return sorted(found, key=lambda each: (_at(each), rank.get(each.kind, 2) if isinstance(each, Mark) else 2))


def _place(sheet: _Sheet, diagram: Diagram, labelled: list[_Labelled]) -> None:
    """Give each instant and each label its place."""
    arrivals = [at_ns for message in diagram.messages for at_ns in (message.applied_ns, message.replied_ns)]
    bare = {at_ns for at_ns in arrivals if at_ns is not None}
    bare |= {edge for bar in diagram.bars for edge in (bar.begin_ns, bar.end_ns)}
    at_instant: dict[int, list[int]] = {at_ns: [] for at_ns in bare}
    for number, each in enumerate(labelled):
        at_instant.setdefault(_at(each), []).append(number)
    y, last_label, before = HEAD, HEAD, None
    is_mark = False
    for at_ns in sorted(at_instant):
        if before is not None:
            y += next((step for limit, step in _STEPS if at_ns - before < limit), _GAP)
        else:
            y += 12
        before = at_ns
        for number in at_instant[at_ns]:
            # A request's label stands above its line, any other one beside its mark.
            is_message = isinstance(labelled[number], Message)
            y = max(y, last_label + LABEL + (7 if is_message and is_mark else 0))
            sheet.places[number] = last_label = y
            is_mark = not is_message
        sheet.rows[at_ns] = y
    sheet.bottom = y + 16


def _axis(sheet: _Sheet) -> None:
    """Names of lanes, their lines, the times, and the stretches in which nothing happens."""
    for lane in sheet.lanes:
        x = sheet.x(lane)
        sheet.parts.append(f'<line class="life" x1="{x}" y1="{HEAD - 10}" x2="{x}" y2="{sheet.bottom}"/>')
        sheet.parts.append(_text(x, HEAD - 18, short(lane, NAME_MAX), "name"))
    last_y, before = 0, None
    for at_ns, y in sorted(sheet.rows.items()):
        if before is not None and at_ns - before[0] >= _STEPS[-1][0]:
            middle = (before[1] + y) // 2
            sheet.parts.append(_line(GUTTER - 6, middle, sheet.width - sheet.right, middle, "gap"))
            sheet.parts.append(_text(GUTTER - 12, middle + 4, f"⋮ {plain_duration(at_ns - before[0])}", "clock"))
            last_y = middle
        if y - last_y >= 13:
            sheet.parts.append(_text(GUTTER - 12, y + 4, seconds(at_ns), "clock"))
            last_y = y
        before = (at_ns, y)


def _bar(sheet: _Sheet, bar: Bar) -> None:
    x, top, end = sheet.x(bar.lane), sheet.y(bar.begin_ns), sheet.y(bar.end_ns)
    half = {"belief": 5, "grant": 8, "pause": 12, "down": 12, "cut": 13}[bar.kind]
    fill = f' fill="url(#{sheet.prefix}-hatch)"' if bar.kind == "pause" else ""
    length = max(3, end - top)
    sheet.parts.append(
        f'<rect class="{bar.kind}" x="{x - half}" y="{top}" width="{2 * half}" height="{length}" rx="3"{fill}>'
        f"<title>{escape(short(bar.label, 80))}</title></rect>"
    )
    if bar.kind == "grant" and length > 34:
        middle = top + length // 2
        place = f'x="{x}" y="{middle + 4}" transform="rotate(-90 {x} {middle})"'
        sheet.parts.append(f'<text class="onbar" {place}>{escape(short(bar.label, 12))}</text>')


def _message(sheet: _Sheet, message: Message, number: int, clause: str) -> None:
    """A request, its answer, and what is said of it under the pointer."""
    x, far, y = sheet.x(message.lane), sheet.x(message.service), sheet.places[number]
    back = sheet.y(message.replied_ns) if message.replied_ns is not None else None
    there = sheet.y(message.applied_ns) if message.applied_ns is not None else None
    lines = []
    if there is None and message.end in ("applied", "refused", "read") and back is not None:
        there = (y + back) // 2
    if there is None:
        lines += _lost(sheet, x, y, far, y + 10, "ask") if message.end != "open" else [_line(x, y, far, y + 8, "ask")]
    else:
        # A repeated label may stand below the instant of its arrival.
        there = max(there, y)
        lines += [_line(x, y, far, there, "ask"), _head(x, y, far, there)]
        if message.end == "lost reply":
            lines += _lost(sheet, far, there, x, there + 10, "answer")
        elif back is not None:
            lines += [_line(far, there, x, max(back, there), "answer"), _head(far, there, x, max(back, there))]
    wrong = f"  ✗ breaks {clause}" if message.is_guilty and clause else ""
    kind = "m refused" if message.end == "refused" else "m"
    kind += " guilty" if message.is_guilty else ""
    title = f"<title>{escape(short(message.text, TITLE_MAX))}</title>"
    sheet.parts.append(
        f'<g class="{kind}" id="{sheet.prefix}-m{number}" tabindex="0">{title}'
        + "".join(lines)
        + _line(x, y, far, there if there is not None else y + 10, "hit")
        + "</g>"
    )
    sheet.labels.append(_text(x + 9, y - 3, message.label + wrong, "label alarm" if message.is_guilty else "label"))
    told = textwrap.wrap(short(message.text, TITLE_MAX), TIP_WIDTH)
    top = y + 14
    text = "".join(_text(GUTTER + 8, top + 15 + 15 * place, line) for place, line in enumerate(told))
    width = int(max(len(line) for line in told) * CHARACTER) + 18
    sheet.tips.append(
        f'<g class="told" id="{sheet.prefix}-t{number}"><rect x="{GUTTER}" y="{top}" width="{width}" '
        f'height="{9 + 15 * len(told)}" rx="4"/>{text}</g>'
    )


def _reveals(sheet: _Sheet) -> str:
    """A rule for each request that shows its text while the pointer, or the focus, is on it."""
    numbers = [tip.split('id="', 1)[1].split('"', 1)[0].rpartition("-t")[2] for tip in sheet.tips]
    return "\n".join(
        f".st:has(#{sheet.prefix}-m{number}:is(:hover,:focus)) #{sheet.prefix}-t{number}{{visibility:visible}}"
        for number in numbers
    )


def _mark(sheet: _Sheet, mark: Mark, y: int, clause: str) -> None:
    if mark.lane not in sheet.lanes:
        return
    x = sheet.x(mark.lane)
    glyph = f'<circle class="dot" cx="{x}" cy="{y}" r="3.4"/>'
    kind = "label"
    if mark.kind == "lease":
        glyph = f'<line class="lease" x1="{x - 13}" y1="{y}" x2="{x + 13}" y2="{y}"/>'
    elif mark.kind == "fault":
        glyph, kind = f'<path class="faultmark" d="M{x} {y - 6}l6 6l-6 6l-6 -6z"/>', "label faulttext"
    elif mark.kind == "no":
        glyph = f'<path class="lost" d="M{x - 4} {y - 4}l8 8m0 -8l-8 8"/>'
    wrong = ""
    if mark.is_guilty:
        glyph = f'<path class="lost alarm" style="stroke:#d55e00" d="M{x - 6} {y - 6}l12 12m0 -12l-12 12"/>'
        kind, wrong = "label alarm", f"  ✗ breaks {clause}" if clause else ""
    label = mark.label + wrong
    fits = x + 16 + CHARACTER * len(label) < sheet.width
    text = _text(x + 16, y + 4, label, kind) if fits else _text(x - 16, y + 4, label, kind, "end")
    sheet.parts.append(glyph)
    sheet.labels.append(text)


def _lost(sheet: _Sheet, x: int, y: int, far: int, there: int, kind: str) -> list[str]:
    """A message that stops on its way. The cross at its end lies over all labels."""
    end_x, end_y = x + (far - x) * 6 // 10, y + (there - y) * 6 // 10
    sheet.crosses.append(f'<path class="lost" d="M{end_x - 5} {end_y - 5}l10 10m0 -10l-10 10"/>')
    return [_line(x, y, end_x, end_y, kind)]


def _line(x: int, y: int, far: int, there: int, kind: str) -> str:
    return f'<line class="{kind}" x1="{x}" y1="{y}" x2="{far}" y2="{there}"/>'


def _head(x: int, y: int, far: int, there: int) -> str:
    """The head of an arrow, drawn along the lane that it reaches: markers cannot take the colour of their line."""
    side = -9 if far > x else 9
    slope = (there - y) * abs(side) // max(1, abs(far - x))
    return f'<path class="tip" d="M{far} {there}l{side} {-slope - 4}v8z"/>'


def _defs(prefix: str) -> str:
    return (
        f'<defs><pattern id="{prefix}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="#8a8f98" fill-opacity=".18"/>'
        '<line x1="0" y1="0" x2="0" y2="6" stroke="#8a8f98" stroke-width="2.4"/></pattern></defs>'
    )


def _legend(diagram: Diagram, characters: int) -> list[str]:
    said = [
        "Solid: request; dashed: answer; cross: lost on its way; grey: refused. Blue bar: the client believes;",
        "pale bar: the store names the holder; hatched: paused; orange line: a lease ends.",
        "Time goes down, and not to scale: long quiet stretches are short.",
    ]
    said += [f"{notice[:1].upper()}{notice[1:]}." for notice in diagram.notices]
    return [line for each in said for line in textwrap.wrap(each, characters)]


def _text(x: int, y: int, text: str, kind: str = "", anchor: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    held = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x}" y="{y}"{named}{held}>{escape(short(text, 170))}</text>'
