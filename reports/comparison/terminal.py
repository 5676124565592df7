"""A comparison in words: what each cell says, for the terminal, the Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from lockref.durations import duration
from lockref.words import counted
from reports.checks.spec import CLAUSES
from reports.comparison.comparison import ASKED, Cell, Column, Comparison, Row
from reports.comparison.subjects import UNSERVED
from reports.formats.text import short

TITLE_MAX = 60
_ASIDE: Final = ("commit", "world", "runs", "machine late by up to")
"""Facts that neither name a subject nor are what it was compared for."""

_PLACES: Final = ("endpoint",)
"""Facts that say where a store stands, and not which one it is."""

_COUNTED_ONE: Final = {"clients": "client", "processes": "process"}
"""Facts that are numbers, each with its word for one."""


def told(row: Row, cell: Cell) -> str:
    """One cell: the figure with its interval, or in how many runs a clause broke."""
    if cell.judged is not None:
        return _share(cell)
    if cell.value is None:
        return "–" if not cell.runs else f"known in {cell.known} of {counted(cell.runs, 'run')}"
    around = "" if cell.low is None else f" ({_figure(row, cell.low)} to {_figure(row, cell.high)})"
    return f"{_figure(row, cell.value)}{around}"


def difference(row: Row, cell: Cell) -> str:
    """The difference of a cell from the reference, or the note that it may be chance."""
    if cell.apart == "unlike":
        return ""
    if cell.apart in ("reference", "unknown"):
        is_silent = cell.apart == "reference" or (cell.value is None and not cell.runs)
        return "" if is_silent else "not known"
    if cell.apart == "few_runs":
        return "too few runs to tell"
    if cell.apart == "not_apart":
        return "the same" if cell.difference_low is None else "may be chance"
    word = "one run each, so it may be chance" if cell.apart == "one_run" else "better" if cell.is_better else "worse"
    if cell.difference_low is None:
        return word
    low, high = cell.difference_low, cell.difference_high
    assert low is not None, "what is apart has an interval"
    assert high is not None, "what is apart has an interval"
    if row.unit == "share":
        return f"{word}: {_points(low)} to {_points(high)} percentage points of {_counted(row)}"
    return f"{word}: {low:.3g} to {high:.3g} times"


def heading(comparison: Comparison) -> list[str]:
    """The heading of each subject: the facts in which the subjects differ, or a number where they are alike.

    Where a store stands, often a port of this machine, is told only of stores that nothing else tells apart.
    """
    named = [_distinguishing(comparison, column, leave_out=(*_ASIDE, *_PLACES)) for column in comparison.columns]
    if len(set(named)) < len(named):
        named = [_distinguishing(comparison, column, leave_out=_ASIDE) for column in comparison.columns]
    return [
        f"{number}: {short(name or column.title, TITLE_MAX)}"
        for number, (name, column) in enumerate(zip(named, comparison.columns, strict=True), 1)
    ]


def _distinguishing(comparison: Comparison, column: Column, *, leave_out: Sequence[str]) -> str:
    return ", ".join(
        f"{value} {_COUNTED_ONE[name] if value == '1' else name}" if name in _COUNTED_ONE else value
        for name in comparison.differs
        if name not in leave_out and (value := column.facts.get(name))
    )


def notices(comparison: Comparison) -> list[str]:
    """The notices before a difference is put down to the lock or the store: warnings, then the facts."""
    told_of = []
    if comparison.unlike:
        which = ", ".join(str(place + 1) for place in comparison.unlike)
        told_of.append(
            f"{which} was asked something else than 1 ({' or '.join(ASKED)}): nothing here says which is better"
        )
    told_of += _repeats(comparison)
    told_of += [_never_served(row, place) for row in comparison.rows if row.name == UNSERVED
                for place, cell in enumerate(row.cells) if cell.broken]  # fmt: skip
    if len([name for name in comparison.differs if name not in _ASIDE]) > 1:
        told_of.append("the runs differ in more than one fact: a difference may come from any of them")
    told_of += [
        f"{name}: {' | '.join(column.facts.get(name, '–') for column in comparison.columns)}"
        for name in comparison.differs
    ]
    if not comparison.differs:
        told_of.append("the runs are of one kind: what differs between them is chance, or the machine")
    return told_of


def _repeats(comparison: Comparison) -> list[str]:
    """The ground of the figures of subjects that were run several times."""
    least = comparison.repeats_least
    if least is None:
        return []
    runs = [column.repeats for column in comparison.columns]
    told_of = [
        f"runs of each: {', '.join(map(str, runs))}. A figure is their median, with the smallest and the largest. "
        "Better and worse are told by the differences between runs: if all are equal, at most 5 of 100 such "
        "comparisons call any figure so. A figure that some run lacks is not known: the other runs would be a selection"
    ]
    if len(set(runs)) > 1:
        told_of.append("not all were run equally often: two are compared by the blocks in which both were run")
    if min(runs) < least:
        told_of.append(f"so few runs cannot tell a difference of figures: it takes {least} of each")
    return told_of


def _never_served(row: Row, place: int) -> str:
    cell = row.cells[place]
    return (
        f"{place + 1}: {cell.broken:,} of {cell.judged:,} clients that asked were never served. Waits and hand-offs "
        "leave them out, so they look shorter than they are"
    )


def unbroken(comparison: Comparison) -> list[str]:
    """The clauses that broke nowhere and may be told in one line, because nothing distinguishes the subjects there."""
    return [
        row.name
        for row in comparison.rows
        if row.unit == "share" and {cell.verdict for cell in row.cells} <= {"held", "conforming", "not_applicable"}
    ]


def terminal_table(comparison: Comparison) -> Table:
    """The rows in which anything can be seen, for a terminal. Grey: the difference may be chance."""
    told_together = unbroken(comparison)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in heading(comparison):
        table.add_column(name)
    for row in comparison.rows:
        if row.name not in told_together:
            table.add_row(row.name, *(_shown(row, cell) for cell in row.cells))
    return table


_STYLES: Final = {"not_apart": "dim", "one_run": "dim", "few_runs": "dim", "unlike": "dim"}


def _shown(row: Row, cell: Cell) -> Text:
    said = difference(row, cell)
    style = _STYLES.get(cell.apart, "" if cell.is_better is None else "green" if cell.is_better else "red")
    return Text(f"{told(row, cell)}{chr(10) + said if said else ''}", style=style)


def _share(cell: Cell) -> str:
    verdict = cell.verdict.replace("_", " ")
    if not cell.judged:
        return verdict or "–"
    counted = f"{cell.broken:,} of {cell.judged:,}"
    assert cell.high is not None, "a share of some runs has an interval"
    assert cell.low is not None, "a share of some runs has an interval"
    bound = f"{_percent(cell.low)} to {_percent(cell.high)} %" if cell.broken else f"at most {_percent(cell.high)} %"
    return f"{verdict + ', ' if verdict else ''}{counted} ({bound})"


def _percent(share: float) -> str:
    """Two digits; a hundred is no `1e+02`."""
    return "100" if share >= 0.995 else f"{100 * share:.2g}"


def _counted(row: Row) -> str:
    """The whole of which a share is told, such as runs."""
    return "clients" if row.name == UNSERVED else "rounds" if row.name not in CLAUSES else "runs"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _figure(row: Row, value: float | None) -> str:
    if value is None:
        return "–"
    return duration(value) if row.unit == "ns" else f"{value:,.3g}{'/s' if row.unit == '1/s' else ''}"
