"""The sections of a page for one `Results`: everything worded, bounded and counted before a template sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from lockref.durations import duration
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.figures.plots import Figure, draw
from reports.figures.style import inline
from reports.figures.timeline import timeline_svg, timeline_table
from reports.formats.results import Clause, Failure, Quantiles, Reach, Results
from reports.formats.speed import answers_table, client_table, speed_lines, speed_table
from reports.formats.text import readable, short

TABLE_ROWS_MAX = 400
"""Longer tables are cut, with a notice: the page is for people, the Parquet tables for the rest."""
VERDICT_WORDS = {
    "held": "✓ held",
    "violated": "✗ violated",
    "inconclusive": "? inconclusive",
    "not_applicable": "– not applicable",
}
CLASS_WORDS = {
    "clean": "no two believers",
    "fenced overlap": "beliefs overlapped; the resource checks tokens",
    "latent overlap": "beliefs overlapped; nothing checks tokens, no late write came",
    "harm": "a stale write was accepted",
    "token regression": "tokens fell or came back",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows and columns; numbers right-aligned where the header's name is in `numeric`."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notice: str = ""

    @classmethod
    def cut(cls, table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> Table:
        """A table of at most `TABLE_ROWS_MAX` rows that says what it leaves out."""
        head, rows = table
        left_out = len(rows) - TABLE_ROWS_MAX
        notice = f"{left_out:,} further rows are in results.json" if left_out > 0 else ""
        return cls(head, rows[:TABLE_ROWS_MAX], notice)


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure in the page. `svg` is markup of our own making; every text in it is escaped already."""

    anchor: str
    title: str
    caption: str
    svg: Markup
    table: Table
    notices: list[str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A failure in the page."""

    anchor: str
    failure: Failure
    heading: str
    picture: Picture | None


@dataclass
class Section:
    """One results document as the template wants it."""

    anchor: str
    results: Results
    banner: str
    clauses: list[tuple[str, Clause, str]]
    classes: list[tuple[str, str, str]]
    reached: list[Reach]
    never: str
    violations: list[Violation]
    pictures: list[Picture]
    figures: list[Figure]
    speed: Table
    speed_lines: list[str]
    clients: Table
    store: Table
    latency: Table
    outcomes: Table
    fairness: Table
    capabilities: Table
    provenance: Table
    quarantine: Table
    notices: list[str] = field(default_factory=list)


def _clause_words(clause: Clause) -> str:
    return VERDICT_WORDS[clause.verdict] + ("" if clause.is_demanded else ", not demanded")


def build_section(results: Results, number: int) -> Section:
    """Word one results document. `number` makes its anchors unique in a page."""
    anchor = f"s{number}"
    notices = list(results.notices)
    figures = draw(results, notices)
    return Section(
        anchor=anchor,
        results=results,
        banner=VERDICT_WORDS[results.verdict],
        clauses=[(name, clause, _clause_words(clause)) for name, clause in results.clauses.items()],
        classes=[
            (name, CLASS_WORDS.get(name, ""), f"{runs:,}") for name, runs in sorted(results.classes.items()) if runs
        ],
        reached=[row for row in results.reach if row.runs or row.is_required],
        never=", ".join(
            row.situation.replace("_", " ") for row in results.reach if not row.runs and not row.is_required
        ),
        violations=[_violation(failure, f"{anchor}-v{place}") for place, failure in enumerate(results.failures, 1)],
        pictures=[_picture(figure, anchor) for figure in figures],
        figures=figures,
        speed=Table.cut(speed_table(results.speed) if results.speed is not None else ((), ())),
        speed_lines=speed_lines(results.speed) if results.speed is not None else [],
        clients=Table.cut(client_table(results.speed) if results.speed is not None else ((), ())),
        store=Table.cut(answers_table(results.answers)),
        latency=Table.cut(_latency(results.latency)),
        outcomes=Table.cut(_outcomes(results)),
        fairness=Table.cut(_fairness(results)),
        capabilities=Table.cut((("capability", "value"), list(flattened(results.capabilities)))),
        provenance=Table.cut((("what", "value"), list(flattened(results.provenance)))),
        quarantine=Table.cut(
            (
                ("source", "reason", "records"),
                [(short(row.source, 80), short(row.reason, 80), f"{row.records:,}") for row in results.quarantine],
            )
        ),
        notices=notices,
    )


def _picture(figure: Figure, anchor: str) -> Picture:
    prefix = f"{anchor}-{figure.name}"
    # The SVG is matplotlib's, which escapes text; `inline` escapes the label.
    svg = Markup(inline(figure.svg, prefix=prefix, label=figure.alt))
    return Picture(prefix, figure.title, figure.caption, svg, Table.cut(figure.table), figure.notices)


def _violation(failure: Failure, anchor: str) -> Violation:
    heading = f"{failure.clause}: {short(readable(failure.message), 160)}"
    timeline = failure.timeline
    if timeline is None or not timeline.rows:
        return Violation(anchor, failure, heading, None)
    drawn = timeline_svg(timeline, prefix=anchor, moment_label=f"{failure.clause} broken")
    notices = [f"{timeline.dropped:,} marks far from the violation were left out"] if timeline.dropped else []
    caption = (
        "Solid: the client believes it holds the lock. Pale: the store names it as owner. The number is the fencing "
        "token (or the end of the owner's name). Strokes are protected writes the resource accepted, crosses those it "
        "refused. Hatched: two clients believed at once. Grey lanes: faults."
    )
    table = Table.cut(timeline_table(timeline))
    picture = Picture(
        f"{anchor}-timeline",
        f"Who held the lock around the violation, run {failure.run}",
        caption,
        Markup(drawn),
        table,
        notices,
    )
    return Violation(anchor, failure, heading, picture)


def _latency(rows: Sequence[Quantiles]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    head = ("measure", "operation", "answer", "cell", "samples", "p50", "p90", "p99", "p99.9", "max")
    return head, [
        (row.measure, row.op, row.outcome.replace("_", " "), short(row.cell, 60), f"{row.samples:,}",
         *(duration(value) for value in (row.p50_ns, row.p90_ns, row.p99_ns, row.p999_ns, row.max_ns)))
        for row in rows
    ]  # fmt: skip


def _outcomes(results: Results) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    totals: dict[tuple[str, str, str], int] = {}
    for row in results.outcomes:
        key = (row.cell, row.kind, row.op)
        totals[key] = totals.get(key, 0) + row.count
    head = ("cell", "kind", "operation", "answer", "count", "share")
    return head, [
        (short(row.cell, 60), row.kind, row.op, row.outcome.replace("_", " "), f"{row.count:,}",
         f"{100 * row.count / totals[row.cell, row.kind, row.op]:.2f} %")
        for row in results.outcomes
    ]  # fmt: skip


def _fairness(results: Results) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    def index(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    head = ("cell", "runs", "grants", "Jain median", "Jain lowest", "longest streak of one client")
    return head, [
        (short(row.cell, 60), f"{row.runs:,}", f"{row.grants:,}", index(row.jain_p50), index(row.jain_min),
         f"{row.longest_streak:,}")
        for row in results.fairness
    ]  # fmt: skip


def flattened(value: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """Nested mappings as (dotted name, text) pairs; lists on one line."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flattened(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, short(", ".join(str(item) for item in value), 400)
    elif value is not None and value != "":
        yield name, short(str(value), 400)


_BREAKOUT = re.compile(r"[<>&]")


def embedded(results: Sequence[Results]) -> Markup:
    """The results as JSON for a `<script type="application/json">`: no text in it can end the element."""
    text = json.dumps([one.model_dump(mode="json") for one in results], separators=(",", ":"), ensure_ascii=False)
    escaped = _BREAKOUT.sub(lambda match: f"\\u{ord(match.group()):04x}", printable_json(text))
    # JSON allows these escapes only inside strings, and outside them none of the characters occurs.
    return Markup(escaped)


def overview(sections: Sequence[Section]) -> Table:
    """One row for each section."""
    head = ("part", "verdict", "runs", "statement")
    return Table(
        head,
        [
            (short(part.results.title, 80), part.banner, counted(part.results.runs, "run"), part.results.statement)
            for part in sections
        ],
    )
