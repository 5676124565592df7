"""Hudi's own class under the simulator's clock: its histories are the baseline's, event by event."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import CapabilityMissing
from tests.evidence.peers.catalogue import BASELINE, ORIGINAL

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.java, pytest.mark.xdist_group("jvm")]


def compared(*words: str, timeout_s: int = 240) -> list[dict[str, Any]]:
    """The rows of the comparison, in a process of its own: one process can start one JVM. Skips without it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.peers.catalogue", "--locks", f"{ORIGINAL},{BASELINE}", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=timeout_s,
    )  # fmt: skip
    if done.returncode == CapabilityMissing.exit_code:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_original_does_what_the_baseline_does() -> None:
    """A paused holder, a throttled release: the same events at the same instants."""
    chosen = ["e08", "e16"]
    rows = compared("--seeds", "1", *(word for name in chosen for word in ("--scenario", name)))
    assert {row["scenario"]: row["different"] for row in rows} == {row["scenario"]: [] for row in rows}
    assert len(rows) == len(chosen)
    assert all(row["broken"][ORIGINAL] == row["broken"][BASELINE] for row in rows)
    assert rows[0]["broken"][ORIGINAL]["S3"] == 1, "a paused holder wakes up and believes (U1)"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_original_does_so_in_the_whole_catalogue() -> None:
    rows = compared("--seeds", "1..3", timeout_s=1100)
    assert [row for row in rows if row.get("different")] == []
    assert sum("different" in row for row in rows) > 90


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_commands_and_not_javas(number: signal.Signals, tmp_path: Path) -> None:
    """Java's own handler ended its machine in the middle of a run, and the command with a defect."""
    words = ["sim", "swarm", "--provider", ORIGINAL, "--seeds", "1..2000", "--jobs", "1", "--shrink-for", "0s"]
    started = subprocess.Popen(
        [sys.executable, "-m", "lockref", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stderr is not None
    told = ""
    for line in started.stderr:
        told += line
        if "no Java" in line or "jpype1" in line:
            started.wait()
            pytest.skip(line)
        if "50 of 2,000 seeds" in line:
            break
    started.send_signal(number)
    told += started.stderr.read()
    assert started.wait() == 130, told
    assert "defect" not in told
