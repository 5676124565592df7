"""Cold starts of the command: what a user waits for."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure

LOCKREF = str(Path(sys.executable).parent / "lockref")


def _seconds(command: list[str], rounds: int) -> float:
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def measure() -> list[Figure]:
    """`lockref --help` against a bare interpreter with the same libraries, and the whole demo."""
    help_s = _seconds([LOCKREF, "--help"], 9)
    bare_s = _seconds([sys.executable, "-c", "import click, rich"], 9)
    demo_s = _seconds([LOCKREF, "demo"], 1)
    return [
        Figure(name="lockref --help, cold", value=help_s, unit="s", aim="< 0.3", is_met=help_s < 0.3),
        Figure(name="lockref --help against python with click and rich", value=help_s / bare_s, unit="ratio"),
        Figure(name="lockref demo, servers installed", value=demo_s, unit="s", aim="< 60", is_met=demo_s < 60),
    ]
