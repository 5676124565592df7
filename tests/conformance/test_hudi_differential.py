"""The baseline against Hudi's own classes, in a child process of its own.

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

from tests.conformance.hudi_traces import EXIT_CAPABILITY_MISSING

ROOT = Path(__file__).resolve().parents[2]
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
