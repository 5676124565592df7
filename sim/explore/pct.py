"""PCT: probabilistic concurrency testing, a schedule with a guarantee.

Every task, and every message of the world, gets a random priority; the highest
ready one runs. At d - 1 random decisions the one about to run falls behind all
others. With n actors and k decisions, a bug that needs d ordering constraints
is hit with probability at least 1 / (n * k**(d - 1)) per run.

Source: Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lockref.errors import ConfigError
from sim.kernel.streams import Stream


class Pct:
    """One run's schedule; make a new one for each run.

    depth: the bug depth d. decisions: an estimate of k, the number of
    decisions in a run; change points beyond the run's end are wasted.
    """

    is_fifo: ClassVar[bool] = False

    def __init__(self, rng: Stream, *, depth: int = 3, decisions: int = 200) -> None:
        if depth < 1 or decisions < 1:
            raise ConfigError(f"PCT needs depth and decisions of at least 1, not {depth} and {decisions}")
        self._random = rng.random
        changes = sorted(rng.randrange(decisions) for _ in range(depth - 1))
        # The i-th change point gives priority -i - 1: below every initial
        # priority, and below those that fell earlier.
        self._changes = {decision: -float(order + 1) for order, decision in enumerate(changes)}
        self._priorities: dict[int, float] = {}

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        priorities = self._priorities
        for actor in actors:
            if actor not in priorities:
                priorities[actor] = self._random()
        fallen = self._changes.get(decision)
        best = max(range(len(actors)), key=lambda position: priorities[actors[position]])
        if fallen is not None:
            priorities[actors[best]] = fallen
            best = max(range(len(actors)), key=lambda position: priorities[actors[position]])
        return best
