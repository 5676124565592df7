"""The page of a gate: what broke, a block for each cause, and the scenarios below, folded, the broken ones first.

A gate groups what broke over its scenarios by cause (`gate.json`). So its page is told from there, and from the
accounts of its scenarios. It measures nothing: latencies of virtual time are those of the scenario, not of the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from lockref.words import counted
from reports.checks.spec import CLAUSES
from reports.explanation.explanation import Explanation
from reports.figures.space_time import space_time_svg
from reports.formats.gate_markdown import gate_markdown
from reports.formats.gate_result import OUTCOMES, FailureGroup, GatedScenario, GateResult, Outcome
from reports.formats.gate_screen import headline
from reports.formats.results import Failure, Results
from reports.formats.text import readable, short
from reports.html.picture_files import picture_file
from reports.html.render import presentable
from reports.html.sections import Table, embedded, flattened, headed, kept_line, situations_line
from reports.html.whole_page import Entry, origin_of

PICTURES_BYTES_MAX: Final = 1_500_000
"""Further causes are told without their picture: a page of megabytes opens slowly, and no code host shows it."""
BLOCKS_MAX: Final = 3
"""Failures of one scenario that are told in full."""
NAMES_MAX: Final = 12
"""Scenarios that are named for one cause."""
AS_IN: Final = "as in"
"""The note of a failure that names the example of its cause."""

_COLOURS: Final[Mapping[Outcome, str]] = {
    "held": "held", "violated": "violated", "not_live": "violated", "accepted": "inconclusive",
    "inconclusive": "inconclusive", "not_applicable": "not_applicable", "could_not_be_run": "inconclusive",
}  # fmt: skip
_MARKS: Final[Mapping[str, str]] = {"held": "✓", "violated": "✗", "inconclusive": "?", "not_applicable": "–"}
_WORST_FIRST: Final[tuple[Outcome, ...]] = (
    "violated", "not_live", "could_not_be_run", "inconclusive", "accepted", "held", "not_applicable",
)  # fmt: skip
_HEADINGS: Final[Mapping[Outcome, str]] = {
    "violated": "A safety clause broke",
    "not_live": "Liveness, fairness or a limit broke",
    "could_not_be_run": "Could not be run",
    "inconclusive": "Not decided",
    "accepted": "Broke, and every cause is accepted",
    "held": "Nothing broke",
    "not_applicable": "Does not apply to this lock",
}
_VERDICTS: Final[Mapping[int, str]] = {0: "held", 1: "violated", 4: "violated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A scenario of a gate with its account. notices: what is wrong with its record; empty where nothing is."""

    results: Results
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCause:
    """A cause as the page tells it.

    links: the scenarios that show it, each with the anchor of its place; "" where it has none. more: how many further
    ones there are. picture: None where there is no room, or nothing to draw; notice says why.
    """

    anchor: str
    group: FailureGroup
    verdict: str
    mark: str
    sentence: str
    demand: str
    paragraph: str
    needs: str
    links: Sequence[tuple[str, str]]
    more: int
    picture: Markup | None
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFailure:
    """A failure of one scenario. cause, example: the anchor and the id of the cause that it shows; "" for none."""

    heading: str
    block: str
    cause: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownScenario:
    """A scenario in a line, and what there is to read when the line is opened."""

    anchor: str
    gated: GatedScenario
    verdict: str
    word: str
    told: str
    notices: Sequence[str]
    failures: Sequence[ShownFailure]
    left_out: str
    kept: str
    came_about: str


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """The scenarios that ended in one way."""

    anchor: str
    heading: str
    scenarios: Sequence[ShownScenario]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePage:
    """All that the template needs. apart: by reason, the names of the scenarios that were not run."""

    verdict: str
    banner: str
    statement: str
    origin: Sequence[str]
    unexplored: Sequence[str]
    contents: Sequence[Entry]
    causes: Sequence[ShownCause]
    limits: Table
    notes: Sequence[str]
    abilities: Table
    outcomes: Sequence[OutcomeGroup]
    apart: Sequence[tuple[str, str]]
    apart_heading: str
    provenance: Table


def write_gate_page(
    gate: GateResult,
    judged: Mapping[str, Judged],
    explained: Mapping[str, Explanation | str],
    out: Path,
    *,
    title: str = "",
    provenance: Mapping[str, object],
) -> Path:
    """Write `report.html`, `report.md` and the pictures of causes under `out`; return the page's path.

    judged: by name, the scenarios that ran. explained: by the id of a cause, its explanation, or why there is none.
    title: the headline; "" for ours. provenance: of the gate's run.
    """
    page = composed(gate, judged, explained, provenance=provenance)
    text = page_text(page, gate, title=title or f"Gate of {short(gate.provider, 80)}")
    for cause in page.causes:
        if cause.picture is not None:
            (out / "figures").mkdir(parents=True, exist_ok=True)
            write_atomically(out / "figures" / f"{cause.anchor}-space-time.svg", picture_file(str(cause.picture)))
    write_atomically(out / "report.md", gate_markdown(gate))
    return write_atomically(out / "report.html", text)


def page_text(page: GatePage, gate: GateResult, *, title: str) -> str:
    """The page as text. Only pictures, which are of our own making, and the escaped data go in as they are."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=presentable,
    )  # fmt: skip
    environment.filters.update(short=short, counted=counted)
    return environment.get_template("gate.html.j2").render(
        title=title, page=page, data=embedded(gate.model_dump(mode="json", exclude_defaults=True))
    )


def composed(
    gate: GateResult,
    judged: Mapping[str, Judged],
    explained: Mapping[str, Explanation | str],
    *,
    provenance: Mapping[str, object],
) -> GatePage:
    """Put the page in order: causes as the gate ranks them, those first that stop it; scenarios the worst first."""
    anchors = {each.name: f"s{number}" for number, each in enumerate(gate.scenarios, 1) if each.name in judged}
    causes = _causes([*gate.stopping, *(each for each in gate.groups if each.accepted)], anchors, explained)
    cause_of = {cause.group.id: cause.anchor for cause in causes}
    outcomes = [
        OutcomeGroup(
            outcome.replace("_", "-"),
            f"{_HEADINGS[outcome]}: {counted(len(ended), 'scenario')}",
            [_scenario(each, judged[each.name], anchors[each.name], cause_of) for each in ended],
        )
        for outcome in _WORST_FIRST
        if (ended := [each for each in gate.having(outcome) if each.name in judged])
    ]
    apart = _apart(gate, judged)
    left = sum(each.name not in judged for each in gate.scenarios)
    apart_heading = f"Not run: {counted(left, 'scenario')}"
    word, statement = _told(gate)
    limits = [(limit.text, limit.verdict.replace("_", " "), limit.told) for limit in gate.required]
    contents = [
        *([Entry("broke", f"What broke, by {counted(len(causes), 'cause')}")] if causes else []),
        *([Entry("required", "What was required")] if limits else []),
        *([Entry("notes", "About this gate")] if gate.notes else []),
        Entry("lock", "What the lock can do"),
        *(Entry(group.anchor, group.heading) for group in outcomes),
        *([Entry("apart", apart_heading)] if apart else []),
    ]
    verdict = _VERDICTS.get(gate.exit_code, "inconclusive")
    return GatePage(
        verdict=verdict,
        banner=f"{_MARKS[verdict]} {word}",
        statement=statement,
        origin=origin_of([provenance]),
        unexplored=[line.replace("`", "") for line in ([gate.cut] if gate.cut else []) + [*gate.unexplored]],
        contents=contents,
        causes=causes,
        limits=Table.cut((("required", "verdict", "measured"), limits)),
        notes=gate.notes,
        abilities=Table.cut((("ability", "", "seen"), _abilities(gate))),
        outcomes=outcomes,
        apart=apart,
        apart_heading=apart_heading,
        provenance=Table.cut((("what", "value"), list(flattened(provenance)))),
    )


def _told(gate: GateResult) -> tuple[str, str]:
    """The verdict as the last screen has it: the word, and the rest of the line."""
    word, _, rest = headline(gate)[0].partition("   ")
    return word.capitalize(), rest


def _abilities(gate: GateResult) -> list[tuple[str, str, str]]:
    return [
        (
            found.name,
            "yes" if found.has else "no",
            found.contradiction or (f"declared; {found.evidence}" if found.origin == "declared" else found.evidence),
        )
        for found in gate.abilities
    ]


def _causes(
    groups: Sequence[FailureGroup], anchors: Mapping[str, str], explained: Mapping[str, Explanation | str]
) -> list[ShownCause]:
    found = []
    room = PICTURES_BYTES_MAX
    for number, group in enumerate(groups, 1):
        anchor = f"c{number}"
        told = explained.get(group.id, "")
        picture, notice, paragraph = None, told if isinstance(told, str) else "", ""
        if isinstance(told, Explanation):
            paragraph = told.paragraph
            drawn = space_time_svg(told.diagram, prefix=anchor, clause=told.clause)
            if len(drawn) <= room:
                room -= len(drawn)
                picture = Markup(drawn)
            else:
                notice = f"no room is left for its picture: lockref explain {group.id} --html FILE makes a page of it"
        outcome: Outcome = "accepted" if group.accepted else "violated" if group.is_safety else "not_live"
        found.append(
            ShownCause(
                anchor=anchor,
                group=group,
                verdict=_COLOURS[outcome],
                mark=_MARKS[_COLOURS[outcome]],
                sentence=short(readable(group.sentence), 200),
                demand=CLAUSES.get(group.clause, ""),
                paragraph=paragraph,
                needs=_needs(group),
                links=[(short(name, 60), anchors.get(name, "")) for name in group.scenarios[:NAMES_MAX]],
                more=max(0, len(group.scenarios) - NAMES_MAX),
                picture=picture,
                notice=notice,
            )
        )
    return found


def _needs(group: FailureGroup) -> str:
    """The faults without which it does not happen; of a failure that was not shrunk, those that struck."""
    kinds = ", ".join(group.faults) or "none"
    return kinds if group.is_shrunk else f"{kinds} (these struck; not all of them may be needed)"


def _scenario(gated: GatedScenario, judged: Judged, anchor: str, cause_of: Mapping[str, str]) -> ShownScenario:
    results = judged.results
    told = results.failures[:BLOCKS_MAX]
    left_out = len(results.failures) - len(told)
    colour = _COLOURS[gated.outcome]
    limits = [f"a limit broke: {limit}" for limit in gated.broken_limits]
    return ShownScenario(
        anchor=anchor,
        gated=gated,
        verdict=colour,
        word=f"{_MARKS[colour]} {gated.outcome.replace('_', ' ')}",
        told=gated.reason or (f"{', '.join(gated.broken)}: " if gated.broken else "") + results.statement,
        notices=[*judged.notices, *limits, *results.notices],
        failures=[_failure(each, cause_of) for each in told],
        left_out=f"{counted(left_out, 'further distinct failure')}: see results.json" if left_out else "",
        kept=kept_line(results),
        came_about=situations_line(results),
    )


def _failure(failure: Failure, cause_of: Mapping[str, str]) -> ShownFailure:
    example = failure.id if failure.id in cause_of else dict(failure.notes).get(AS_IN, "")
    return ShownFailure(
        heading=headed(failure), block=failure.block, cause=cause_of.get(example, ""), example=short(example, 40)
    )


def _apart(gate: GateResult, judged: Mapping[str, Judged]) -> list[tuple[str, str]]:
    by_reason: dict[str, list[str]] = {}
    for each in gate.scenarios:
        if each.name not in judged:
            by_reason.setdefault(each.reason or each.outcome.replace("_", " "), []).append(each.name)
    most = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    return [(short(readable(reason), 300), ", ".join(names)) for reason, names in most]


assert set(_WORST_FIRST) == set(OUTCOMES) == set(_HEADINGS), "each outcome has its place on the page"
