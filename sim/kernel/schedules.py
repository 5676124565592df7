"""Schedules: who goes first when several steps are due at one instant.

Wherever more than one step is ready, the kernel asks the schedule. The answer
is an index into the ready steps in the order of their making, and 0 is the
default, so that every schedule shrinks towards plain first-in, first-out. A
question with more than one candidate is a *decision*; decisions are numbered
from 0, and a run stores only the pairs that differ from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from sim.kernel.streams import Stream


class Schedule(Protocol):
    """A policy for ties.

    is_fifo: True lets the kernel skip the questions altogether.
    """

    @property
    def is_fifo(self) -> bool: ...

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        """An index into `actors`, one per ready step: a task's number, or a negative one of a message's own."""
        ...


class Fifo:
    """First made, first run. The target of shrinking."""

    is_fifo: ClassVar[bool] = True

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        return 0


class RandomTies:
    """Uniformly random among the ready steps: bulk search."""

    is_fifo: ClassVar[bool] = False

    def __init__(self, rng: Stream) -> None:
        self._random = rng.random

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        return int(self._random() * len(actors))


class Replay:
    """Stored deviations, default elsewhere.

    A choice that the run does not offer (the decision is never reached, or
    fewer steps are ready) is not an error here; it stays in `unused`, and
    replay reports the failure as not applicable.
    """

    is_fifo: ClassVar[bool] = False

    def __init__(self, deviations: Iterable[tuple[int, int]]) -> None:
        self._choices = dict(deviations)
        self.unused: dict[int, int] = dict(self._choices)

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        choice = self._choices.get(decision, 0)
        if choice and choice < len(actors):
            del self.unused[decision]
            return choice
        return 0
