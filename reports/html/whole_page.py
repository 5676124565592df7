"""The page around its sections: where it comes from, what broke, and what its parts are, the broken ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.words import counted
from reports.checks.spec import Verdict
from reports.checks.verdicts import joint_verdict
from reports.formats.text import short
from reports.html.sections import (
    FULL_PARTS_MAX,
    VERDICT_WORDS,
    Section,
    Violation,
    flattened,
    kind_of,
    rank_of,
    worst_of,
)

SHOWN_MAX: Final = 8
"""Parts that are named for one kind of failure; the rest is counted."""
_ORIGIN: Final = {
    "started_utc": "{}", "lockref": "lockref {}", "commit": "commit {}", "backend": "store {}",
    "backend_version": "version {}", "client": "requests by {}", "python": "Python {}", "platform": "{}",
    "command": "{}",
}  # fmt: skip
"""Facts of the provenance that stand on top of the page, each with the words around it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the table of contents. note, verdict: the badge beside it; empty for none."""

    anchor: str
    label: str
    note: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of one kind over all parts. anchor: where the first is told. shown, more: the parts that show it."""

    clause: str
    heading: str
    anchor: str
    parts: Sequence[str]
    shown: Sequence[tuple[str, str]]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of one or several parts.

    colour: the verdict whose colour the banner has. open: the parts that are told in full, the worst first. folded:
    those in which nothing broke, and whose figures are those of virtual time.
    """

    colour: Verdict
    banner: str
    statement: str
    origin: Sequence[str]
    contents: Sequence[Entry]
    groups: Sequence[Group]
    open: Sequence[Section]
    folded: Sequence[Section]
    folded_heading: str

    @property
    def is_small(self) -> bool:
        """True for a page that has room to tell each part in full, those too in which nothing broke."""
        return len(self.open) + len(self.folded) <= FULL_PARTS_MAX

    @property
    def is_joint(self) -> bool:
        """True for a page of several parts, which has a verdict of its own."""
        return len(self.open) + len(self.folded) > 1


def compose(sections: Sequence[Section]) -> Page:
    """Put the sections of a page in order."""
    ranked = sorted(sections, key=lambda part: rank_of(part.results))
    is_joint = len(sections) > 1
    folded = [part for part in ranked if is_joint and _is_foldable(part)]
    shown = [part for part in ranked if part not in folded]
    verdict = joint_verdict([part.results.worst for part in sections])
    endings = Counter(part.banner for part in ranked)
    groups = _groups(ranked) if is_joint else []
    return Page(
        colour=worst_of([part.results.colour for part in sections]),
        banner=VERDICT_WORDS[verdict],
        statement=f"{counted(len(sections), 'part')}: "
        + ", ".join(f"{number:,} {words.partition(' ')[2]}" for words, number in endings.items()),
        origin=origin_of([part.results.provenance for part in sections]),
        contents=_contents(shown, folded, groups) if is_joint else _own_contents(sections[0]),
        groups=groups,
        open=shown,
        folded=folded,
        folded_heading=f"Nothing broke: {counted(len(folded), 'part')}",
    )


def _is_foldable(part: Section) -> bool:
    return part.results.worst in ("held", "not_applicable") and part.results.speed is None


def origin_of(provenances: Sequence[Mapping[str, object]]) -> list[str]:
    """The facts of the provenance in which all parts of a page agree, for its top."""
    facts = [dict(flattened(each)) for each in provenances]
    found = []
    for name, words in _ORIGIN.items():
        values = {one.get(name, "") for one in facts}
        if len(values) == 1 and (value := values.pop()):
            found.append(words.format(short(value, 160)))
    return found


def _groups(sections: Sequence[Section]) -> list[Group]:
    kinds: dict[tuple[str, str], list[tuple[Section, Violation]]] = {}
    for part in sections:
        for violation in part.violations:
            kinds.setdefault(kind_of(violation.failure), []).append((part, violation))
    found = []
    for (clause, _), shown in kinds.items():
        places = {part.anchor: (part, violation) for part, violation in reversed(shown)}
        named = [
            (short(part.results.title, 40), violation.anchor)
            for part, violation in sorted(
                places.values(), key=lambda each: (rank_of(each[0].results), int(each[0].anchor[1:]))
            )
        ]
        first = shown[0][1]
        found.append(
            Group(
                clause=clause,
                heading=first.heading.removeprefix(f"{clause}: "),
                anchor=first.anchor,
                parts=[name for name, _ in named],
                shown=named[:SHOWN_MAX],
                more=max(0, len(named) - SHOWN_MAX),
            )
        )
    return sorted(found, key=lambda group: -len(group.parts))


def _contents(shown: Sequence[Section], folded: Sequence[Section], groups: Sequence[Group]) -> list[Entry]:
    entries = [Entry("broke", f"What broke, in {counted(len(groups), 'way')}")] if groups else []
    entries += [Entry(part.anchor, short(part.results.title, 60), part.banner, part.results.colour) for part in shown]
    if folded:
        entries.append(Entry("held", f"Nothing broke: {counted(len(folded), 'part')}"))
    return entries


def _own_contents(part: Section) -> list[Entry]:
    """The chapters of a page of one part."""
    chapters = [
        ("broke", "What broke", bool(part.violations)),
        ("clauses", "Properties", bool(part.clauses)),
        ("reach", "What came about", bool(part.reached)),
        ("speed", "How fast, how fair", bool(part.speed.rows)),
        ("figures", "Performance and fairness", bool(part.pictures or part.latency.rows)),
        ("origin", "Provenance", bool(part.provenance.rows)),
    ]
    return [Entry(f"{part.anchor}-{name}", label) for name, label, is_there in chapters if is_there]
