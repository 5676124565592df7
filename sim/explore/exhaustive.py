"""Every schedule within a bound of deviations from first-in, first-out.

Delay bounding: schedules with at most `deviations_max` choices other than the
default, each enumerated once. The answer says whether the space was exhausted
or the search was cut off, because only the first is a proof (for this seed and
plan).

Source: Emmi, Qadeer, Rakamaric, POPL 2011.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

R = TypeVar("R")

Deviations = tuple[tuple[int, int], ...]


class PrefixSchedule:
    """A replayed prefix, default afterwards; remembers how wide each decision was."""

    is_fifo: ClassVar[bool] = False

    def __init__(self, deviations: Deviations) -> None:
        self.deviations = deviations
        self._choices = dict(deviations)
        self.widths: list[int] = []

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        assert decision == len(self.widths), "decisions are numbered without gaps"
        self.widths.append(len(actors))
        return min(self._choices.get(decision, 0), len(actors) - 1)


@dataclass(frozen=True, slots=True)
class Exploration(Generic[R]):
    """The result of a search: the first failing run with its deviations, or none."""

    failure: R | None
    deviations: Deviations
    runs: int
    is_exhausted: bool


def explore(
    run: Callable[[PrefixSchedule], R], fails: Callable[[R], bool], *, deviations_max: int, runs_max: int
) -> Exploration[R]:
    """Search breadth first, fewest deviations first, so that the first failure is a smallest one.

    run: executes the scenario under the given schedule, in a fresh world.
    Each schedule is the default after its last deviation; its children deviate
    once more, later. So none is met twice.
    """
    frontier: deque[Deviations] = deque([()])
    runs = 0
    while frontier:
        if runs >= runs_max:
            return Exploration(None, (), runs, is_exhausted=False)
        deviations = frontier.popleft()
        schedule = PrefixSchedule(deviations)
        outcome = run(schedule)
        runs += 1
        if fails(outcome):
            return Exploration(outcome, deviations, runs, is_exhausted=False)
        if len(deviations) < deviations_max:
            first = deviations[-1][0] + 1 if deviations else 0
            frontier.extend(
                (*deviations, (decision, choice))
                for decision in range(first, len(schedule.widths))
                for choice in range(1, schedule.widths[decision])
            )
    return Exploration(None, (), runs, is_exhausted=True)
