"""POS: partial-order sampling.

Every step gets a random priority when it becomes ready, and the highest one runs. What competes with the step that
ran, because both touch one place, draws a new priority. So the order of steps that have nothing in common costs the
search nothing, and each order of those that compete keeps its share.

Source: Yuan, Yang, Gu, CAV 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sim.kernel.exploring import Ran, Ready
from sim.kernel.footprints import conflict
from sim.kernel.streams import Stream


class Pos:
    """One run's schedule; make a new one for each run."""

    is_fifo: ClassVar[bool] = False
    is_over: ClassVar[bool] = False

    def __init__(self, rng: Stream) -> None:
        self._random = rng.random
        self._priorities: dict[int, float] = {}

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        """Among actors of which nothing else is known, any one."""
        return int(self._random() * len(actors))

    def choose_step(self, decision: int, steps: Sequence[Ready], *, is_preemption: bool) -> int:
        priorities = self._priorities
        for step in steps:
            if step.number not in priorities:
                priorities[step.number] = self._random()
        best = max(range(len(steps)), key=lambda position: priorities[steps[position].number])
        chosen = steps[best]
        for step in steps:
            if step is chosen or conflict(step.footprint, chosen.footprint):
                priorities.pop(step.number, None)
        return best

    def has_run(self, step: Ran) -> None:
        self._priorities.pop(step.number, None)
