"""Seeds and ranges of numbers as people write them: `7`, `0x1f`, a commit's hash, `1..500`."""

from __future__ import annotations

import re
from typing import Final

SEED_MAX: Final = 2**63 - 1
SEEDS_MAX: Final = 10_000_000

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def parse_seed(text: str) -> int:
    """One seed, 0 to 2⁶³-1: `7`, `0x1f` or a 40-digit commit hash. Raises ValueError.

    The hash is after TigerBeetle's fuzzers: a build that takes its own commit as the seed explores something new each
    time and can still be repeated.
    """
    if _COMMIT.fullmatch(text):
        return int(text, 16) % 2**63
    seed = int(text, 0)
    if not 0 <= seed <= SEED_MAX:
        raise ValueError(f"seed {text} is out of range; expected 0 to 2^63-1")
    return seed


def number_range(text: str, *, noun: str, least: int, most: int, count_max: int) -> range:
    """`A..B`, both included, or one number. noun: what is counted, in the plural.

    Raises ValueError for what is no such range, for an empty one, and for one beyond the bounds.
    """
    first, separator, last = text.partition("..")
    try:
        start = parse_seed(first)
        stop = parse_seed(last) if separator else start
    except ValueError:
        raise ValueError(f"{text!r} is no range of {noun}; expected such as 1..500, 7 or 0x1f") from None
    if stop < start:
        raise ValueError(f"{text!r} is empty: {start} is larger than {stop}")
    if not least <= start <= stop <= most:
        raise ValueError(f"{text!r}: {noun} are from {least:,} to {most:,}")
    if stop - start >= count_max:
        raise ValueError(f"{text!r} names {stop - start + 1:,} {noun}; at most {count_max:,}")
    return range(start, stop + 1)


def seed_range(text: str) -> range:
    """The seeds that `A..B` or one number names. Raises ValueError."""
    return number_range(text, noun="seeds", least=0, most=SEED_MAX, count_max=SEEDS_MAX)
