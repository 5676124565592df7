"""One measured figure, and how `make bench` shows it.

Every figure is warm and carries its spread. Work is measured several times
after a first time that does not count, and the figure is the median. Where an
aim compares two things, they are measured in turn: what slows the machine down
slows both. Work that never waits (judging, simulating) is measured in CPU time
of this process, so that other programs of a full machine do not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        assert self.values, "nothing was measured"

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)

    def over(self, other: Spread) -> Spread:
        """The ratio to another thing that was measured in turn with this one, round by round."""
        return Spread(tuple(mine / its for mine, its in zip(self.values, other.values, strict=True)))

    def times(self, factor: float) -> Spread:
        """In another unit."""
        return Spread(tuple(value * factor for value in self.values))

    def __str__(self) -> str:
        return f"{_number(self.median)} [{_number(self.least)} to {_number(self.most)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """name, value and unit; `aim` in words and whether it is met, where there is one.

    least, most: of the measurements whose median is the value; None where there is one only, and `note` says why.
    """

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None
    aim: str = ""
    is_met: bool | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, spread: Spread, unit: str, *, aim: str = "", is_met: bool | None = None, note: str = ""
    ) -> Figure:
        """The figure of several measurements."""
        return cls(
            name=name,
            value=spread.median,
            unit=unit,
            least=spread.least,
            most=spread.most,
            aim=aim,
            is_met=is_met,
            note=note,
        )

    def line(self) -> str:
        mark = {None: " ", True: "✓", False: "✗"}[self.is_met]
        spread = "" if self.least is None or self.most is None else f"[{_number(self.least)} to {_number(self.most)}]"
        aim = f"   aim {self.aim}" if self.aim else ""
        note = f"   ({self.note})" if self.note else ""
        return f"{mark} {self.name:<58} {_number(self.value):>12} {self.unit:<8} {spread:<20}{aim}{note}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate(work: Callable[[], int]) -> float:
    """Things done per second of one call, which answers how many it did."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def seconds(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cpu_rate(work: Callable[[], int]) -> float:
    """Things done per CPU second of this process, all its threads together."""
    began = time.process_time()
    done = work()
    return done / (time.process_time() - began)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call, all threads of this process together. A call that waits seems quick: see `seconds`."""
    began = time.process_time()
    work()
    return time.process_time() - began


def warm(measure: Callable[[], float], rounds: int = ROUNDS) -> Spread:
    """Measure several times after a first time that does not count."""
    measure()
    return Spread(tuple(measure() for _ in range(rounds)))


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int = ROUNDS) -> tuple[Spread, Spread]:
    """Two measurements taken A, B, A, B, … after a first pair that does not count."""
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    return Spread(tuple(one for one, _ in pairs)), Spread(tuple(other for _, other in pairs))
