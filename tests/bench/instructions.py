"""Instructions of one warm seed: a figure that other programs of a full machine do not move.

Counted by the processor (`perf stat`) where it lets itself be asked, which most virtual machines do not, else by
valgrind, under which a seed takes a hundred times as long. Two runs of a process are counted, one with more seeds than
the other, and the difference is told: so the start of the interpreter is not in it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.bench.figures import Figure

FEW: Final = 2
MANY: Final = {"perf": 202, "valgrind": 12}

_SEEDS: Final = """
import sys
from lockref.lab.loading import load_provider
from scenarios.batch import run_seeds
from scenarios.definition.load import load_scenario, parse_scenario
from tests.bench.simulator import SHORT
name, count = sys.argv[1], int(sys.argv[2])
scenario = parse_scenario(SHORT) if name == "short" else load_scenario(name)
run_seeds(scenario, load_provider("hardened"), range(1, count + 1))
"""


def _by_perf(arguments: list[str]) -> int | str:
    """The instructions of a command, or why there is no count."""
    line = ["perf", "stat", "-x", ",", "-e", "instructions:u", *arguments]
    done = subprocess.run(line, capture_output=True, text=True)
    found = re.search(r"^(\d+),[^,]*,instructions:u", done.stderr, re.MULTILINE)
    return int(found[1]) if found else "this machine does not let perf count instructions"


def _by_valgrind(arguments: list[str]) -> int | str:
    """As `_by_perf`."""
    with tempfile.TemporaryDirectory() as scratch:
        out = f"--cachegrind-out-file={Path(scratch) / 'out'}"
        line = ["valgrind", "--tool=cachegrind", "--cache-sim=no", out, *arguments]
        done = subprocess.run(line, capture_output=True, text=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    return int(found[1].replace(",", "")) if found and not done.returncode else f"valgrind failed: {done.stderr[-200:]}"


COUNTERS: Final = {"perf": _by_perf, "valgrind": _by_valgrind}


def _counter() -> tuple[str, str]:
    """The counter that works here, and why another one does not; "" for none."""
    reasons = []
    for name, counted in COUNTERS.items():
        if shutil.which(name) is None:
            reasons.append(f"{name} is not installed")
            continue
        found = counted([sys.executable, "-c", "pass"])
        if isinstance(found, int):
            return name, "; ".join(reasons)
        reasons.append(found)
    return "", "; ".join(reasons)


def measure() -> Iterator[Figure]:
    """The instructions of a short seed and of one of the swarm."""
    counter, reason = _counter()
    if not counter:
        print(f"  instructions are not counted: {reason}")
        return
    many = MANY[counter]
    for name in ("short", "swarm"):
        counts = []
        for seeds in (FEW, many):
            found = COUNTERS[counter]([sys.executable, "-c", _SEEDS, name, str(seeds)])
            assert isinstance(found, int), found
            counts.append(found)
        yield Figure(
            name=f"instructions of a seed, {name}, hardened",
            value=(counts[1] - counts[0]) / (many - FEW) / 1e6,
            unit="M",
            note=f"one count, by {counter}, of {many - FEW} seeds" + (f"; {reason}" if reason else ""),
        )
