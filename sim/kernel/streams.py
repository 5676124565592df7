"""Named streams of randomness: one per concern, derived from the run's seed.

A stream is found by hashing seed and label, so a new consumer of randomness
never moves the draws of another one. Nothing else in the simulator makes a
generator; an unseeded draw would break the promise that a seed is a run.
"""

from __future__ import annotations

import hashlib
import random  # noqa: TID251 - the one place where the simulator makes generators

Stream = random.Random
"""A seeded generator. Named here so that other modules need not import `random`."""

STREAMS_VERSION = 1
"""Stored with a failure: another number means that draws are derived in another way."""


def derive(seed: int, label: str) -> int:
    """64 bits that depend on every bit of `seed` and `label`, on any machine."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=8).digest(), "big")


def stream(seed: int, label: str) -> Stream:
    """The generator of one concern, such as "faults" or "entropy/n1/0"."""
    return Stream(derive(seed, label))
