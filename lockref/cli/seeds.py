"""Seeds as people write them: `7`, `0x1f`, `1..500`, a 40-digit commit hash.

A commit hash is a seed, after TigerBeetle's fuzzers: a build that takes its own
commit explores something new each time and can still be repeated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scenarios.definition.schema import Scenario

SEEDS_MAX = 10_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")


def parse_seed(text: str) -> int:
    """One seed, 0 to 2⁶³-1. Raises ValueError."""
    if _COMMIT.fullmatch(text):
        return int(text, 16) % 2**63
    seed = int(text, 0)
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {text} is out of range; expected 0 to 2^63-1")
    return seed


class SeedRange(click.ParamType[Any]):
    """`A..B`, both included, or one seed."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, separator, last = str(value).partition("..")
        try:
            start = parse_seed(first)
            stop = parse_seed(last) if separator else start
        except ValueError:
            self.fail(f"{value!r} is no range of seeds; expected such as 1..500, 7 or 0x1f", param, ctx)
        if stop < start:
            self.fail(f"{value!r} is empty: {start} is larger than {stop}", param, ctx)
        if stop - start >= SEEDS_MAX:
            self.fail(f"{value!r} names {stop - start + 1:,} seeds; at most {SEEDS_MAX:,}", param, ctx)
        return range(start, stop + 1)


SEED_RANGE = SeedRange()


def seeds_for(scenario: Scenario, asked: range | None, otherwise: range) -> range:
    """The seeds to run: those asked for, else the one that the scenario pins, else `otherwise`."""
    if asked is not None:
        return asked
    return otherwise if scenario.seed is None else range(scenario.seed, scenario.seed + 1)
