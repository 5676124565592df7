"""A failure or a scenario may come from a stranger: what it names is imported only when its reader says so."""

from __future__ import annotations

import json
import shutil

import pytest

from lockref.cli.main import run
from lockref.lab.loading import is_installed_code
from scenarios.definition.load import catalogue

LOCK = """
import pathlib
(pathlib.Path(__file__).parent / "executed").write_text("x")
from lockref.storage.hudi.lock_manager import HudiLock
class Mine(HudiLock): ...
"""

SCENARIO = """
version: 1
name: foreign
clients: 2
providers: {n2: ./lock.py:Mine}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a lock in it, in which commands run."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "lock.py").write_text(LOCK)
    monkeypatch.chdir(here)
    return here


def found(folder):
    """A failure of the lock in this folder, found by `sim`."""
    assert run(["-q", "sim", "e08", "--provider", "./lock.py:Mine", "--seeds", "1..3", "--jobs", "1"]) == 1
    (folder / "executed").unlink()
    return min((folder / ".lockref" / "failures").glob("*.json"))


def test_what_counts_as_installed():
    """Names, and modules of this package; every file and every other module is somebody else's."""
    ours = ["hudi", "registered-by-a-package", "lockref.storage.lock:StorageLock", "scenarios.delta.files:Files"]
    theirs = ["./lock.py:Mine", "/a/b.py:C", "os:system", "lockref/x.py:Y", "lockrefx:Y", "a/lockref:Y", "tests.x:Y"]
    assert [is_installed_code(each) for each in (*ours, *theirs)] == [True] * len(ours) + [False] * len(theirs)


def test_a_scenario_is_validated_without_running_what_it_names(folder, capsys):
    """The file is right as far as can be seen; with --trust its lock is looked at, too."""
    (folder / "s.yaml").write_text(SCENARIO)
    assert run(["scenario", "validate", "s.yaml"]) == 0
    assert "not looked at: ./lock.py:Mine" in capsys.readouterr().out
    assert not (folder / "executed").exists()
    assert run(["scenario", "validate", "--trust", "s.yaml"]) == 0
    assert (folder / "executed").exists()


def test_a_failure_names_no_folder_of_its_machine_and_works_elsewhere(folder, tmp_path, monkeypatch, capsys):
    """Stored by a path from here; in a moved folder, and where only the file was sent and the lock lies elsewhere."""
    file = found(folder)
    assert str(tmp_path) not in file.read_text()
    assert run(["replay", file.stem]) == 1
    moved = tmp_path / "moved"
    shutil.move(folder, moved)
    monkeypatch.chdir(moved)
    assert run(["replay", file.stem]) == 1
    other = tmp_path / "other"
    (other / "locks").mkdir(parents=True)
    shutil.copy(moved / ".lockref" / "failures" / file.name, other / "sent.json")
    shutil.copy(moved / "lock.py", other / "locks" / "lock.py")
    monkeypatch.chdir(other)
    assert run(["replay", "sent.json", "--trust"]) == 2
    assert "--provider names the lock where it is now" in capsys.readouterr().err
    assert run(["replay", "sent.json", "--provider", "locks/lock.py:Mine"]) == 1


def test_a_lock_within_a_scenario_is_stored_without_its_folder_too(folder, tmp_path):
    """A user may name it by an absolute path; the failure is replayed where the folder has been moved to."""
    text = next(path for path in catalogue() if path.stem == "e08-paused-holder").read_text()
    (folder / "mixed.yaml").write_text(f"{text}\nproviders: {{n1: '{folder}/lock.py:Mine'}}\n")
    assert run(["-q", "sim", "mixed.yaml", "--provider", "hudi", "--seed", "1", "--jobs", "1"]) == 1
    files = list((folder / ".lockref" / "failures").glob("*.json"))
    assert files
    for file in files:
        assert json.loads(file.read_text())["scenario"]["providers"] == {"n1": "lock.py:Mine"}
        assert str(tmp_path) not in file.read_text()
    assert run(["replay", files[0].stem]) == 1


def test_a_stranger_s_failure_is_replayed_without_running_what_it_names(folder, tmp_path, monkeypatch, capsys):
    """Exit 2, and nothing is executed, also for a lock within the scenario; then with --trust."""
    file = found(folder)
    sent = folder / "sent.json"
    shutil.copy(file, sent)
    assert run(["replay", "sent.json"]) == 2
    assert "add --trust if you trust that code; --provider names a lock of yours instead" in capsys.readouterr().err
    assert run(["replay", "sent.json", "--provider", "hudi"]) == 1
    assert not (folder / "executed").exists()
    document = json.loads(sent.read_text())
    document["provider"]["name"] = "hudi"
    document["scenario"]["providers"] = {"n2": "./lock.py:Mine"}
    (folder / "within.json").write_text(json.dumps(document))
    assert run(["replay", "within.json"]) == 2
    assert run(["replay", "within.json", "--provider", "hudi"]) == 2
    assert not (folder / "executed").exists()
    assert run(["replay", "sent.json", "--trust"]) == 1
