"""Subjects side by side: one row for each clause and each figure, and whether a difference can be told from chance.

The first subject is the reference: the others are compared with it. If the
interval of a difference contains "no difference", the difference may be chance,
and is greyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError
from lockref.strict_json import printable_json
from reports.checks.measures.confidence import share_95
from reports.checks.spec import CLAUSES
from reports.comparison.differences import (
    Floats,
    Interval,
    between_runs,
    chance_of_shares,
    interval_of,
    once,
    ratio_interval,
    repeats_least,
    resampled,
    share_difference,
)
from reports.comparison.subjects import STRETCHES, Figure, Share, Subject

Apart = Literal["reference", "apart", "not_apart", "one_run", "few_runs", "unknown", "unlike"]
"""unknown: one of the two has no interval, or some run lacks the figure. not_apart: the interval of the difference
holds "none". one_run: it does not, but it is made of one run on each side. How two runs of the same thing differ nobody
has measured, so neither is better. few_runs: the two were not run often enough to tell any difference.
unlike: the two were asked different things, so neither is better."""

ASKED: Final = ("world", "scenario")
"""Facts that say what a run was asked. Runs that differ in one of them stand side by side, and neither is better."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class Cell(_Part):
    """One subject in one row. None where it was not measured there.

    value, low, high: the figure, or the share of runs in which a clause broke, with its interval at 95 %.
    verdict: of a clause. broken, judged: the counts of which `value` is the share.
    runs, known: of a subject that was run several times, how many runs there are, and how many of them have the figure.
    It has a value only if all have it: low and high are then the smallest and the largest.
    difference_low, difference_high: of a figure, how many times the reference's; of a share, how much more.
    is_better: of two that are apart, whether this one does better than the reference.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    broken: int | None = None
    judged: int | None = None
    runs: int | None = None
    known: int | None = None
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
    """One subject: its name, its place, its verdict, and its facts. repeats: of how many runs it is made."""

    title: str
    path: str
    verdict: str
    statement: str
    facts: dict[str, str]
    repeats: int = 1


class Comparison(_Part):
    """The whole document, `comparison.json`. differs: the facts in which the subjects are not alike.

    unlike: the columns, counted from 0, whose world or scenario is not that of the first one.
    repeats_least: of subjects that were run several times, how many runs of each a difference takes; else None.
    """

    format: Literal["lockref.comparison/1"] = "lockref.comparison/1"
    columns: list[Column]
    differs: list[str] = Field(default_factory=list)
    unlike: list[int] = Field(default_factory=list)
    repeats_least: int | None = None
    rows: list[Row]

    def write(self, path: Path) -> Path:
        """Write it as JSON, as a whole or not at all."""
        return write_atomically(path, printable_json(self.model_dump_json(indent=1)) + "\n")


def compare(subjects: Sequence[Subject]) -> Comparison:
    """Put subjects side by side; the first one is the reference.

    Errors: ConfigError for fewer than two. ValueError where one was run several times and another one was not.
    """
    if len(subjects) < 2:
        raise ConfigError("one given to compare: name at least two runs, or a run with several parts")
    if len({bool(subject.blocks) for subject in subjects}) > 1:
        raise ValueError("a subject of several runs beside a single run")
    facts = dict.fromkeys(name for subject in subjects for name in subject.facts)
    unlike = [place for place, subject in enumerate(subjects) if _asked(subject) != _asked(subjects[0])]
    error = _error_of_each(subjects)
    rows = [*_clause_rows(subjects, error), *_figure_rows(subjects, error)]
    for row in rows:
        for place in unlike:
            row.cells[place] = _undecided(row.cells[place])
    return Comparison(
        columns=[
            Column(
                title=one.title,
                path=str(one.path),
                verdict=one.verdict,
                statement=one.statement,
                facts=one.facts,
                repeats=max(len(one.blocks), 1),
            )
            for one in subjects
        ],
        differs=[name for name in facts if len({subject.facts.get(name, "") for subject in subjects}) > 1],
        unlike=unlike,
        repeats_least=repeats_least(error) if subjects[0].blocks else None,
        rows=rows,
    )


CHANCE_MAX: Final = 0.05
"""Two shares of runs that equal ones would show more often than this are not told apart."""
ERROR: Final = 0.05
"""How often a comparison of equal subjects that were run several times may call any of its figures better or worse."""


def _error_of_each(subjects: Sequence[Subject]) -> float:
    """`ERROR` shared out among all the differences that may be told, so that it holds for all of them together."""
    names = {figure.name for subject in subjects for figure in subject.figures}
    names |= {name for subject in subjects for name in subject.shares if not _is_of_runs(name)}
    return ERROR / max(len(names) * (len(subjects) - 1), 1)


def _is_of_runs(name: str) -> bool:
    """True if a share is one of runs, which are independent. Clients of a run and rounds of a race hang together."""
    return name in CLAUSES


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


def _between_runs(
    cell: Cell, figure: Figure | Share, reference: Figure | Share, error: float, *, is_less_better: bool
) -> None:
    """Note how a share or a figure differs between two subjects, by the blocks in which both were run."""
    blocks = [block for block in figure.runs if block in reference.runs]
    own, of = _known(figure.runs, blocks), _known(reference.runs, blocks)
    if not blocks or len(own) + len(of) < 2 * len(blocks):
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = np.subtract.outer(own, of) if isinstance(figure, Share) else np.divide.outer(own, of)
    if not np.isfinite(pairs).all():
        return
    found = between_runs(pairs, error=error)
    if found is None:
        cell.apart = "few_runs"
    else:
        none = 0.0 if isinstance(figure, Share) else 1.0
        _tell_apart(cell, found, none=none, is_less_better=is_less_better)


def _known(runs: Mapping[int, float | None], blocks: Sequence[int]) -> list[float]:
    return [value for block in blocks if (value := runs[block]) is not None]


def _clause_rows(subjects: Sequence[Subject], error: float) -> list[Row]:
    """The clauses that were judged anywhere, in the order of the specification; those of stores after them."""
    named = dict.fromkeys(name for subject in subjects for name in subject.shares)
    ordered = [*(name for name in CLAUSES if name in named), *(name for name in named if name not in CLAUSES)]
    rows = []
    for name in ordered:
        shares = [subject.shares.get(name) for subject in subjects]
        if any(share is not None and share.verdict != "not_applicable" for share in shares):
            text = next(share.text for share in shares if share is not None)
            cells = [_share_cell(share, shares[0], is_reference=not place) for place, share in enumerate(shares)]
            if not _is_of_runs(name):
                for cell, share in zip(cells[1:], shares[1:], strict=True):
                    _tell_of_dependent(cell, share, shares[0], error)
            rows.append(Row(name=name, unit="share", text=text, cells=cells))
    return rows


def _tell_of_dependent(cell: Cell, share: Share | None, reference: Share | None, error: float) -> None:
    """Correct what counts as independent would tell apart: by several runs of each, or not at all.

    Two verdicts on a store are another matter: a race that was lost once is a fact of the store, whatever its share.
    """
    if share is None or reference is None or share.is_asked_once or reference.is_asked_once:
        return
    if cell.apart == "apart" and share.verdict != reference.verdict:
        return
    if not share.runs:
        if cell.apart == "apart":
            cell.apart, cell.is_better = "one_run", None
        return
    cell.apart, cell.is_better, cell.difference_low, cell.difference_high = "unknown", None, None, None
    _between_runs(cell, share, reference, error, is_less_better=True)


def _share_cell(share: Share | None, reference: Share | None, *, is_reference: bool) -> Cell:
    if share is None:
        return Cell(apart="reference" if is_reference else "unknown")
    cell = Cell(verdict=share.verdict, broken=share.broken, judged=share.judged)
    if share.judged:
        cell.value = share.broken / share.judged
        cell.low, cell.high = share_95(share.broken, share.judged)
    if is_reference:
        cell.apart = "reference"
    elif reference is not None and share.is_asked_once and reference.is_asked_once:
        _tell_verdicts_apart(cell, reference.verdict)
    elif reference is not None and share.judged and reference.judged:
        counts = (share.broken, share.judged, reference.broken, reference.judged)
        _tell_apart(cell, share_difference(*counts), none=0.0, is_less_better=True)
        if cell.apart == "apart" and chance_of_shares(*counts) > CHANCE_MAX:
            cell.apart, cell.is_better = "not_apart", None
    return cell


_FROM_BEST: Final = ("conforming", "usable", "unsupported", "unsafe")


def _tell_verdicts_apart(cell: Cell, reference: str) -> None:
    """A question that was asked once has no chance in it: the answers differ, or they do not."""
    if cell.verdict in _FROM_BEST and reference in _FROM_BEST:
        cell.apart = "not_apart" if cell.verdict == reference else "apart"
        if cell.apart == "apart":
            cell.is_better = _FROM_BEST.index(cell.verdict) < _FROM_BEST.index(reference)


def _figure_rows(subjects: Sequence[Subject], error: float) -> list[Row]:
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
            _repeated_cell(figure, figures[0], subjects[place].blocks, error, is_reference=not place)
            if subjects[place].blocks
            else _of_one_run(_figure_cell(figure, drawn[place], drawn[0], place == 0))
            for place, figure in enumerate(figures)
        ]
        rows.append(Row(name=name, unit=known.unit, cells=cells))
    return rows


def figures_of(subject: Subject) -> dict[str, Cell]:
    """The figures of one subject by name, each with its interval; of several runs, their median, smallest and largest.

    They are beside nothing: `apart` is `reference`.
    """
    found = {}
    for place, figure in enumerate(subject.figures):
        if subject.blocks:
            found[figure.name] = _repeated_cell(figure, None, subject.blocks, ERROR, is_reference=True)
        else:
            drawn = resampled(figure.drawn, STRETCHES, seed=place) if figure.has_interval else None
            found[figure.name] = _figure_cell(figure, drawn, None, True)
    return found


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


def _repeated_cell(
    figure: Figure | None, reference: Figure | None, blocks: Sequence[int], error: float, *, is_reference: bool
) -> Cell:
    """A figure of several runs: their median, and from the smallest to the largest of them."""
    cell = Cell(apart="reference" if is_reference else "unknown", runs=len(blocks), known=0)
    if figure is None:
        return cell
    values = _known(figure.runs, blocks)
    cell.known = len(values)
    cell.value = once(figure.drawn, STRETCHES)
    if cell.value is None:
        return cell
    cell.low, cell.high = min(values), max(values)
    if not is_reference and reference is not None and figure.has_samples and reference.has_samples:
        _between_runs(cell, figure, reference, error, is_less_better=figure.is_less_better)
    return cell


def _tell_apart(cell: Cell, difference: Interval, *, none: float, is_less_better: bool) -> None:
    """Note the interval of the difference, and, where it leaves `none` out, who does better."""
    cell.difference_low, cell.difference_high = difference.low, difference.high
    cell.apart = "not_apart" if difference.holds(none) else "apart"
    if cell.apart == "apart":
        cell.is_better = (difference.high < none) == is_less_better
