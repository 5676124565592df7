"""Old runs make room for new ones: by their number, never by a clock; nobody else's folder is touched; it is told."""

from __future__ import annotations

import json
import shlex
import time
from types import SimpleNamespace

import pytest

from lockref.errors import ConfigError
from scenarios import runs as module
from scenarios.runs import RunFolder


@pytest.fixture
def clock(monkeypatch):
    """What `time.gmtime` and file times would say can be set; names of runs are made from it."""
    stamps = iter(())

    def set_to(*names):
        nonlocal stamps
        stamps = iter(names)

    # The name in the module, not the function of all: a thread that another test left behind asks for the time, too.
    own = SimpleNamespace(strftime=lambda _format, *_: next(stamps), gmtime=time.gmtime, time=time.time)
    monkeypatch.setattr(module, "time", own)
    return set_to


def begin(home, told=None, *, body=b""):
    folder = RunFolder.begin("sim", {}, home=home, tell=(told.append if told is not None else lambda _text: None))
    (folder.path / "events.parquet").write_bytes(body)
    folder.describe(status="finished")
    return folder.path


def left(home):
    return sorted(path.name for path in (home / "runs").iterdir() if not path.is_symlink())


def test_the_oldest_runs_beyond_the_limit_go_and_that_is_told(tmp_path, clock, monkeypatch):
    """Two of five are too many; the line names them."""
    monkeypatch.setattr(module, "RUNS_MAX", 3)
    names = [f"2026010{day}T000000" for day in range(1, 6)]
    clock(*names)
    told = []
    for _ in names:
        begin(tmp_path, told)
    assert left(tmp_path) == [f"{name}-sim" for name in names[2:]]
    assert told == [
        f"removed the run {name}-sim: only the newest 3 runs and 1 GB stay; copy what you need" for name in names[:2]
    ]


@pytest.mark.parametrize("jump", ["20990101T000000", "19800101T000000"])
def test_a_jump_of_the_clock_removes_nothing(tmp_path, clock, monkeypatch, jump):
    """Neither does a run look old beside one from the future, nor does a newer run from the past."""
    monkeypatch.setattr(module, "RUNS_MAX", 4)
    clock("20260101T000000", "20260102T000000", jump, "20260103T000000", "20260104T000000")
    made = [begin(tmp_path) for _ in range(4)]
    assert left(tmp_path) == sorted(path.name for path in made)
    begin(tmp_path)
    # By the order of beginning, whatever the clock said then.
    assert not made[0].exists()
    assert all(path.exists() for path in made[1:])


def test_the_newest_run_stays_however_big_it_is(tmp_path, clock, monkeypatch):
    """What its user has just seen is not removed because it is large; older ones make room for it."""
    monkeypatch.setattr(module, "BYTES_MAX", 1000)
    clock(*(f"2026010{day}T000000" for day in range(1, 5)))
    old, big = begin(tmp_path, body=b"x" * 600), begin(tmp_path, body=b"x" * 5000)
    begin(tmp_path)
    assert (old.exists(), big.exists()) == (False, True)
    begin(tmp_path)
    assert not big.exists()


def test_folders_that_are_no_runs_of_ours_stay(tmp_path, clock, monkeypatch):
    """A user's folder, one with our kind of name and nothing of ours in it, and one with a foreign run.json."""
    monkeypatch.setattr(module, "RUNS_MAX", 1)
    runs = tmp_path / "runs"
    foreign = [runs / "thesis", runs / "20200101T000000-sim", runs / "20200102T000000-sim"]
    for folder in foreign:
        folder.mkdir(parents=True)
        (folder / "data").write_text("mine")
    (foreign[0] / "run.json").write_text(json.dumps({"status": "finished"}))
    (foreign[2] / "run.json").write_text("[1, 2]")
    clock(*(f"2026010{day}T000000" for day in range(1, 5)))
    for _ in range(4):
        begin(tmp_path)
    assert all((folder / "data").exists() for folder in foreign)


def test_the_command_of_a_run_can_be_pasted_into_a_shell(monkeypatch):
    """A limit has spaces and a `<`: without quotes the shell would read a file of the name `2s`."""
    words = ["lockref", "evaluate", "memory:", "--contenders", "1,8", "--require", "handoff.p99 < 2s"]
    monkeypatch.setattr("sys.argv", words)
    assert shlex.split(str(module.provenance({})["command"])) == words


def test_a_chosen_folder_that_is_a_file_is_refused_and_left_as_it_is(tmp_path):
    """It is bad input, and no defect of ours; what stands there stays."""
    chosen = tmp_path / "chosen"
    chosen.write_text("mine")
    with pytest.raises(ConfigError, match="chosen is a file"):
        RunFolder.at(chosen, {})
    assert chosen.read_text() == "mine"
