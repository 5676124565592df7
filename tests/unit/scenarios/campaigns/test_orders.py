"""How a campaign is cut into chunks."""

from __future__ import annotations

from scenarios.campaigns.orders import seeds_of_a_chunk


def test_chunks_grow_with_the_seeds_and_end_at_a_thousand() -> None:
    """Few seeds are spread over the cores; many make no more files than need be."""
    assert [seeds_of_a_chunk(count) for count in (1, 600, 5_000, 20_000, 1_000_000, 10_000_000)] == [
        50, 50, 50, 200, 1_000, 1_000
    ]  # fmt: skip
