"""The baseline against Hudi's own classes, in a child process of its own, and those classes as a contender.

A child, because a Java provider that is left open keeps its process for ever (D12).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.definition.load import load_scenario
from scenarios.worlds.simulated import run_simulated
from tests.conformance.hudi_traces import EXIT_CAPABILITY_MISSING

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = "tests.evidence.peers.hudi:HudiOriginalLock"
ITS_FILE = f"{ROOT}/tests/evidence/peers/hudi.py:HudiOriginalLock"
pytestmark = [pytest.mark.java, pytest.mark.xdist_group("jvm")]


def java_lane(*arguments: str) -> dict[str, Any]:
    """Run a lane of hudi_traces.py; skip with its reason where Java or the jar cannot be had."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.hudi_traces", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    if done.returncode == EXIT_CAPABILITY_MISSING:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module", params=[(75, 250), pytest.param((300, 1000), marks=pytest.mark.long)])
def compared(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What both did on so many traces and so many bodies, of which `make test` makes a quarter."""
    traces, bodies = request.param
    return {"asked": bodies, **java_lane("compare", "--traces", str(traces), "--bodies", str(bodies))}


def test_baseline_and_original_agree_step_by_step_on_random_traces(compared):
    """Sections 4 to 6: same answers, exceptions and states, same writes, lock object, heartbeat and audit, in order."""
    assert compared["steps"] > 5 * compared["traces"]
    assert compared["differences"] == 0, json.dumps(compared["shown"], indent=1)


def test_heartbeat_managers_agree_tick_by_tick(compared):
    """Section 5, heartbeat manager: same answers, interrupts and state on scripted ticks."""
    assert compared["heartbeat_steps"] > 4 * compared["traces"]
    assert compared["heartbeat_differences"] == []


def test_our_strict_reader_is_jackson_on_every_row_of_the_parsing_table(compared):
    """Section 1, parsing: accepted, coerced and refused bodies are the same ones, with the same content."""
    assert compared["table_rows"] > 100
    assert compared["table_differences"] == []


def test_our_strict_reader_is_jackson_on_made_up_bodies(compared):
    """Section 1, parsing: no generated body is read differently."""
    assert compared["bodies"] == compared["asked"]
    assert compared["body_difference"] is None


def test_paths_settings_and_written_bytes_are_those_of_hudi(compared):
    """Sections 1 and 3: same bucket and key, same refusals in the same words and order, same bytes."""
    assert compared["facts_differences"] == []


def test_original_and_baseline_take_turns_and_a_theft_interrupts_the_original():
    """One object, two implementations; U7: after the theft unlock fails and leaves the thief's record alone."""
    result = java_lane("contend")
    assert result["turns"] == [[True, True, False]] * 7
    assert result["interrupted"] is True
    assert result["unlock"] == "HoodieReleaseFailed"
    assert '"owner":"thief"' in result["left"]


@pytest.mark.parametrize("place", [ORIGINAL, ITS_FILE], ids=["module", "file"])
def test_the_original_is_refused_under_virtual_time(place: str) -> None:
    """A Java thread beats on the machine's clock: nothing that a simulation told of it would mean anything."""
    with pytest.raises(ConfigError, match=r"lives in real time only.*lockref bench"):
        run_simulated(load_scenario("e01"), load_provider(place), 1)


@pytest.mark.parametrize(
    ("place", "contenders"),
    [
        (ORIGINAL, 2),
        pytest.param(ORIGINAL, 8, marks=pytest.mark.long),
        pytest.param(ITS_FILE, 2, marks=pytest.mark.long),
    ],
    ids=["module", "eight", "file"],
)
def test_a_command_of_a_clone_takes_the_original_by_its_place(place: str, contenders: int, tmp_path: Path) -> None:
    """What is installed knows no name for it. Four threads that started the JVM at once ended it by SIGSEGV."""
    words = ["bench", "contention", "--backend", "memory:", "-p", place, "--contenders", str(contenders), "--for", "2s"]
    done = subprocess.run(
        [sys.executable, "-m", "lockref", *words, "--json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    if done.returncode == 5:
        pytest.skip(f"no JVM to start: {done.stderr[-300:]}")
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    assert (told["runs"], told["failures"]) == (1, [])
    assert told["endings"]["released"] > 0, "it was locked and given back"
