"""A lock that fails is named with its own line, the scenario and the seed, and does not end the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run

BAD = """from dataclasses import replace

from lockref.locks.heartbeat import Heartbeat
from lockref.storage.provider import StorageLock


class Slow(StorageLock):
    def holds(self):
        self.runtime.sleep(10)
        return super().holds()


class Raises(Heartbeat):
    def renew(self):
        raise ValueError("no renewals")


class RaisesWhenRenewing(StorageLock):
    parts = replace(StorageLock.parts, heartbeat=Raises)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(BAD)
    return tmp_path


def test_a_failing_lock_is_told_its_line_and_the_others_still_run(capsys: pytest.CaptureFixture[str]) -> None:
    """e08 renews and fails there; e01 holds no longer than a moment and is judged: exit 2, nothing lost."""
    assert run(["sim", "e08", "e01", "--provider", "bad.py:RaisesWhenRenewing", "--seeds", "1..2", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    (error,) = told["errors"]
    assert error["scenario"] == "e08-paused-holder"
    for part in ("bad.py:15", "ValueError", "no renewals", "scenario e08-paused-holder", "seed 1"):
        assert part in error["error"]
    assert told["runs"] == 2


def test_a_guard_that_takes_time_is_named_with_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    """Provider, scenario and seed."""
    assert run(["sim", "e01", "--provider", "bad.py:Slow", "--seeds", "3..4"]) == 2
    said = capsys.readouterr()
    for part in ("bad.py:Slow", "scenario e01-empty-store", "seed 3", "holds took"):
        assert part in said.err + said.out


def test_an_overlap_is_told_with_what_the_store_saw(capsys: pytest.CaptureFixture[str]) -> None:
    """The writes around it: who, what, on which condition, what came of it; tasks where one process holds twice."""
    assert run(["sim", "e08", "--provider", "hudi", "--seeds", "1..2"]) == 1
    block = capsys.readouterr().out.split("✗ ")[1]
    assert block.startswith("S3")
    assert "acquire if" in block
    assert "precondition failed" in block
    assert "  owner " not in block
    assert run(["sim", "u06", "--provider", "hudi", "--seeds", "1..2"]) == 1
    block = capsys.readouterr().out.split("✗ ")[1]
    assert "/second and n" in block or "/main and n" in block
