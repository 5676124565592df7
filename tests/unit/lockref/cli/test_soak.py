"""The options of `lockref soak` that would not do what they say are refused, before anything runs."""

from __future__ import annotations

import json

import pytest

from lockref.cli.jobs.soak import soaking
from lockref.cli.main import run
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_soak_that_goes_on_takes_no_other_setting(capsys):
    """`--for 8h` would else be ignored."""
    assert run(["soak", "--resume", "latest", "--for", "8h"]) == 2
    assert "leave --for out" in capsys.readouterr().err


def test_a_soak_that_is_too_short_for_its_faults_is_refused(place, capsys):
    """It would be flat, and no fault had struck."""
    assert run(["soak", "--backend", "ministack", "--faults", "e11-create-reply-lost", "--for", "30s"]) == 2
    assert "none would strike; give --for more than 35 s" in capsys.readouterr().err
    assert not list(place.glob(".lockref/runs/*-soak"))


def test_a_soak_of_no_time_is_refused(place, capsys):
    """It would begin, record nothing, and say that a run is to be run again."""
    assert run(["soak", "--backend", "memory:", "--for", "999ms"]) == 2
    assert "--for 999 ms is too short for a soak; expected 1 s or more" in capsys.readouterr().err
    assert not list(place.glob(".lockref/runs/*-soak"))


def test_a_soak_that_never_began_leaves_no_stretch(place, capsys):
    """A place that cannot be used: the folder tells what was asked for, and no more, also after a second attempt."""
    (place / "taken").write_text("a file")
    assert run(["soak", "--backend", f"file:{place}/taken", "--for", "1s"]) == 5
    assert "File exists" in capsys.readouterr().err
    (folder,) = place.glob(".lockref/runs/*-soak")
    assert run(["soak", "--resume", str(folder)]) == 5
    assert [each.name for each in folder.iterdir()] == ["run.json"]


@pytest.mark.parametrize(("done_ns", "left_ns"), [(0, [10 * NS_PER_S]), (4 * NS_PER_S, [6 * NS_PER_S]), (10**10, [])])
def test_a_soak_that_goes_on_lasts_for_what_is_left(place, monkeypatch, done_ns, left_ns):
    """And no longer than was asked for in all."""
    lasted = []

    def gone(_settings, *, lasting_ns, folder, progress):
        lasted.append(lasting_ns)
        raise BackendUnavailable("gone")

    monkeypatch.setattr(soaking, "soak_on", gone)
    assert run(["soak", "--backend", "memory:", "--for", "10s"]) == 5
    monkeypatch.setattr(soaking, "soaked_ns", lambda _folder: done_ns)
    lasted.clear()
    run(["soak", "--resume", "latest"])
    assert lasted == left_ns


def test_settings_of_a_wrong_type_are_told_with_their_file(place, capsys):
    """`run.json` may have been edited."""
    folder = place / ".lockref" / "runs" / "20260101T000000-soak"
    folder.mkdir(parents=True)
    arguments = {
        "scenario": None, "backend": "memory:", "provider": "hardened", "lasting_ns": 10**9, "clients": None,
        "processes": None, "faults": None, "every_ns": 60 * 10**9, "seed": 0, "via": "native", "unsafe_store": False,
    }  # fmt: skip
    about = {"status": "finished", "command": "lockref soak", "arguments": arguments}
    (folder / "run.json").write_text(json.dumps(about))
    assert run(["soak", "--resume", str(folder)]) == 2
    assert "came to its end" in capsys.readouterr().err
    arguments["lasting_ns"] = "1h"
    (folder / "run.json").write_text(json.dumps(about))
    assert run(["soak", "--resume", str(folder)]) == 2
    assert "is not that of a soak" in capsys.readouterr().err
