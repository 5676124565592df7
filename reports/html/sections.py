"""The sections of a page for one `Results`: everything worded, bounded and counted before a template sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from markupsafe import Markup

from lockref.durations import duration
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.checks.spec import Verdict
from reports.figures.plots import Figure, draw
from reports.figures.style import inline
from reports.figures.timeline import timeline_svg, timeline_table
from reports.formats.results import Clause, Failure, Quantiles, Reach, Results
from reports.formats.speed import answers_table, client_table, speed_lines, speed_table
from reports.formats.text import readable, short

FULL_PARTS_MAX: Final = 8
"""A page of so many parts shows each in full; one of more shows in full what broke, and the others in some lines."""
TIMELINES_MAX: Final = 12
"""Failures of one page that are drawn, the first of each kind before all others."""
BLOCKS_MAX: Final = 3
"""Failures of each part that are told on a page of many parts."""
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
    """One results document as the template wants it.

    clauses: those that apply to some run; inapplicable: the names of the others. kept, came_about: the clauses that
    held and the situations, each in a line, for a part that is folded. violations_left_out, unmeasured: sentences about
    what the page does not show; empty where it shows all.
    """

    anchor: str
    results: Results
    banner: str
    clauses: list[tuple[str, Clause, str]]
    inapplicable: str
    kept: str
    came_about: str
    classes: list[tuple[str, str, str]]
    reached: list[Reach]
    never: str
    violations: list[Violation]
    violations_left_out: str
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
    unmeasured: str
    notices: list[str] = field(default_factory=list)


def _clause_words(clause: Clause) -> str:
    return VERDICT_WORDS[clause.verdict] + ("" if clause.is_demanded else ", not demanded")


@dataclass(frozen=True, slots=True)
class Shown:
    """The extent to which a page shows one part. timelines: the places of the failures that are drawn.

    are_figures_drawn: whether its figures are. blocks_max: how many failures are told in full.
    """

    timelines: frozenset[int]
    are_figures_drawn: bool
    blocks_max: int


def shown_parts(models: Sequence[Results]) -> list[Shown]:
    """The extent to which a page shows each part: of few parts all, of many the failures, one of each kind first.

    Drawing takes most of the time and of the bytes of a page, so both follow what broke, and not how much was run.
    """
    is_small = len(models) <= FULL_PARTS_MAX
    failures = [(part, place) for part, model in enumerate(models) for place in range(len(model.failures))]
    first_of_kind = {kind_of(models[part].failures[place]): (part, place) for part, place in reversed(failures)}
    firsts = set(first_of_kind.values())
    drawn = sorted(failures, key=lambda each: (each not in firsts, each))[:TIMELINES_MAX]
    worst_first = sorted(range(len(models)), key=lambda part: (rank_of(models[part]), part))
    with_figures = [part for part in worst_first if models[part].latency][:FULL_PARTS_MAX]
    return [
        Shown(
            timelines=frozenset(place for number, place in drawn if number == part),
            are_figures_drawn=is_small or part in with_figures,
            blocks_max=len(model.failures) if is_small else BLOCKS_MAX,
        )
        for part, model in enumerate(models)
    ]


_WORST_FIRST: Final[tuple[Verdict, ...]] = ("violated", "inconclusive", "held", "not_applicable")


def rank_of(results: Results) -> int:
    """The place of a part on a page: the worst first."""
    return _WORST_FIRST.index(results.worst)


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several verdicts, as a page ranks them."""
    return min(verdicts, key=_WORST_FIRST.index)


def kind_of(failure: Failure) -> tuple[str, str]:
    """The kind of a failure: the clause and what its witness calls it."""
    return failure.clause, str(failure.witness.get("kind") or "")


def build_section(results: Results, number: int, shown: Shown | None = None) -> Section:
    """Word one results document. `number` makes its anchors unique in a page. shown: None for all."""
    anchor = f"s{number}"
    show = shown or shown_parts([results])[0]
    notices = list(results.notices)
    figures = draw(results, notices) if show.are_figures_drawn else []
    apply = _applying(results)
    told = results.failures[: show.blocks_max]
    left_out = len(results.failures) - len(told)
    return Section(
        anchor=anchor,
        results=results,
        banner=_banner(results),
        clauses=[(name, clause, _clause_words(clause)) for name, clause in apply.items()],
        inapplicable=", ".join(name for name in results.clauses if name not in apply),
        kept=kept_line(results),
        came_about=situations_line(results),
        classes=[
            (name, CLASS_WORDS.get(name, ""), f"{runs:,}") for name, runs in sorted(results.classes.items()) if runs
        ],
        reached=sorted((row for row in results.reach if row.runs or row.is_required), key=_reach_order),
        never=", ".join(
            row.situation.replace("_", " ") for row in results.reach if not row.runs and not row.is_required
        ),
        violations=[
            _violation(failure, f"{anchor}-v{place + 1}", is_drawn=place in show.timelines)
            for place, failure in enumerate(told)
        ],
        violations_left_out=f"{counted(left_out, 'further distinct failure')}: see results.json" if left_out else "",
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
        unmeasured=_unmeasured(results, are_drawn=show.are_figures_drawn),
        notices=notices,
    )


def _applying(results: Results) -> dict[str, Clause]:
    """The clauses that apply to some run."""
    return {name: clause for name, clause in results.clauses.items() if clause.verdict != "not_applicable"}


def _banner(results: Results) -> str:
    """The verdict of safety in words, or what else broke where safety held: a page must not look green beside it."""
    if results.verdict != results.worst == "violated":
        which = "not live" if results.liveness == "violated" else "not fair"
        return f"✗ {which}"
    return VERDICT_WORDS[results.worst]


def _reach_order(row: Reach) -> int:
    """The place of a situation: a demand that was not met explains a verdict, so it stands first."""
    return 0 if row.is_required and (not row.runs or row.count < row.least) else 1 if row.is_required else 2


def situations_line(results: Results) -> str:
    """The situations that came about, each with how often, in a line."""
    return ", ".join(f"{row.situation.replace('_', ' ')} ({row.count:,})" for row in results.reach if row.runs)


def kept_line(results: Results) -> str:
    """The verdicts of a part in a line: what held in all runs, and what was left open."""
    groups: dict[str, list[str]] = {}
    for name, clause in _applying(results).items():
        groups.setdefault(_clause_words(clause), []).append(name)
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in groups.items())


def _unmeasured(results: Results, *, are_drawn: bool) -> str:
    if not results.latency:
        return "No latency or fairness figures: nothing was measured for this part. lockref report of its folder does."
    words = "Its figures are not drawn on a page of so many parts: lockref report of its own folder draws them."
    return "" if are_drawn else words


def _picture(figure: Figure, anchor: str) -> Picture:
    prefix = f"{anchor}-{figure.name}"
    # The SVG is matplotlib's, which escapes text; `inline` escapes the label.
    svg = Markup(inline(figure.svg, prefix=prefix, label=figure.alt))
    return Picture(prefix, figure.title, figure.caption, svg, Table.cut(figure.table), figure.notices)


def headed(failure: Failure) -> str:
    """The heading of a failure: its cause where that is known, else what broke."""
    return f"{failure.clause}: {short(readable(failure.because or failure.message), 200)}"


def _violation(failure: Failure, anchor: str, *, is_drawn: bool) -> Violation:
    heading = headed(failure)
    timeline = failure.timeline
    if timeline is None or not timeline.rows or not is_drawn:
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


SAMPLES: Final[dict[str, bool | dict[str, set[str]]]] = {
    "scatters": True,
    "latency": {"__all__": {"curve"}},
    "failures": {"__all__": {"timeline", "block"}},
    "clauses": {"__all__": {"text"}},
}
"""Fields that stay out of the page's data: the samples behind its pictures, and what its text says already."""


def embedded_results(results: Sequence[Results]) -> Markup:
    """The results as JSON for the page, as far as its text does not have them."""
    return embedded([one.model_dump(mode="json", exclude=SAMPLES, exclude_defaults=True) for one in results])


def embedded(told: object) -> Markup:
    """A JSON document for a `<script type="application/json">`: no text in it can end the element."""
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    escaped = _BREAKOUT.sub(lambda match: f"\\u{ord(match.group()):04x}", printable_json(text))
    # JSON allows these escapes only inside strings, and outside them none of the characters occurs.
    return Markup(escaped)
