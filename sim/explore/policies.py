"""Policies: how the schedules of an exploration are chosen, and what they are called.

    random       any of the steps that are ready, each time
    pct:D        random priorities with D - 1 points at which they change (`sim.explore.pct`)
    pos          random priorities, drawn anew where steps compete (`sim.explore.pos`)
    delay:N      all schedules with at most N choices that differ from first-in, first-out (`sim.explore.exhaustive`)
    exhaustive   all orders that can make a difference

The first three draw one schedule for a run. The last two run a whole search for each seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lockref.errors import did_you_mean, quote
from lockref.grammar import decimal
from sim.explore.exhaustive import Search
from sim.explore.pct import Pct
from sim.explore.pos import Pos
from sim.kernel.schedules import RandomTies, Schedule
from sim.kernel.streams import stream

RANDOM: Final = "random"
PCT: Final = "pct"
POS: Final = "pos"
DELAY: Final = "delay"
EXHAUSTIVE: Final = "exhaustive"
NUMBERED: Final = {PCT: "D", DELAY: "N"}
"""The policies that take a number, with what it is called."""

SPELLINGS: Final = (RANDOM, f"{PCT}:D", POS, f"{DELAY}:N", EXHAUSTIVE)
NUMBER_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. number: D of pct, N of delay; 0 for the others."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.number}" if self.name in NUMBERED else self.name

    @property
    def is_systematic(self) -> bool:
        """True if each seed is searched by many runs."""
        return self.name in (DELAY, EXHAUSTIVE)

    def schedule(self, seed: int, *, decisions: int) -> Schedule:
        """The schedule of one run. decisions: about how many a run has, which pct spreads its points over."""
        rng = stream(seed, "explore")
        if self.name == PCT:
            return Pct(rng, depth=self.number, decisions=max(1, decisions))
        if self.name == POS:
            return Pos(rng)
        assert self.name == RANDOM, "a systematic policy has no single schedule"
        return RandomTies(rng)

    def search(self, runs_max: int) -> Search:
        """The search of one seed, of at most so many runs."""
        assert self.is_systematic, "only a systematic policy searches"
        return Search(self.number if self.name == DELAY else None, runs_max)


def parse_policy(text: str, *, others: Sequence[str] = ()) -> Policy:
    """The policy of that spelling. Raises ValueError that names the accepted forms.

    others: words that mean no policy, but would have been accepted in its place.
    """
    name, colon, number = text.partition(":")
    known = {RANDOM, PCT, POS, DELAY, EXHAUSTIVE}
    if name not in known:
        raise ValueError(
            f"{quote(text)}; expected one of {', '.join((*SPELLINGS, *others))}."
            f"{did_you_mean(name, sorted({*known, *others}))}"
        )
    if name not in NUMBERED:
        if colon:
            raise ValueError(f"{quote(text)}: {name} takes no number")
        return Policy(name)
    value = decimal(number)
    if value is None or not 1 <= value <= NUMBER_MAX:
        raise ValueError(f"{quote(text)}; expected {name}:{NUMBERED[name]} with a number from 1 to {NUMBER_MAX}")
    return Policy(name, value)


class CountedDecisions:
    """First-in, first-out, and how many decisions that had. decisions: the count so far."""

    is_fifo: ClassVar[bool] = False

    def __init__(self) -> None:
        self.decisions = 0

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        self.decisions = decision + 1
        return 0
