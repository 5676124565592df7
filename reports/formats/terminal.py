"""A judged run as lines for a terminal: the verdict first, the failure blocks last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from lockref.words import counted
from reports.checks.spec import COMMITS, FAIRNESS, LIVENESS, SAFETY
from reports.formats.block import failure_block
from reports.formats.results import Clause, Failure, Results
from reports.formats.speed import speed_lines
from reports.formats.text import short

STATEMENT_MAX = 1000
NOTICE_MAX = 300
LINE_MAX = 200
BLOCKS_MAX = 3
"""Failure blocks shown on the terminal; of the next ones a line each; the rest is counted."""
LISTED_MAX = 6


def _is_unasked(clause: Clause | None) -> bool:
    """Did the clause apply to no run at all?"""
    return clause is not None and clause.not_applicable > 0 and clause.runs + clause.inconclusive == 0


def result_lines(results: Results, repeats: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[str, str]]:
    """The paragraphs of one verdict, each with its style: "good", "bad", "head", "dim" or "" for plain.

    repeats: by id, failures of a kind whose block was shown before, with the id of that block: a line for each.
    """
    is_unlive = results.verdict != "violated" and results.worst == "violated"
    style = {"held": "good", "violated": "bad"}.get(results.colour, "head")
    # The word is the verdict of safety. But "held" would mislead where liveness or fairness broke.
    word = "NOT LIVE" if is_unlive else results.verdict.upper()
    yield f"{word:<13}{short(results.title, LINE_MAX)}: {short(results.statement, STATEMENT_MAX)}", style
    if results.starved:
        yield f"  {results.starved}", "head"
    if results.endings_line:
        yield f"  {results.endings_line}", ""
    for line in (*results.untold_reasons, *(speed_lines(results.speed) if results.speed is not None else ())):
        yield f"  {short(line, LINE_MAX)}", ""
    for notice in results.notices:
        yield f"  {short(notice, NOTICE_MAX)}", ""
    for what, names in (("safety", SAFETY), ("liveness and fairness", (*LIVENESS, *FAIRNESS))):
        broken = [f"{name} {clause.violated:,}" for name, clause in results.broken.items() if name in names]
        if broken:
            yield f"  {what} broken in runs: {', '.join(broken)}", ""
    not_demanded = [
        f"{name} (broken in {clause.violated:,})" if clause.violated else name
        for name, clause in results.not_demanded.items()
        if not _is_unasked(clause)
    ]
    asked = [name for name in (*SAFETY, *LIVENESS) if name not in COMMITS]
    unasked = [name for name in asked if _is_unasked(results.clauses.get(name))]
    if "S7" in unasked and results.runs > results.damaged:
        yield f"  not judged in any run: {', '.join(unasked)} (these runs have nothing that they ask about)", ""
    if not_demanded:
        yield f"  not demanded here, for no lock is known to keep it: {', '.join(not_demanded)}", "dim"
    repeated = [failure for failure in results.failures if failure.id in repeats]
    for failure in repeated:
        yield _line(failure, f"   as in {repeats[failure.id]}"), ""
    fresh = [failure for failure in results.failures if failure.id not in repeats]
    said: dict[tuple[str, str], str] = {}
    for failure in fresh[:BLOCKS_MAX]:
        yield "", ""
        yield _block(failure, said), ""
        said = dict.fromkeys(failure.notes, failure.clause) | said
    if more := fresh[BLOCKS_MAX:]:
        yield f"\n+{counted(len(more), 'more distinct failure')}:", ""
    for failure in more[:LISTED_MAX]:
        yield _line(failure), ""
    if len(more) > LISTED_MAX:
        yield f"  and {len(more) - LISTED_MAX} more: see results.json in the folder of this run", ""


def _line(failure: Failure, told: str = "") -> str:
    """A failure in one line: which one it is, and how it is shown again."""
    seed = "" if failure.seed is None else f"   seed {failure.seed}"
    return f"  ✗ {failure.clause}   {failure.id}{seed}{told}   {failure.replay}".rstrip()


def _block(failure: Failure, said: Mapping[tuple[str, str], str]) -> str:
    """The block of a failure. said: each note of the blocks above, with the first clause that has it."""
    notes = [
        (label, f"as of {said[label, text]} above") if label == "from seed" and (label, text) in said else (label, text)
        for label, text in failure.notes
    ]
    return failure.block if notes == failure.notes else failure_block(failure.model_copy(update={"notes": notes}))
