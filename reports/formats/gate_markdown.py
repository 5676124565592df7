"""A gate as Markdown, for the summary of a CI job or a comment on a pull request: the verdict, then what stops it.

Failures are told in the words of the last screen. What a reader needs only now and then is folded, and stands last.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.formats.gate_result import FailureGroup, GatedScenario, GateResult
from reports.formats.gate_screen import IN_WORDS, ended_by, headline, shown_by
from reports.formats.gate_screen import NAMES_MAX as NAMES_TOLD
from reports.formats.markdown import BYTES_MAX, bounded, fenced, folded, table
from reports.formats.text import markdown_text, readable

NAMES_MAX = 200
"""Scenarios that are named for one cause."""


def gate_markdown(result: GateResult, *, bytes_max: int = BYTES_MAX) -> str:
    """The page. It is never longer than `bytes_max`; details are cut first, with a notice."""
    return bounded(_parts(result), bytes_max=bytes_max, notice="Cut here: the rest is in gate.json.")


def _parts(result: GateResult) -> Iterator[str]:
    yield f"## {markdown_text(headline(result)[0])}\n"
    stopping = result.stopping
    if stopping:
        yield "\n### What broke\n"
    yield from (_cause(group) for group in stopping)
    yield from _list(
        "Crashes of the lock", [f"{each.sentence}; {ended_by(each)}; {each.replay}" for each in result.crashes]
    )
    yield from _list("Required", [limit.told for limit in result.required])
    accepted = [group for group in result.groups if group.accepted]
    yield from _list("Accepted", [f"{each.cause}: {readable(each.sentence)} ({each.accepted})" for each in accepted])
    yield from _list("Not decided", [f"{each.name}: {each.reason}" for each in result.undecided])
    yield from _list("Notes", result.notes)
    cut = [result.cut] if result.cut else []
    yield from _list("Not explored", [*cut, *result.unexplored])
    yield from (
        folded(f"{group.clause} {group.id}: the failure as `lockref replay` shows it", fenced(group.block))
        for group in stopping
        if group.block
    )
    abilities = [
        (each.name, "yes" if each.has else "no", each.contradiction or each.evidence) for each in result.abilities
    ]
    yield folded("What the lock can do", table(("ability", "", "seen"), abilities))
    yield folded(
        f"All {len(result.scenarios)} scenarios",
        table(("scenario", "outcome", "runs", "seconds", "why"), map(_row, result.scenarios)),
    )


def _cause(group: FailureGroup) -> str:
    names = group.scenarios[:NAMES_MAX]
    is_cut = len(names) > NAMES_TOLD
    listed = folded(f"{len(names)} scenarios", markdown_text(", ".join(names), 20_000)) if is_cut else ""
    said = markdown_text(readable(group.sentence))
    return (
        f"\n**{group.clause} {IN_WORDS[group.clause]}** {markdown_text(group.id)}: {said}\n\n"
        f"{markdown_text(shown_by(group))}; cause {markdown_text(group.cause)}\n"
        f"{fenced(group.replay) if group.replay else ''}{listed}"
    )


def _list(title: str, lines: list[str] | tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"\n### {title}\n\n"
    yield from (f"- {markdown_text(line)}\n" for line in lines)


def _row(scenario: GatedScenario) -> tuple[str, ...]:
    return (
        scenario.name,
        scenario.outcome.replace("_", " "),
        f"{scenario.runs:,}",
        f"{scenario.seconds:.1f}",
        scenario.reason,
    )
