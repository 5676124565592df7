"""Cold starts of the command: what a user waits for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import Figure, in_turn, seconds, warm

LOCKREF = str(Path(sys.executable).parent / "lockref")


def _run(command: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds(
            lambda: subprocess.run(
                command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )


def measure() -> list[Figure]:
    """`lockref --help` against a bare interpreter with the same libraries, a listing, and the whole demo."""
    ours, bare = in_turn(
        lambda: _run([LOCKREF, "--help"]), lambda: _run([sys.executable, "-c", "import click, rich"]), rounds=9
    )
    listing = warm(lambda: _run([LOCKREF, "scenario", "list"]), rounds=9)
    demo = warm(lambda: _run([LOCKREF, "demo"]), rounds=2)
    return [
        Figure.of("lockref --help, a new process", ours, "s", aim="< 0.3", is_met=ours.median < 0.3),
        Figure.of("lockref --help against python with click and rich", ours.over(bare), "ratio"),
        Figure.of("lockref scenario list, a new process", listing, "s", aim="< 1", is_met=listing.median < 1),
        Figure.of("lockref demo, servers installed", demo, "s", aim="< 60", is_met=demo.median < 60),
    ]
