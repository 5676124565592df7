"""`make docs`: what differences of clocks do to a lease, drawn from runs of the hardened lock.

Each row is a run of `docs/explanation/clock-promise/clocks.yaml`, in which the wall clock of the waiter is ahead by the
row's amount. The blue bar ends with the last yes of the holder's guard, the other one begins with the waiter's first:
both are read off the history of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final
from xml.sax.saxutils import escape

from lockref.durations import plain_duration
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_MS, NS_PER_S
from reports.checks import judge
from reports.html.picture_files import picture_file
from scenarios.definition.load import parse_scenario
from scenarios.worlds.simulated import run_simulated
from tests.docs import ROOT

SCENARIO: Final = ROOT / "docs" / "explanation" / "clock-promise" / "clocks.yaml"
PICTURE: Final = SCENARIO.with_name("clocks.svg")
AHEAD_MS: Final = (0, 500, 1_000, 1_300)
MARGIN_NS: Final = 500 * NS_PER_MS
"""M of the hardened lock, where nothing else is configured; the holder's last yes in the runs agrees with it."""
_BEGIN_NS, _END_NS = 8_900 * NS_PER_MS, 10_900 * NS_PER_MS
_LEFT, _SCALE, _ROW, _TOP, _WIDTH = 210, 0.26, 56, 74, 760

_STYLE: Final = """
.cp text{font:12px system-ui,"DejaVu Sans",Arial,sans-serif;fill:var(--ink,#1b1f24)}
.cp .faint{fill:var(--faint,#57606a)}
.cp .end{text-anchor:end}
.cp .middle{text-anchor:middle}
.cp .alarm{fill:var(--alarm,#b34700);font-weight:700}
.cp .holder{fill:var(--trace,#0072b2);fill-opacity:.85}
.cp .waiter{fill:#009e73;fill-opacity:.85}
.cp .both{fill:none;stroke:#d55e00;stroke-width:2.6}
.cp .line{stroke:var(--grid,#d0d7de);stroke-width:1.4;stroke-dasharray:4 4}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run. ahead_ms: of the waiter's wall clock. last_yes_ns, first_yes_ns: of holder and waiter, in true time."""

    ahead_ms: int
    last_yes_ns: int
    first_yes_ns: int

    @property
    def overlap_ns(self) -> int:
        """For how long both believed; 0 or less where they did not."""
        return self.last_yes_ns - self.first_yes_ns


@cache
def rows() -> tuple[Row, ...]:
    """The runs, one for each amount."""
    text = SCENARIO.read_text(encoding="utf-8")
    found = []
    for ahead_ms in AHEAD_MS:
        scenario = parse_scenario(text.replace("{n2: 0s}", f"{{n2: {ahead_ms}ms}}"), file=SCENARIO.name)
        outcome = run_simulated(scenario, load_provider("hardened"), scenario.seed or 1)
        judged = judge(to_table([outcome.recorder], [outcome.seed]), runs_table([outcome.run_row]))
        [holder, waiter] = judged.tenures.sort_by("first_ns").to_pylist()
        found.append(Row(ahead_ms=ahead_ms, last_yes_ns=holder["last_ns"], first_yes_ns=waiter["first_ns"]))
    return tuple(found)


def promise_svg() -> str:
    """The picture as the text of an SVG file; equal runs give equal text."""
    height = _TOP + _ROW * len(rows()) + 8
    label = (
        "Four runs: a waiter whose clock is ahead by 0, 500, 1,000 or 1,300 ms; only in the last one do both believe"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cp" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{label}">',
        f"<style>{_STYLE}</style>",
    ]
    stamp_ns = 10 * NS_PER_S
    for at_ns, name, what in (
        (stamp_ns - MARGIN_NS, "L − M", "the holder stops"),
        (stamp_ns, "L", "the stamp"),
        (stamp_ns + MARGIN_NS, "L + β", "a right clock takes over"),
    ):
        x = _x(at_ns)
        parts += [
            _text(x, 18, f"{name} = {at_ns / NS_PER_S:.1f} s", "middle"),
            _text(x, 34, what, "faint middle"),
            f'<line class="line" x1="{x}" y1="42" x2="{x}" y2="{height - 8}"/>',
        ]
    parts += [
        _text(_LEFT, _TOP - 6, "the holder believes", "faint"),
        _text(_WIDTH - 26, _TOP + 48, "the waiter believes", "faint end"),
    ]
    for place, row in enumerate(rows()):
        parts += _drawn(row, _TOP + _ROW * place)
    return picture_file("\n".join([*parts, "</svg>"]))


def _drawn(row: Row, y: int) -> list[str]:
    last, first = _x(row.last_yes_ns), _x(row.first_yes_ns)
    names = {0: "clocks agree", 500: "ahead by β", 1_000: "ahead by β + M"}
    parts = [
        _text(8, y + 12, names.get(row.ahead_ms, "ahead by more")),
        _text(8, y + 28, f"waiter: {plain_duration(row.ahead_ms * NS_PER_MS)} ahead" if row.ahead_ms else "", "faint"),
        f'<rect class="holder" x="{_LEFT}" y="{y}" width="{last - _LEFT}" height="14" rx="3"/>',
        f'<rect class="waiter" x="{first}" y="{y + 18}" width="{_x(_END_NS) - first}" height="14" rx="3"/>',
    ]
    if row.overlap_ns > 0:
        parts += [
            f'<rect class="both" x="{first}" y="{y - 4}" width="{last - first}" height="40" rx="3"/>',
            _text(last + 8, y + 12, f"✗ both believe for {plain_duration(row.overlap_ns)}", "alarm"),
        ]
    else:
        parts.append(_text(last + 8, y + 12, f"nobody for {plain_duration(-row.overlap_ns)}", "faint"))
    return parts


def _x(at_ns: int) -> int:
    return _LEFT + round((at_ns - _BEGIN_NS) / NS_PER_MS * _SCALE)


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(promise_svg(), encoding="utf-8")
