"""Samples and cycles put together: of each role and resource one series over the cycles, the warm-up of each process
cut off.

A soak that was killed and resumed has several *stretches*, and a run with faults has processes that follow others. Each
process has a level of its own, so what counts is its growth since its warm-up. The growth of all processes is added up,
and a process that has ended keeps what it had grown by: a leak goes on across a restart, and a level does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lockref.samples import Sample
from reports.soak.cycles import Cycles
from reports.soak.slopes import Floats

WARM_UP_SHARE: Final = 0.15
WARM_UP_MAX_NS: Final = 300_000_000_000
"""A process warms up for this share of its life, and five minutes at most."""

ENDING: Final = 5
"""A process that has ended keeps the least growth of its last samples: the very last one may be a peak."""


def warm_up_of(lived_ns: int) -> int:
    """The warm-up of a process that lives so long. A process that a fault ends soon has a short one."""
    return min(round(WARM_UP_SHARE * lived_ns), WARM_UP_MAX_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The samples and cycles of one uninterrupted run of a soak. samples: in the order of time.

    Only what lies between the first cycle and the last one counts: before, processes start, and after, clients close.
    """

    samples: Sequence[Sample]
    cycles: Cycles

    @classmethod
    def of(cls, samples: Sequence[Sample], cycles: Cycles) -> Stretch:
        """The stretch with the samples that count."""
        begin_ns, end_ns = cycles.begin_ns, cycles.end_ns
        if begin_ns is None or end_ns is None:
            return cls(samples=(), cycles=cycles)
        return cls(samples=[each for each in samples if begin_ns <= each.at_ns <= end_ns], cycles=cycles)

    @property
    def begin_ns(self) -> int:
        """The instant of the first sample."""
        return self.samples[0].at_ns

    @property
    def lasted_ns(self) -> int:
        """From the first sample to the last one."""
        return self.samples[-1].at_ns - self.samples[0].at_ns if self.samples else 0

    @property
    def warm_up_ns(self) -> int:
        """For how long a process warms up: imports, pools and caches fill up."""
        return warm_up_of(self.lasted_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A resource over the cycles after the warm-up.

    cycles, values, at_s: of one length: cycles since the warm-up, the amount, and seconds of the soak. level: the
    amount at the end of the warm-up.
    """

    cycles: Floats
    values: Floats
    at_s: Floats
    level: float


Measured = Callable[[Stretch, Floats], Floats]
"""(a stretch, the edges of its parts, in nanoseconds) -> a value for each part; not a number where there is none."""


def stock_series(stretches: Sequence[Stretch], role: str, amount: Callable[[Sample], float]) -> Series:
    """The amount that the processes of a role have at each instant: the first level, and the growth since then."""
    cycles: list[Floats] = []
    values: list[Floats] = []
    at_s: list[Floats] = []
    level, grown, counted, spent_s = 0.0, 0.0, 0.0, 0.0
    for stretch in stretches:
        if not stretch.samples:
            continue
        found = _grown(stretch, role, amount)
        if found is not None:
            at_ns, growth, own_level = found
            level = own_level if not cycles else level
            own = stretch.cycles.until(at_ns)
            cycles.append(counted + own - own[0])
            values.append(grown + growth)
            at_s.append(spent_s + (at_ns - stretch.begin_ns) / 1e9)
            counted, grown = float(cycles[-1][-1]), grown + float(growth[-ENDING:].min())
        spent_s += stretch.lasted_ns / 1e9
    empty: Floats = np.zeros(0)
    joined = [np.concatenate(parts) if parts else empty for parts in (cycles, values, at_s)]
    return Series(cycles=joined[0], values=level + joined[1], at_s=joined[2], level=level)


def _grown(stretch: Stretch, role: str, amount: Callable[[Sample], float]) -> tuple[Floats, Floats, float] | None:
    """The instants of a stretch after its warm-up, the growth at each, and the level; None where nothing is sampled."""
    kept = [each for each in stretch.samples if each.role == role]
    begins: dict[int, int] = {}
    for each in kept:
        begins.setdefault(each.pid, each.at_ns)
    lived = {each.pid: each.at_ns - begins[each.pid] for each in kept}
    warm = [each for each in kept if each.at_ns >= begins[each.pid] + warm_up_of(lived[each.pid])]
    if not warm:
        return None
    at_ns = np.unique(np.array([each.at_ns for each in warm], dtype=np.float64))
    growth: Floats = np.zeros(len(at_ns))
    level = 0.0
    for pid in dict.fromkeys(each.pid for each in warm):
        own = [each for each in warm if each.pid == pid]
        instants = np.array([each.at_ns for each in own], dtype=np.float64)
        amounts = np.array([amount(each) for each in own], dtype=np.float64)
        if begins[pid] == min(begins.values()):
            level += float(amounts[0])
        # Between two samples of it, as at the one before.
        place = np.searchsorted(instants, at_ns, side="right") - 1
        mine = np.where(place >= 0, amounts[np.maximum(place, 0)] - amounts[0], 0.0)
        if instants[-1] < at_ns[-1]:
            mine[at_ns > instants[-1]] = float((amounts[-ENDING:] - amounts[0]).min())
        growth += mine
    return at_ns, growth, level


def parted_series(stretches: Sequence[Stretch], measured: Measured, *, parts: int) -> Series:
    """One value for each of so many parts of each stretch, its warm-up cut off. A part without a value is left out."""
    cycles: list[Floats] = []
    values: list[Floats] = []
    at_s: list[Floats] = []
    counted, spent_s = 0.0, 0.0
    for stretch in stretches:
        if not stretch.samples:
            continue
        begin_ns, lasted_ns = stretch.begin_ns, stretch.lasted_ns
        edges = np.linspace(begin_ns + stretch.warm_up_ns, begin_ns + lasted_ns, parts + 1)
        done = stretch.cycles.until(edges)
        found = measured(stretch, edges)
        is_known = ~np.isnan(found)
        cycles.append((counted + (done[:-1] + done[1:]) / 2 - done[0])[is_known])
        values.append(found[is_known])
        at_s.append((spent_s + ((edges[:-1] + edges[1:]) / 2 - begin_ns) / 1e9)[is_known])
        counted += float(done[-1] - done[0])
        spent_s += lasted_ns / 1e9
    joined = [np.concatenate(part) if part else np.zeros(0) for part in (cycles, values, at_s)]
    level = float(np.median(joined[1])) if len(joined[1]) else 0.0
    return Series(cycles=joined[0], values=joined[1], at_s=joined[2], level=level)


def taken_per_cycle(role: str, amount: Callable[[Sample], float]) -> Measured:
    """The share of a cycle in something that only rises, such as processor time, of the processes of a role."""

    def measured(stretch: Stretch, edges: Floats) -> Floats:
        taken: Floats = np.zeros(len(edges))
        own = [each for each in stretch.samples if each.role == role]
        for pid in dict.fromkeys(each.pid for each in own):
            at_ns, amounts = zip(*((each.at_ns, amount(each)) for each in own if each.pid == pid), strict=True)
            # A process that comes later begins at what it had taken when it was first seen.
            taken += np.interp(edges, at_ns, np.asarray(amounts, dtype=np.float64) - amounts[0])
        ended = np.diff(stretch.cycles.until(edges))
        return np.where(ended > 0, np.diff(taken) / np.maximum(ended, 1e-9), np.nan)

    return measured


def median_wait_ns(stretch: Stretch, edges: Floats) -> Floats:
    """The median wait of the granted acquires of each part, in nanoseconds."""
    ends, waits = np.asarray(stretch.cycles.at_ns, dtype=np.float64), np.asarray(stretch.cycles.waits_ns)
    found: Floats = np.full(len(edges) - 1, np.nan)
    for number in range(len(found)):
        here = waits[(ends > edges[number]) & (ends <= edges[number + 1]) & ~np.isnan(waits)]
        found[number] = np.median(here) if len(here) else np.nan
    return found
