"""`lockref sim` killed at its worst: no worker lives on, and `--resume` ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "lockref", "sim", "swarm", "--seeds", "1..200", "--jobs", "2", "--json"]
PATIENCE_S = 240


def begun(folder: Path) -> subprocess.Popen[bytes]:
    """The campaign, with its first chunk on disk: the event that this waits for."""
    process = subprocess.Popen(
        COMMAND, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    ends_at = time.monotonic() + PATIENCE_S
    while not list(folder.glob(".lockref/runs/latest/chunks/chunks/chunk-*")):
        assert process.poll() is None, "the campaign ended before it could be killed: give it more seeds"
        assert time.monotonic() < ends_at, "no chunk was finished"
        time.sleep(0.02)
    return process


def told(folder: Path, *more: str) -> dict[str, object]:
    done = subprocess.run([*COMMAND, *more], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return {**found, "said": done.stderr}


@pytest.mark.long
def test_a_killed_campaign_leaves_no_worker_and_goes_on(tmp_path: Path) -> None:
    """kill -9 takes the workers along; the rest is run once, and verdict and digest are those of one go."""
    process = begun(tmp_path)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    started_anew = subprocess.Popen(COMMAND, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert started_anew.stderr is not None
    said = started_anew.stderr.readline().decode()
    started_anew.send_signal(signal.SIGINT)
    started_anew.wait(PATIENCE_S)
    started_anew.stderr.close()
    assert "an unfinished run of this command is in" in said
    assert "--resume" in said

    resumed = told(tmp_path, "--resume")
    assert any("resumed: " in notice for notice in resumed["notices"])  # type: ignore[attr-defined]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    whole = told(fresh)
    assert not any("resumed: " in notice for notice in whole["notices"])  # type: ignore[attr-defined]
    for name in ("digest", "runs", "verdict", "clauses", "failures"):
        assert resumed[name] == whole[name]
    assert not list(tmp_path.glob(".lockref/runs/latest/chunks"))


@pytest.mark.long
def test_a_campaign_that_ended_by_a_signal_goes_on_as_well(tmp_path: Path) -> None:
    """SIGTERM, also to the whole group as `timeout` sends it, ends like Ctrl-C; `--resume` goes on.

    Workers do not hear it: one that died in the middle of a result left the command waiting for the rest for ever.
    """
    process = begun(tmp_path)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 130
    assert not psutil.wait_procs(workers, timeout=60)[1]
    about = json.loads((tmp_path / ".lockref/runs/latest/run.json").read_text(encoding="utf-8"))
    assert about["status"] == "interrupted"
    assert any("resumed: " in notice for notice in told(tmp_path, "--resume")["notices"])  # type: ignore[attr-defined]


@pytest.mark.long
def test_what_a_killed_campaign_finished_can_be_judged(tmp_path: Path) -> None:
    """`lockref check` reads the kept histories of its whole chunks, and says how the run ended."""
    process = begun(tmp_path)
    process.kill()
    process.wait()
    command = [sys.executable, "-m", "lockref", "check", "latest", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    assert told["runs"] >= 50
    assert any("was killed" in notice for notice in told["notices"])
