"""The last screen of a gate: at most 40 lines, whatever was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lockref.words import counted
from reports.checks.spec import CLAUSES
from reports.formats.gate_result import AbilityFound, Crash, FailureGroup, GatedScenario, GateResult
from reports.formats.text import readable, short

LINES_MAX: Final = 40
_WIDTH: Final = 200
_LINES_OF_GROUP: Final = 3
NAMES_MAX: Final = 4
"""Scenarios that are named for one cause."""
_OPEN_MAX: Final = 3
_NOT_RUN_MAX: Final = 1
_REASONS_MAX: Final = 2
"""Reasons for which scenarios do not apply."""
_CONTRADICTIONS_MAX: Final = 2
_CRASHES_MAX: Final = 1
_EDGE_LINES_MAX: Final = 2
"""Lines for each of: accepted causes, required limits, notes (who runs what in a mixed fleet; lost workers; hints; the
list of known failures)."""
_WORDS: Final = {
    "held": "held",
    "violated": "violated",
    "not_live": "not live",
    "accepted": "accepted",
    "inconclusive": "inconclusive",
    "not_applicable": "not applicable",
    "could_not_be_run": "could not be run",
}
IN_WORDS: Final = {
    "S1": "writes fork",
    "S2": "tokens repeat or fall",
    "S3": "two hold at once",
    "S4": "an old write lands",
    "S5": "taken over too early",
    "S6": "another's grant is touched",
    "S7": "a wrong answer",
    "L1": "a free lock is not granted",
    "L2": "a dead holder keeps it",
    "L3": "a released lock is not granted",
    "L4": "a loss is told late or wrongly",
    "L5": "a call lasts too long",
    "L6": "a failed call keeps the lock",
    "F1": "overtaken too often",
    "F2": "never served",
    "DL1": "a commit is lost",
    "DL2": "a commit stands twice",
    "DL3": "a gap in the log",
    "DL4": "a commit is overwritten",
    "DL5": "a landed commit is called failed",
}
"""Clause to what its break means, in a few words. `reports.checks.spec` has the whole sentences."""
assert list(IN_WORDS) == list(CLAUSES), "each clause has its words"
_HEADS: Final = {
    0: ("GATE GREEN", "good"),
    1: ("GATE RED", "bad"),
    4: ("GATE RED", "bad"),
    3: ("GATE OPEN", "head"),
    130: ("GATE CUT OFF", "head"),
}


def screen_lines(result: GateResult) -> list[tuple[str, str]]:
    """The lines of the screen, each with its style: "good", "bad", "head", "dim" or "" for plain.

    The causes get the room that the rest leaves; at least one is told.
    """
    before = list(_ability_lines(result.abilities))
    not_run = [each for each in result.undecided if each.outcome == "could_not_be_run"]
    after = [
        *_open_lines("inconclusive", result.having("inconclusive"), most=_OPEN_MAX),
        *_crash_lines(result.crashes),
        *_open_lines("could not be run", not_run, most=_NOT_RUN_MAX),
        *_not_applicable_lines(result.having("not_applicable")),
        *_edge_lines(result),
        *_tail_lines(result),
        headline(result),
    ]
    causes = list(_group_lines(result.stopping, room=LINES_MAX - len(before) - len(after)))
    lines = [(short(text, _WIDTH), style) for text, style in (*before, *causes, *after)]
    assert len(lines) <= LINES_MAX, "each part of the screen is bounded"
    return lines


def headline(result: GateResult) -> tuple[str, str]:
    """The verdict in one line, and its style: what the scenarios came to, the causes, runs, time and exit code."""
    word, style = _HEADS.get(result.exit_code, ("GATE FAILED", "bad"))
    ended = ", ".join(f"{result.count(each):,} {_WORDS[each]}" for each in _WORDS if result.count(each))  # type: ignore[arg-type]
    causes = f"; {counted(len(result.stopping), 'cause')}" if result.stopping else ""
    return (
        f"{word}   {result.provider}: {ended}{causes}; {counted(result.runs, 'run')} in {result.seconds:,.0f} s "
        f"(exit {result.exit_code})",
        style,
    )


def _ability_lines(abilities: Sequence[AbilityFound]) -> Iterator[tuple[str, str]]:
    if len(abilities) > 1 and len({found.evidence for found in abilities}) == 1:
        # The lock failed when it was asked: one reason for all of them.
        yield f"What the lock can do is not known, so everything is asked of it. It {abilities[0].evidence}", "bad"
        return
    if abilities:
        yield "What the lock was seen to do, and what is therefore asked of it:", "head"
    for found in abilities:
        word = "yes" if found.has else "no"
        told = f"declared; {found.evidence}" if found.origin == "declared" else found.evidence
        yield f"  {found.name:<14} {word:<4} {told}", ""
    contradictions = [found for found in abilities if found.contradiction]
    for found in contradictions[:_CONTRADICTIONS_MAX]:
        yield f"  contradiction: {found.name}: {found.contradiction}", "bad"


def _group_lines(groups: Sequence[FailureGroup], *, room: int) -> Iterator[tuple[str, str]]:
    fits = len(groups) * _LINES_OF_GROUP <= room
    shown = len(groups) if fits else max(1, (room - 1) // _LINES_OF_GROUP)
    for group in groups[:shown]:
        also = f"; {', '.join(group.also)} broke after it" if group.also else ""
        yield f"✗ {group.clause} {IN_WORDS[group.clause]}   {short(readable(group.sentence), 150)}", "bad"
        yield f"    {shown_by(group)}; {needs_of(group)}{also}", ""
        replay = group.replay or "no line shows it again: the lock is not deterministic"
        yield f"    {replay}   ({group.cause})", ""
    if rest := groups[shown:]:
        clauses = ", ".join(dict.fromkeys(group.clause for group in rest))
        yield f"  and {counted(len(rest), 'more cause')} ({clauses}): see gate.json", ""


def needs_of(group: FailureGroup) -> str:
    """The faults without which a cause does not show, as a scenario names them; if not shrunk, those that struck."""
    if not group.faults:
        return "it needs no fault"
    kinds = f"{'fault' if len(group.faults) == 1 else 'faults'} {', '.join(f'`{kind}`' for kind in group.faults)}"
    return f"it needs the {kinds}" if group.is_shrunk else f"the {kinds} struck, and not all of it may be needed"


def shown_by(group: FailureGroup) -> str:
    """The number of scenarios that show a cause, and the first of their names."""
    names = ", ".join(group.scenarios[:NAMES_MAX])
    rest = len(group.scenarios) - NAMES_MAX
    show = "shows" if len(group.scenarios) == 1 else "show"
    return f"{counted(len(group.scenarios), 'scenario')} {show} it: {names}{f' and {rest} more' if rest > 0 else ''}"


def ended_by(crash: Crash) -> str:
    """The number of scenarios that a crash ended, and the first of their names."""
    names = ", ".join(crash.scenarios[:NAMES_MAX])
    rest = len(crash.scenarios) - NAMES_MAX
    return f"it ended {counted(len(crash.scenarios), 'scenario')}: {names}{f' and {rest} more' if rest > 0 else ''}"


def _open_lines(word: str, scenarios: Sequence[GatedScenario], *, most: int) -> Iterator[tuple[str, str]]:
    """Scenarios with one reason, told together: a cut leaves a hundred of them for one."""
    by_reason = _by_reason(scenarios)
    for reason, names in by_reason[:most]:
        yield f"  {word}: {_first_of(names)}: {short(reason, 130)}", ""
    if rest := sum(len(names) for _, names in by_reason[most:]):
        yield f"  and {rest} more {word}: see gate.json", ""


def _by_reason(scenarios: Sequence[GatedScenario]) -> list[tuple[str, list[str]]]:
    """Reason to the names of the scenarios that have it."""
    by_reason: dict[str, list[str]] = {}
    for each in scenarios:
        by_reason.setdefault(each.reason, []).append(each.name)
    return list(by_reason.items())


def _first_of(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _crash_lines(crashes: Sequence[Crash]) -> Iterator[tuple[str, str]]:
    for crash in crashes[:_CRASHES_MAX]:
        yield f"✗ crash   {readable(crash.sentence)}", "bad"
        yield f"    {ended_by(crash)}; {crash.replay}", ""
    if len(crashes) > _CRASHES_MAX:
        yield f"  and {counted(len(crashes) - _CRASHES_MAX, 'more step')} that crashed: see gate.json", ""


def _not_applicable_lines(scenarios: Sequence[GatedScenario]) -> Iterator[tuple[str, str]]:
    most = sorted(_by_reason(scenarios), key=lambda entry: -len(entry[1]))
    for reason, names in most[:_REASONS_MAX]:
        yield f"  not applicable: {_first_of(names)}: {short(reason, 110)}", "dim"
    if len(most) > _REASONS_MAX:
        rest = sum(len(names) for _, names in most[_REASONS_MAX:])
        yield (
            f"  and {rest} more not applicable, for {counted(len(most) - _REASONS_MAX, 'reason')}: see gate.json",
            "dim",
        )


def _edge_lines(result: GateResult) -> Iterator[tuple[str, str]]:
    accepted = [f"  {group.cause}, {group.id}: {group.accepted}" for group in result.groups if group.accepted]
    # What is wrong stands before what is well, since the last ones may not be told.
    required = sorted(result.required, key=lambda limit: limit.verdict == "held")
    limits = [f"  required: {limit.verdict}: {limit.told}" for limit in required]
    for lines, style in ((accepted, "dim"), (limits, ""), ([f"  {note}" for note in result.notes], "head")):
        shown = lines if len(lines) <= _EDGE_LINES_MAX else lines[: _EDGE_LINES_MAX - 1]
        yield from ((line, style) for line in shown)
        if len(shown) < len(lines):
            yield f"  and {len(lines) - len(shown)} more of these: see gate.json", style


def _tail_lines(result: GateResult) -> Iterator[tuple[str, str]]:
    slowest = sorted(result.scenarios, key=lambda each: -each.seconds)[:3]
    if slowest and slowest[0].seconds:
        told = ", ".join(f"{each.name} {each.seconds:.1f} s" for each in slowest)
        yield f"  slowest: {told} (of all processes together)", "dim"
    if result.cut:
        yield f"  cut: {result.cut}", "head"
    for sentence in result.unexplored[:1]:
        # What is told of a cut ends with the reason, which the line above has.
        yield f"  not explored: {sentence.removesuffix(f': {result.cut}')}", "dim"
    if result.folder:
        yield f"  all of it: {result.folder}/gate.json; as a page: lockref report latest", "dim"
