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


KEEP_RUNS: Final = 200
"""Histories kept by default: the first runs, and the run of every distinct failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One campaign: which runs of which lock, and what is kept of them.

    place: of its chunks and histories; None where nothing is committed, and kept histories come back with the answers.
    identity: the digest of all that decides its result, by which committed chunks are known; "" without a place.
    keeps_speakers: keep the histories of the first `keep` runs and of the run of each distinct failure, and tell each
    distinct failure; a chunk is one batch of the judge, so that a Ctrl-C loses little. If false: `keep` histories
    evenly over the seeds, and those of the first `keep_failures` runs in which a demanded clause broke.
    compare_every: run every k-th seed of a chunk a second time, under the strict auditor, and compare; 0 for none.
    watched: so many of the first seeds run under the strict auditor.
    not_demanded: clauses that are not demanded: counted and reported, but no failure.
    exploration: how the schedule of each seed is drawn; None for first-in, first-out.
    """

    scenario: Scenario
    spec: ProviderSpec
    seeds: Sequence[int]
    place: Place | None = None
    identity: str = ""
    keep: int = KEEP_RUNS
    keep_failures: int = 0
    keeps_speakers: bool = True
    compare_every: int = 0
    watched: int = 1
    not_demanded: frozenset[str] = frozenset()
    exploration: Exploration | None = None

    @property
    def chunk_seeds(self) -> int:
        """The seeds of a chunk; the last one may have fewer."""
        return CHUNK if self.keeps_speakers else seeds_of_a_chunk(len(self.seeds))

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-len(self.seeds) // self.chunk_seeds)

    def chunk(self, number: int, *, failures_left: int = 0, campaign: int = 0) -> ChunkOrder:
        """The order of one chunk. failures_left: how many more histories of failures are wanted, as far as is known.

        campaign: the number of this campaign among those that are run together.
        """
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
            campaign=campaign,
            number=number,
            seeds=seeds,
            place=self.place,
            identity=self.identity,
            sample=tuple(kept),
            failures_left=failures_left,
            compare_every=self.compare_every,
            watched=self.watched if number == 0 else 0,
            not_demanded=self.not_demanded,
            keeps_speakers=self.keeps_speakers,
            exploration=self.exploration,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOrder:
    """One chunk, as an executor gets it. sample: seeds whose histories are kept whatever they show."""

    scenario: Scenario
    spec: ProviderSpec
    campaign: int
    number: int
    seeds: Sequence[int]
    place: Place | None
    identity: str
    sample: tuple[int, ...]
    failures_left: int
    compare_every: int
    watched: int
    not_demanded: frozenset[str]
    keeps_speakers: bool
    exploration: Exploration | None

    def batches(self) -> Iterator[Sequence[int]]:
        """The seeds of each call of the judge."""
        for start in range(0, len(self.seeds), CHUNK):
            yield self.seeds[start : start + CHUNK]

    def __str__(self) -> str:
        return f"seeds {self.seeds[0]:,} to {self.seeds[-1]:,} of {self.scenario.name}"


def seeds_of_a_chunk(seeds: int) -> int:
    """The seeds of a chunk, in a campaign over so many: a multiple of what the judge takes in one call."""
    batches = -(-seeds // (CHUNKS_WANTED * CHUNK))
    return CHUNK * max(1, min(BATCHES_MAX, batches))
