"""Subjects side by side: one row for each clause and each figure, and whether a difference can be told from chance.

The first subject is the reference: the others are compared with it. If the
interval of a difference contains "no difference", the difference may be chance,
and is greyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError
from lockref.strict_json import printable_json
from reports.checks.measures.confidence import wilson_95
from reports.checks.spec import CLAUSES
from reports.comparison.differences import (
    Floats,
    Interval,
    interval_of,
    once,
    ratio_interval,
    resampled,
    share_difference,
)
from reports.comparison.subjects import STRETCHES, UNSERVED, Figure, Share, Subject

Apart = Literal["reference", "apart", "not_apart", "one_run", "unknown", "unlike"]
"""unknown: one of the two has no interval. not_apart: the interval of the difference holds "none". one_run: it does
not, but it is made of one run on each side. How two runs of the same thing differ nobody has measured, so neither is
better.
unlike: the two were asked different things, so neither is better."""

ASKED: Final = ("world", "scenario")
"""Facts that say what a run was asked. Runs that differ in one of them stand side by side, and neither is better."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cell(_Part):
    """One subject in one row. None where it was not measured there.

    value, low, high: the figure, or the share of runs in which a clause broke, with its interval at 95 %.
    verdict: of a clause. broken, judged: the counts of which `value` is the share.
    difference_low, difference_high: of a figure, how many times the reference's; of a share, how much more.
    is_better: of two that are apart, whether this one does better than the reference.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    broken: int | None = None
    judged: int | None = None
    apart: Apart = "unknown"
    difference_low: float | None = None
    difference_high: float | None = None
    is_better: bool | None = None


class Row(_Part):
    """One clause or figure. unit: `share`, `ns`, `1/s` or `1`. text: what the clause demands."""

    name: str
    unit: str
    text: str = ""
    cells: list[Cell]


class Column(_Part):
    """One subject: its name, its place, its verdict, and its facts."""

    title: str
    path: str
    verdict: str
    statement: str
    facts: dict[str, str]


class Comparison(_Part):
    """The whole document, `comparison.json`. differs: the facts in which the subjects are not alike.

    unlike: the columns, counted from 0, whose world or scenario is not that of the first one.
    """

    format: Literal["lockref.comparison/1"] = "lockref.comparison/1"
    columns: list[Column]
    differs: list[str] = Field(default_factory=list)
    unlike: list[int] = Field(default_factory=list)
    rows: list[Row]

    def write(self, path: Path) -> Path:
        """Write it as JSON, as a whole or not at all."""
        return write_atomically(path, printable_json(self.model_dump_json(indent=1)) + "\n")


def compare(subjects: Sequence[Subject]) -> Comparison:
    """Put subjects side by side; the first one is the reference. Raises ConfigError for fewer than two."""
    if len(subjects) < 2:
        raise ConfigError("one given to compare: name at least two runs, or a run with several parts")
    facts = dict.fromkeys(name for subject in subjects for name in subject.facts)
    unlike = [place for place, subject in enumerate(subjects) if _asked(subject) != _asked(subjects[0])]
    rows = [*_clause_rows(subjects), *_figure_rows(subjects)]
    for row in rows:
        for place in unlike:
            row.cells[place] = _undecided(row.cells[place])
    return Comparison(
        columns=[
            Column(title=one.title, path=str(one.path), verdict=one.verdict, statement=one.statement, facts=one.facts)
            for one in subjects
        ],
        differs=[name for name in facts if len({subject.facts.get(name, "") for subject in subjects}) > 1],
        unlike=unlike,
        rows=rows,
    )


def _asked(subject: Subject) -> tuple[str, ...]:
    return tuple(subject.facts.get(name, "") for name in ASKED)


def _undecided(cell: Cell) -> Cell:
    """The same figure, beside nothing."""
    bare = {"apart": "unlike", "difference_low": None, "difference_high": None, "is_better": None}
    return cell.model_copy(update=bare)


def _of_one_run(cell: Cell) -> Cell:
    """The same difference without a word about who is better: its interval says how the figures varied within two runs.

    Two runs of the same thing differ by more than that. The machine, the store and the order of the clients are others.
    """
    return cell.model_copy(update={"apart": "one_run", "is_better": None}) if cell.apart == "apart" else cell


def _clause_rows(subjects: Sequence[Subject]) -> list[Row]:
    """The clauses that were judged anywhere, in the order of the specification; those of stores after them."""
    named = dict.fromkeys(name for subject in subjects for name in subject.shares)
    ordered = [*(name for name in CLAUSES if name in named), *(name for name in named if name not in CLAUSES)]
    rows = []
    for name in ordered:
        shares = [subject.shares.get(name) for subject in subjects]
        if any(share is not None and share.verdict != "not_applicable" for share in shares):
            text = next(share.text for share in shares if share is not None)
            cells = [_share_cell(share, shares[0], is_reference=not place) for place, share in enumerate(shares)]
            if name == UNSERVED:
                cells = [_of_one_run(cell) for cell in cells]
            rows.append(Row(name=name, unit="share", text=text, cells=cells))
    return rows


def _share_cell(share: Share | None, reference: Share | None, *, is_reference: bool) -> Cell:
    if share is None:
        return Cell(apart="reference" if is_reference else "unknown")
    cell = Cell(verdict=share.verdict, broken=share.broken, judged=share.judged)
    if share.judged:
        cell.value = share.broken / share.judged
        cell.low, cell.high = wilson_95(share.broken, share.judged)
    if is_reference:
        cell.apart = "reference"
    elif reference is not None and share.is_asked_once and reference.is_asked_once:
        _tell_verdicts_apart(cell, reference.verdict)
    elif reference is not None and share.judged and reference.judged:
        more = share_difference(share.broken, share.judged, reference.broken, reference.judged)
        _tell_apart(cell, more, none=0.0, is_less_better=True)
    return cell


_FROM_BEST: Final = ("conforming", "usable", "unsupported", "unsafe")


def _tell_verdicts_apart(cell: Cell, reference: str) -> None:
    """A question that was asked once has no chance in it: the answers differ, or they do not."""
    if cell.verdict in _FROM_BEST and reference in _FROM_BEST:
        cell.apart = "not_apart" if cell.verdict == reference else "apart"
        if cell.apart == "apart":
            cell.is_better = _FROM_BEST.index(cell.verdict) < _FROM_BEST.index(reference)


def _figure_rows(subjects: Sequence[Subject]) -> list[Row]:
    names = dict.fromkeys(figure.name for subject in subjects for figure in subject.figures)
    rows = []
    for name in names:
        figures = [next((one for one in subject.figures if one.name == name), None) for subject in subjects]
        known = next(figure for figure in figures if figure is not None)
        drawn = [
            None if figure is None or not figure.has_interval else resampled(figure.drawn, STRETCHES, seed=place)
            for place, figure in enumerate(figures)
        ]
        cells = [
            _of_one_run(_figure_cell(figures[place], drawn[place], drawn[0], place == 0))
            for place in range(len(figures))
        ]
        rows.append(Row(name=name, unit=known.unit, cells=cells))
    return rows


def _figure_cell(figure: Figure | None, drawn: Floats | None, reference: Floats | None, is_reference: bool) -> Cell:
    cell = Cell(apart="reference" if is_reference else "unknown")
    if figure is None:
        return cell
    cell.value = once(figure.drawn, STRETCHES)
    if drawn is None or cell.value is None:
        return cell
    if (around := interval_of(drawn)) is not None:
        cell.low, cell.high = around.low, around.high
    if not is_reference and reference is not None and (times := ratio_interval(drawn, reference)) is not None:
        _tell_apart(cell, times, none=1.0, is_less_better=figure.is_less_better)
    assert not np.isnan(cell.value), "a figure that is undefined is None"
    return cell


def _tell_apart(cell: Cell, difference: Interval, *, none: float, is_less_better: bool) -> None:
    """Note the interval of the difference, and, where it leaves `none` out, who does better."""
    cell.difference_low, cell.difference_high = difference.low, difference.high
    cell.apart = "not_apart" if difference.holds(none) else "apart"
    if cell.apart == "apart":
        cell.is_better = (difference.high < none) == is_less_better
