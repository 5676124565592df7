"""The next seeds of a gate that has time left: `--for 10m`.

A gate first runs every scenario over a few seeds, and deals out a plan (`spending`). What is left of the time goes, in
rounds, to more seeds: one half to scenarios that showed a failure, since mistakes come in company, and one half to
those that were looked at least. Rejected: one order over all by a score, in which a scenario that fails often takes
the whole time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PART_OF_LEFT: Final = 3
"""A round plans this part of the time that is left: a plan from few runs is wrong, and the next one corrects it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioProgress:
    """The exploration of one scenario so far: its seeds, the time they took (nanoseconds), and whether any failed."""

    name: str
    seeds: int
    spent_ns: int
    has_failed: bool

    @property
    def seed_ns(self) -> int:
        """The time of one seed."""
        return max(1, self.spent_ns // max(1, self.seeds))


def next_round(explored: Sequence[ScenarioProgress], left_ns: int) -> dict[str, tuple[int, int]]:
    """By scenario, the seeds that it has had and the further ones to run now; empty where too little time is left.

    left_ns: the time that is left, of all processes together. A scenario gets at most as many seeds as it has had, so
    that no early guess of its cost takes the time of the others.
    """
    failed = [each for each in explored if each.has_failed]
    quiet = [each for each in explored if not each.has_failed]
    sides = [side for side in (failed, quiet) if side]
    planned: dict[str, tuple[int, int]] = {}
    for side in sides:
        planned |= _filled(side, left_ns // PART_OF_LEFT // len(sides))
    return planned


def _filled(side: Sequence[ScenarioProgress], share_ns: int) -> dict[str, tuple[int, int]]:
    """The scenarios that were looked at least get more seeds, until the share is planned."""
    planned: dict[str, tuple[int, int]] = {}
    for each in sorted(side, key=lambda progress: progress.spent_ns):
        more = min(max(1, each.seeds), share_ns // each.seed_ns)
        if more == 0:
            break
        planned[each.name] = (each.seeds, more)
        share_ns -= more * each.seed_ns
    return planned
