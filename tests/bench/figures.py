"""One measured figure, and how `make bench` shows it.

Figures are ratios measured in one run wherever an aim depends on them: the
same machine, the same minute, A and B in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """name, value and unit; `aim` in words and whether it is met, where there is one."""

    name: str
    value: float
    unit: str
    aim: str = ""
    is_met: bool | None = None
    note: str = ""

    def line(self) -> str:
        mark = {None: " ", True: "✓", False: "✗"}[self.is_met]
        aim = f"   aim {self.aim}" if self.aim else ""
        note = f"   ({self.note})" if self.note else ""
        return f"{mark} {self.name:<58} {_number(self.value):>12} {self.unit:<12}{aim}{note}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate(work: Callable[[], int]) -> float:
    """Things done per second of one call, which answers how many it did."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int = 5) -> tuple[float, float]:
    """Medians of two measurements taken A, B, A, B, …: what slows the machine down slows both."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return statistics.median(one for one, _ in pairs), statistics.median(other for _, other in pairs)
