"""A lock with clocks of its own is refused under virtual time, and Hudi's JVM starts once."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider, provider_from, registered
from lockref.storage.lock import StorageLock
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.worlds.simulated import run_simulated


class OnAWallClock(StorageLock):
    """Stands for any lock that says so of itself."""

    needs_real_time = True


def test_it_is_refused_in_a_simulation() -> None:
    """Beside virtual clocks a real-time lock was told HELD, whatever it did."""
    spec = provider_from(OnAWallClock, name="wall")
    with pytest.raises(ConfigError, match=r"'wall' lives in real time only.*lockref bench"):
        run_simulated(load_scenario("e01"), spec, 1)


def test_it_is_refused_beside_another_lock_too() -> None:
    scenario = parse_scenario("version: 1\nname: mixed\nproviders: {n2: hudi-jvm}\n")
    with pytest.raises(ConfigError, match="'hudi-jvm' lives in real time only"):
        run_simulated(scenario, load_provider("hardened"), 1)


def test_the_mark_reaches_other_processes() -> None:
    spec = provider_from(OnAWallClock, name="wall")
    assert pickle.loads(pickle.dumps(spec)).needs_real_time
    assert not load_provider("hardened").needs_real_time


def test_hudis_own_lock_has_a_name() -> None:
    assert registered()["hudi-jvm"] == "scenarios.peers.hudi:HudiOriginalLock"


@pytest.mark.long
@pytest.mark.java
def test_many_threads_start_one_jvm(tmp_path: Path) -> None:
    """Four threads that start the JVM at once ended the process by SIGSEGV; in a process of its own, as it must be."""
    command = [sys.executable, "-m", "lockref", "bench", "contention", "--backend", "memory:", "-p", "hudi-jvm"]
    done = subprocess.run(
        [*command, "--contenders", "8", "--for", "2s", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if done.returncode == 5:
        pytest.skip(f"no JVM to start: {done.stderr[-300:]}")
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    assert (told["runs"], told["failures"]) == (1, [])
