"""A campaign on one process, on two, and on Spark: what the second core gives, and what Spark takes.

`python -m tests.bench campaign` runs 20,000 seeds three times over, for a quarter of an hour on a free machine;
`--seeds 2000` is enough to see whether something is badly off. The times are of the whole command, its start included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lockref.java import search_java
from tests.bench.figures import Figure, Spread, seconds

SEEDS: Final = 20_000
ONCE_FROM: Final = 5_000
"""From so many seeds on each way is run once: with so many seeds two rounds differ by little."""

ROUNDS: Final = 3
SPEEDUP_MIN: Final = 1.8
SPARK_RATIO_MAX: Final = 1.3

WAYS: Final = {
    "one process": ("--jobs", "1"),
    "two processes": ("--jobs", "2"),
    "Spark local[2]": ("--master", "local[2]"),
}


def _took_s(folder: Path, seeds: int, way: str) -> tuple[float, str]:
    """The seconds of one command, and the digest that it told."""
    command = [
        sys.executable, "-m", "lockref", "-q", "campaign", "e08", "--provider", "hardened", "--seeds", f"1..{seeds}",
        "--keep", "0", "--shrink-for", "0s", "--json", "--out", str(folder), *WAYS[way],
    ]  # fmt: skip
    told: list[str] = []

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent)
        assert done.returncode in (0, 3), done.stderr
        told.append(str(json.loads(done.stdout)["digest"]))

    return seconds(run), told[0]


def measure(seeds: int = SEEDS) -> Iterator[Figure]:
    """The second process against the first, and Spark against two processes. The ways are taken in turn."""
    java = search_java()
    ways = [way for way in WAYS if java.home is not None or not way.startswith("Spark")]
    took: dict[str, list[float]] = {way: [] for way in ways}
    digests = set()
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(1 if seeds >= ONCE_FROM else ROUNDS):
            for way in ways:
                second, digest = _took_s(Path(scratch) / f"{number}-{way.replace(' ', '-')}", seeds, way)
                took[way].append(second)
                digests.add(digest)
    assert len(digests) == 1, f"the executors disagree: {digests}"
    spreads = {way: Spread(tuple(values)) for way, values in took.items()}
    one, two = spreads["one process"], spreads["two processes"]
    gain = one.over(two)
    yield Figure.of(
        f"campaign of {seeds:,} seeds of e08, two processes against one",
        gain,
        "x",
        aim=f">= {SPEEDUP_MIN}",
        is_met=gain.median >= SPEEDUP_MIN,
        note=f"{one} s against {two} s",
    )
    if java.home is None:
        print(f"  Spark is not measured: {java.reason}")
        return
    cost = spreads["Spark local[2]"].over(two)
    yield Figure.of(
        f"campaign of {seeds:,} seeds of e08, Spark local[2] over two processes",
        cost,
        "x",
        aim=f"<= {SPARK_RATIO_MAX}",
        is_met=cost.median <= SPARK_RATIO_MAX,
        note=f"{spreads['Spark local[2]']} s against {two} s",
    )
