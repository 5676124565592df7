"""Named streams of randomness: one per concern, derived from the run's seed.

A stream is found by hashing seed and label, so a new consumer of randomness
never moves the draws of another one. Nothing else in the simulator makes a
generator; an unseeded draw would break the promise that a seed is a run.
"""

from __future__ import annotations

import hashlib
import random  # noqa: TID251 - the one place where the simulator makes generators


class Stream(random.Random):
    """A generator that is always seeded. Other modules need not import `random`.

    Draws what `random.Random(seed)` draws. A run makes ten of them, and half of what `Random` does to make one is
    asking what kind of thing its seed is. A copy is made without a seed and given its state.
    """

    def __init__(self, seed: int = 0) -> None:
        assert seed >= 0, "a negative seed would be taken for its absolute value"
        super(random.Random, self).seed(seed)
        self.gauss_next = None


STREAMS_VERSION = 1
"""Stored with a failure: another number means that draws are derived in another way."""


def derive(seed: int, label: str) -> int:
    """64 bits that depend on every bit of `seed` and `label`, on any machine."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=8).digest(), "big")


def stream(seed: int, label: str) -> Stream:
    """The generator of one concern, such as "faults" or "entropy/n1/0"."""
    return Stream(derive(seed, label))
