"""Cold starts of the command: what a user waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.figures import Figure, Spread, in_turn, seconds, warm

LOCKREF = str(Path(sys.executable).parent / "lockref")


def _run(command: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds(
            lambda: subprocess.run(
                command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )


_TO_FIRST_REQUEST = """
import os, sys, time
def first(event, args):
    if event == "socket.connect":
        print(time.process_time(), flush=True)
        os._exit(0)
sys.addaudithook(first)
from lockref.cli.main import run
run(["--quiet", "probe", {uri!r}])
"""
_STORES = {
    "s3": "s3://lake?endpoint=http://127.0.0.1:9",
    "gs": "gs://lake?endpoint=http://127.0.0.1:9",
    "az": "az://lake?endpoint=http://127.0.0.1:9/devstoreaccount1",
}


def _cpu_to_first_request(uri: str) -> float:
    """Seconds of processor time, interpreter and imports included, until the probe's first connection."""
    environment = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", **os.environ}
    code = _TO_FIRST_REQUEST.replace("{uri!r}", repr(uri))
    told = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(told.stdout)


def _probe_figure(scheme: str, cpu: Spread) -> Figure:
    title = f"lockref probe {scheme}: processor time to the first request"
    return Figure.of(title, cpu, "s", aim="< 1", is_met=cpu.median < 1)


def measure() -> list[Figure]:
    """`lockref --help` against a bare interpreter with the same libraries, a listing, a probe of each cloud until its
    first request, and the whole demo."""
    ours, bare = in_turn(
        lambda: _run([LOCKREF, "--help"]), lambda: _run([sys.executable, "-c", "import click, rich"]), rounds=9
    )
    listing = warm(lambda: _run([LOCKREF, "scenario", "list"]), rounds=9)
    probes = {scheme: warm(partial(_cpu_to_first_request, uri), rounds=9) for scheme, uri in _STORES.items()}
    demo = warm(lambda: _run([LOCKREF, "demo"]), rounds=2)
    return [
        Figure.of("lockref --help, a new process", ours, "s", aim="< 0.3", is_met=ours.median < 0.3),
        Figure.of("lockref --help against python with click and rich", ours.over(bare), "ratio"),
        Figure.of("lockref scenario list, a new process", listing, "s", aim="< 1", is_met=listing.median < 1),
        *(_probe_figure(scheme, cpu) for scheme, cpu in probes.items()),
        Figure.of("lockref demo, servers installed", demo, "s", aim="< 60", is_met=demo.median < 60),
    ]
