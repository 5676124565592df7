"""The seeds of each scenario of a gate: their number follows from what runs cost, and from what the first ones found.

The cost of a run is the number of its events, and not the time that it took: so a gate explores the same seeds on a
fast machine and on a slow one, and two runs of one commit give one verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FIRST_SEEDS: Final = 4
"""So many seeds of each scenario run first. Most situations come about in one of them."""

EVENTS: Final = 1_000_000
"""The events of all further runs of a default gate, together."""

SEEDS_MAX: Final = 60
"""The most seeds of one scenario. Its rarest situation comes about in so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRuns:
    """The first runs of one scenario. events: of one run. is_open: something never happened."""

    runs: int
    events: int
    is_broken: bool
    is_open: bool


def further_seeds(
    first_runs: Mapping[str, FirstRuns], *, events: int = EVENTS, most: int = SEEDS_MAX
) -> dict[str, int]:
    """The number of further seeds of each scenario; only those that get some are named.

    A scenario that broke is red already and gets none. Where a situation never came about, seeds may show it, so these
    scenarios are served first. What is left is dealt out evenly, in events.
    """
    left = events
    given: dict[str, int] = {}
    for name, found in first_runs.items():
        if found.is_open and not found.is_broken and found.runs:
            seeds = min(most - found.runs, left // 2 // max(1, found.events))
            if seeds > 0:
                given[name] = seeds
                left -= seeds * found.events
    others = {
        name: found for name, found in first_runs.items() if not found.is_open and not found.is_broken and found.runs
    }
    for place, (name, found) in enumerate(sorted(others.items(), key=lambda entry: (-entry[1].events, entry[0]))):
        # The dearest ones first: what a cheap one does not need of its share is dealt out to nobody twice.
        share = left // (len(others) - place)
        seeds = min(most - found.runs, share // max(1, found.events))
        if seeds > 0:
            given[name] = seeds
            left -= seeds * found.events
    return given
