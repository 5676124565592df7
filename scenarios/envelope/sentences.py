"""The answer of an envelope in words: how long may writers pause, how far may clocks be apart.

A sentence says what was measured and what is promised, and never "safe": where no run of N broke, it tells 3/N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lockref.words import counted
from reports.checks.measures.confidence import bound_95
from scenarios.envelope.axes import DISTURBANCES, Axis, Disturbance
from scenarios.envelope.bisection import Bracket
from scenarios.envelope.cells import Cell
from scenarios.envelope.contended import Point
from scenarios.envelope.survey import Boundary, Surveyed

BROKEN_TOLD_MAX = 3
"""Cells that are named where a promise was broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer for one lock. headline: a few words. sentences: all of it."""

    headline: str
    sentences: Sequence[str]


def answer(found: Surveyed, axes: Sequence[Axis]) -> Answer:
    """Tell the envelope of one lock. axes: as of the survey; the first is the one that is asked about."""
    first, *rest = [axis for axis in axes if not axis.is_fixed]
    second = rest[0] if rest else None
    rows = [each for each in found.boundaries if each.along == first.of.name]
    expected = 1 if second is None else len(second.values)
    if len(rows) < expected:
        headline, sentences = "not finished", [_unfinished(found, first, second)]
    else:
        headline, sentences = _measured(found, first, second, rows)
    sentences += _harm(found)
    sentences += _broken(found, first, second) if found.broken_promises else _promised(found, first, second)
    return Answer(headline=headline, sentences=sentences)


def _measured(found: Surveyed, first: Axis, second: Axis | None, rows: Sequence[Boundary]) -> tuple[str, list[str]]:
    if second is not None:
        rows = sorted(rows, key=lambda each: each.at.value(second.of.name), reverse=second.of.is_better_high)
    mildest = rows[0].bracket
    if all(each.bracket.broke is None for each in rows):
        runs = sum(cell.runs for cell in found.cells)
        held = f"held in all of {counted(runs, 'run')}{_proven(runs, 'break, at 95 %')}"
        tried = " and ".join(_range(axis) for axis in (first, second) if axis is not None)
        return "held everywhere", [f"It {held}: {tried}."]
    if second is None:
        return _broke(first.of, mildest), [f"It {_broke(first.of, mildest)}{_just_before(found, rows[0])}."]
    if mildest.broke is None:
        return _second_alone(found, first, second)
    worst = rows[-1]
    headline = _broke(first.of, mildest)
    if worst.bracket.broke not in (None, mildest.broke):
        headline += f"; from {first.of.told(worst.bracket.broke)} with {_amount(second.of, worst.at)}"
    told = f"It {_broke(first.of, mildest)} with {_amount(second.of, rows[0].at)}{_just_before(found, rows[0])}"
    if worst.bracket != mildest:
        told += f"; with {_amount(second.of, worst.at)} it {_broke(first.of, worst.bracket)}"
    return headline, [f"{told}."]


def _second_alone(found: Surveyed, first: Axis, second: Axis) -> tuple[str, list[str]]:
    """The first axis alone does not break it; the second one does, from some value on."""
    broken = [each for each in found.boundaries if each.along == second.of.name and each.bracket.broke is not None]
    sign = -1 if second.of.is_better_high else 1
    soonest = min(broken, key=lambda each: sign * (each.bracket.broke or 0))
    held, broke = soonest.bracket.held, soonest.bracket.broke
    assert held is not None, "its mildest row held"
    assert broke is not None, "only those that broke were asked"
    worst = replace(soonest.at, **{first.of.name: _worst(first), second.of.name: _mild(second)})
    far = None if found.broken_promises or not found.is_promised(worst) else _reach(found, second, worst)
    within = second.of.within.format(second.of.told(held if far is None else far))
    broken_at = f"it broke with {second.of.in_words(broke)}, at {_amount(first.of, soonest.at)}"
    if far is None:
        # Nothing is promised there: what was tried is told, and nothing beyond it.
        reached = first.of.in_words(_worst(first))
        runs = sum(cell.runs for cell in found.cells if sign * cell.point.value(second.of.name) <= sign * held)
        told = f"No run of {runs:,} broke up to {reached} while {within}, and nothing worse was tried"
        return f"held up to {reached} while {within}", [f"{told}; {broken_at}{_just_before(found, soonest)}."]
    free = f"{first.of.freely} while {within}"
    tried = f"promised; {first.of.told(_worst(first))} was the worst that was tried"
    told = f"{free[0].upper()}{free[1:]} ({tried}); {broken_at}{_just_before(found, soonest)}."
    return f"held at any {first.of.name} while {within}", [told]


def _broke(of: Disturbance, bracket: Bracket) -> str:
    if bracket.broke is None:
        return f"held up to {of.in_words(bracket.held or 0)}"
    on = "down" if of.is_better_high else "on"
    again = ", though not at every larger value" if bracket.holds_again else ""
    return f"broke from {of.in_words(bracket.broke)} {on}{again}"


def _just_before(found: Surveyed, boundary: Boundary) -> str:
    """The value next to the boundary at which it held, with what that proves."""
    held = boundary.bracket.held
    if held is None:
        return ""
    point = replace(boundary.at, **{boundary.along: held})
    runs = next((cell.runs for cell in found.cells if cell.point == point), 0)
    return f" (at {_told(boundary.along, held)} 0 of {counted(runs, 'run')} broke{_proven(runs, 'do')})"


def _unfinished(found: Surveyed, first: Axis, second: Axis | None) -> str:
    """The sentence of an unfinished survey, with the values between which its mildest row began to break."""
    told = "It was ended before the boundary could be told"
    sign = -1 if first.of.is_better_high else 1
    row = [cell for cell in found.grid if second is None or cell.point.value(second.of.name) == _mild(second)]
    row.sort(key=lambda cell: sign * cell.point.value(first.of.name))
    place = next((place for place, cell in enumerate(row) if cell.has_broken), None)
    if place is None:
        return f"{told}."
    broke = f"it broke at {_amount(first.of, row[place].point)} (in {row[place].violated} of {row[place].runs} runs)"
    before = row[place - 1] if place else None
    held = "" if before is None else f"it held at {_amount(first.of, before.point)} (0 of {before.runs}), and "
    return f"{told}; {held}{broke}."


def _harm(found: Surveyed) -> list[str]:
    broken = [cell for cell in found.cells if cell.has_broken]
    if not broken:
        return []
    runs, harmed = sum(cell.violated for cell in broken), sum(cell.harmed for cell in broken)
    if harmed:
        return [f"In {harmed:,} of the {counted(runs, 'run')} that broke, a late write was accepted (S4)."]
    stopped = ": a token stopped it" if any(cell.shows_tokens for cell in broken) else ""
    return [f"In none of the {counted(runs, 'run')} that broke was a late write accepted (S4){stopped}."]


def _promised(found: Surveyed, first: Axis, second: Axis | None) -> list[str]:
    if not found.promises:
        return [
            "Its `claims` declare nothing by which a promise could be told, so no curve is drawn and nothing is asked "
            "of it; docs/bring-your-own-lock.md has the words."
        ]
    inside = [cell for cell in found.cells if found.is_promised(cell.point)]
    runs = sum(cell.runs for cell in inside)
    if not inside:
        return ["It promises nothing at any point that was tried."]
    extent = _extent(found, first, second, inside)
    return [f"{extent}. There 0 of {counted(runs, 'run')} broke{_proven(runs, 'do')}."]


def _extent(found: Surveyed, first: Axis, second: Axis | None, inside: Sequence[Cell]) -> str:
    """The extent of the promise of all clauses along each axis, in words: `It promises to hold: while …`."""
    base = inside[0].point
    if second is None:
        return f"It promises to hold: {_reached(found, first, replace(base, **{first.of.name: _mild(first)}))}"
    mildest = replace(base, **{first.of.name: _mild(first), second.of.name: _mild(second)})
    worst = replace(mildest, **{first.of.name: _worst(first)})
    if found.is_promised(worst):
        far = _reach(found, second, worst)
        link = "and " if far is None else ""
        return f"It promises to hold: {first.of.freely}, {link}{_reached(found, second, worst)}"
    return (
        f"It promises to hold: {_reached(found, first, mildest)}, with {_amount(second.of, mildest)}; "
        f"or {_reached(found, second, mildest)}, with {_amount(first.of, mildest)}"
    )


def _reached(found: Surveyed, axis: Axis, mildest: Point) -> str:
    far = _reach(found, axis, mildest)
    if not far and axis.of.nothing and far is not None:
        return f"with {axis.of.nothing} only"
    return axis.of.freely if far is None else f"while {axis.of.within.format(axis.of.told(far))}"


def _reach(found: Surveyed, axis: Axis, mildest: Point) -> int | None:
    """The worst value of an axis that is still promised, to a thousandth of the axis; None if all are.

    mildest: a point that is promised, with the mildest value of the axis.
    """

    def is_promised(value: int) -> bool:
        return found.is_promised(replace(mildest, **{axis.of.name: value}))

    good, bad = _mild(axis), _worst(axis)
    if is_promised(bad):
        return None
    # To the last digit that is worth telling: of 20 s, 10 ms.
    near: int = 10 ** max(0, len(str(axis.values[-1] - axis.values[0])) - 4)
    while abs(bad - good) > near // 4 + 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_promised(middle) else (good, middle)
    around = good // near * near
    rounded = (around, around + near) if axis.of.is_better_high else (around + near, around)
    return next((value for value in rounded if is_promised(value)), good)


def _broken(found: Surveyed, first: Axis, second: Axis | None) -> list[str]:
    told = []
    for cell, clauses in found.broken_promises[:BROKEN_TOLD_MAX]:
        where = " and ".join(_amount(axis.of, cell.point) for axis in (first, second) if axis is not None)
        said = ", ".join(f"{clause} in {cell.clauses[clause]} of {cell.runs} runs" for clause in clauses)
        told.append(f"{said} at {where}")
    rest = len(found.broken_promises) - len(told)
    more = f"; and in {counted(rest, 'further cell')}" if rest else ""
    return [f"It broke its promise: {'; '.join(told)}{more}."]


def _mild(axis: Axis) -> int:
    return axis.values[-1] if axis.of.is_better_high else axis.values[0]


def _worst(axis: Axis) -> int:
    return axis.values[0] if axis.of.is_better_high else axis.values[-1]


def _amount(of: Disturbance, point: Point) -> str:
    return of.in_words(point.value(of.name))


def _told(name: str, value: int) -> str:
    return DISTURBANCES[name].told(value)


def _range(axis: Axis) -> str:
    return f"{axis.of.name} from {axis.of.told(axis.values[0])} to {axis.of.told(axis.values[-1])}"


def _proven(runs: int, do: str) -> str:
    """The share that so many runs without a violation rule out, as the end of a sentence. do: its verb."""
    bound = bound_95(runs)
    return ", too few to say more" if bound >= 1 else f", so fewer than {100 * bound:.2g} % {do}"
