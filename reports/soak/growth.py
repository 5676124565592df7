"""Which growth of a resource is a leak, and which is not.

A leak is what is never given back, so the *floor* counts: the least value of each stretch. A collector of garbage, a
pool or a burst of requests makes peaks and saw-teeth, and their floor stands still. A leak goes on, so the floor has to
rise from each fifth of the run to the next one: caches and pools that fill up grow at the start, and then no more.

So a resource leaks where all of this holds, after the warm-up:

- the interval of its slope is above zero;
- the floor of the last fifth is above that of the first one by `least` units;
- it rose in each of the four steps, by a tenth of the whole at least;
- the later two steps are a third of it at least, of the half that is their fair share: what dies away is no leak.

A resource is flat only where a leak would have shown. Counted resources (descriptors, sockets, threads, processes)
grow in whole units, and clients whose locks count for themselves lose one each at about the same time: nothing for
long, and then a whole *bunch*. So what grew, and a bunch more, bounds what a leak can have taken. `at_most` is that
bound; where it is above `SENSITIVITY`, the run was too short. One unit for each client is not told from a pool.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from reports.soak.slopes import Floats, Slope, theil_sen

Verdict = Literal["flat", "leaks", "inconclusive"]

FIFTHS: Final = 5
BLOCKS: Final = 20
"""Stretches of equal numbers of samples, of which each gives its floor to the slope."""

SAMPLES_MIN: Final = 2 * BLOCKS

COUNTED_LEAST: Final = 3
"""Units by which a counted resource must have grown, and by more than a pool of its clients."""

BUNCH_MIN: Final = 3
"""A leak at random that takes r units per cycle takes none in 3 / r cycles once in twenty times."""

SENSITIVITY: Final = 1 / 1000
"""The leak in units per cycle that a soak must be able to see: one socket in a thousand cycles."""

ALLOCATOR_BYTES: Final = 4 << 20
ALLOCATOR_SHARE: Final = 0.05
"""Memory grows by an allocator's doing: pymalloc takes arenas of 1 MiB, and glibc keeps an arena for each few threads,
with holes that it cannot give back. Growth below 4 MiB and 5 % of the memory is not told from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of one resource, per cycle.

    slope: None where there are too few samples. at_most: no leak above that can have gone unseen; None likewise.
    growth: floor of the last fifth less that of the first one. cycles_needed: for a verdict; 0 where it was reached.
    """

    verdict: Verdict
    reason: str
    samples: int
    slope: Slope | None = None
    growth: float = 0.0
    at_most: float | None = None
    cycles_needed: int = 0


def growth_of(cycles: Floats, values: Floats, *, least: float, is_counted: bool, clients: int = 1) -> Growth:
    """Judge one series, its warm-up cut off. cycles: rising. least: units that the resource must have grown by.

    is_counted: it comes in whole units; then the run must be long enough to see `SENSITIVITY`. clients: whose locks may
    count for themselves.
    """
    samples = len(cycles)
    bunch = max(BUNCH_MIN, clients)
    needed = round(bunch * FIFTHS / (FIFTHS - 1) / SENSITIVITY) if is_counted else 0
    if samples < SAMPLES_MIN or cycles[-1] <= cycles[0]:
        what = f"{samples} samples" if samples < SAMPLES_MIN else "no cycle between the samples"
        reason = f"{what} after the warm-up; {SAMPLES_MIN} samples and some cycles are needed"
        passed = float(cycles[-1] - cycles[0]) if samples else 0.0
        enough = max(needed, math.ceil(passed * SAMPLES_MIN / max(samples, 1)))
        return Growth(verdict="inconclusive", reason=reason, samples=samples, cycles_needed=enough)
    floors = np.array([part.min() for part in np.array_split(values, BLOCKS)])
    middles = np.array([part.mean() for part in np.array_split(cycles, BLOCKS)])
    slope = theil_sen(middles, floors)
    fifths = np.array([part.min() for part in np.array_split(floors, FIFTHS)])
    centres = np.array([part.mean() for part in np.array_split(middles, FIFTHS)])
    steps, grown = np.diff(fifths), float(fifths[-1] - fifths[0])
    apart = float(centres[-1] - centres[0]) / (FIFTHS - 1)
    late = float(steps[2] + steps[3])
    unseen = 1.0 if is_counted else least / (FIFTHS - 1)
    at_most = _bound(fifths, bunch) / apart if is_counted else (max(0.0, float(steps.min())) + unseen) / apart
    is_steady = float(steps.min()) >= grown / 10 and late >= grown / 3
    has_grown = slope.low > 0 and grown >= least
    needs = 0
    verdict: Verdict = "flat"
    reason = "its floor rose at first, and then no more"
    if grown < least:
        is_still = grown <= 0 or not is_counted
        reason = "its floor stands still" if is_still else "its floor grew by less than a leak would have taken"
    if has_grown and is_steady:
        verdict, reason = "leaks", "its floor rose from each fifth of the run to the next one"
    elif (has_grown or (is_counted and grown >= least)) and late >= min(least, unseen):
        verdict, needs = "inconclusive", 2 * round(float(cycles[-1] - cycles[0]))
        reason = "its floor rose, but not as steadily as a leak does; a longer soak tells which it is"
    elif is_counted and at_most > SENSITIVITY:
        passed = float(cycles[-1] - cycles[0])
        verdict, needs = "inconclusive", needed if passed < needed else 2 * round(passed)
        reason = f"too few cycles: a leak of one in {round(1 / SENSITIVITY):,} cycles would not have shown"
    return Growth(
        verdict=verdict, reason=reason, samples=samples, slope=slope, growth=grown, at_most=at_most, cycles_needed=needs
    )


def _bound(fifths: Floats, bunch: int) -> float:
    """Units in the distance of two fifths that a leak can have taken at most, by the end of the run or by all of it.

    A leak in bunches takes less than what grew and a bunch more. A leak at random: Poisson's upper bound of 95 %, to
    the safe side.
    """
    rises = np.maximum(0.0, fifths[-1] - fifths[: FIFTHS // 2 + 1])
    bounds = rises + np.maximum(bunch, BUNCH_MIN + 1.75 * np.sqrt(rises))
    return float((bounds / np.arange(FIFTHS - 1, FIFTHS // 2 - 1, -1)).min())


def counted_least(pool: int) -> int:
    """The units by which a counted resource must have grown. pool: so many may be opened once, and kept on purpose."""
    return max(COUNTED_LEAST, pool + 1)


def memory_least(level_bytes: float) -> float:
    """The bytes by which memory at this level must have grown."""
    return ALLOCATOR_BYTES + ALLOCATOR_SHARE * level_bytes
