"""The order of a campaign: which runs of which lock, which histories are kept, and the chunks that it is cut into.

How seeds are cut depends on their number alone. So a campaign that goes on elsewhere, with more cores or fewer, has
the same chunks, and keeps the same histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lockref.lab.loading import ProviderSpec
from scenarios.batch import CHUNK
from scenarios.campaigns.places import Place
from scenarios.definition.schema import Scenario
from scenarios.search.schedules import Exploration

CHUNKS_WANTED: Final = 100
"""Chunks that a campaign is cut into at least, as long as they are no smaller than a batch of the judge."""

BATCHES_MAX: Final = 20
"""Batches of a chunk at most: a kill costs a chunk of each process, so some tens of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One campaign.

    scenario: as so many seeds owe it (`Scenario.owed_by`). place: of its chunks and histories. identity: the digest of
    all that decides its result. keep: histories of runs that held, evenly over the seeds. keep_failures: histories of
    runs in which a demanded clause broke, the first ones. compare_every: run every k-th seed twice; 0 for none.
    not_demanded: clauses that are counted, and are no failure. keeps_speakers: keep the histories of the first `keep`
    runs and of the run of each distinct failure, in the place of such a sample and of the first failures, and tell
    each distinct failure; a chunk is one batch of the judge, so that a Ctrl-C loses little. exploration: how the
    schedule of each seed is drawn; None for first-in, first-out.
    """

    scenario: Scenario
    spec: ProviderSpec
    seeds: range
    place: Place
    identity: str
    keep: int
    keep_failures: int
    compare_every: int = 0
    not_demanded: frozenset[str] = frozenset()
    keeps_speakers: bool = False
    exploration: Exploration | None = None

    @property
    def chunk_seeds(self) -> int:
        """The seeds of a chunk; the last one may have fewer."""
        return CHUNK if self.keeps_speakers else seeds_of_a_chunk(len(self.seeds))

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-len(self.seeds) // self.chunk_seeds)

    def chunk(self, number: int, *, failures_left: int) -> ChunkOrder:
        """The order of one chunk. failures_left: how many more histories of failures are wanted, as far as is known."""
        begin = number * self.chunk_seeds
        seeds = self.seeds[begin : begin + self.chunk_seeds]
        kept: Sequence[int] = ()
        if self.keeps_speakers:
            kept = seeds[: max(0, self.keep - begin)]
        elif self.keep:
            every = -(-len(self.seeds) // self.keep)
            kept = [seed for place, seed in enumerate(seeds, begin) if place % every == 0]
        return ChunkOrder(
            scenario=self.scenario,
            spec=self.spec,
            number=number,
            seeds=seeds,
            place=self.place,
            identity=self.identity,
            sample=tuple(kept),
            failures_left=failures_left,
            compare_every=self.compare_every,
            not_demanded=self.not_demanded,
            keeps_speakers=self.keeps_speakers,
            exploration=self.exploration,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOrder:
    """One chunk, as an executor gets it. sample: seeds whose histories are kept whatever they show."""

    scenario: Scenario
    spec: ProviderSpec
    number: int
    seeds: range
    place: Place
    identity: str
    sample: tuple[int, ...]
    failures_left: int
    compare_every: int
    not_demanded: frozenset[str]
    keeps_speakers: bool
    exploration: Exploration | None

    def batches(self) -> Iterator[range]:
        """The seeds of each call of the judge."""
        for start in range(0, len(self.seeds), CHUNK):
            yield self.seeds[start : start + CHUNK]

    def __str__(self) -> str:
        return f"seeds {self.seeds[0]:,} to {self.seeds[-1]:,} of {self.scenario.name}"


def seeds_of_a_chunk(seeds: int) -> int:
    """The seeds of a chunk, in a campaign over so many: a multiple of what the judge takes in one call."""
    batches = -(-seeds // (CHUNKS_WANTED * CHUNK))
    return CHUNK * max(1, min(BATCHES_MAX, batches))
