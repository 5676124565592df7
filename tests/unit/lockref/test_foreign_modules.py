"""A user's file is one module in a process, whoever asks for it; neighbours are those of its own folder."""

from __future__ import annotations

import os
import pickle
import sys

import pytest

from lockref.errors import ConfigError
from lockref.foreign_modules import module_from_file
from lockref.helix.rebalancers import load as load_rebalancer
from lockref.lab.loading import load_decoder, load_provider

LOCK = """
import atexit, pathlib
from lease_base import Lease

with (pathlib.Path(__file__).parent / "executed").open("a") as file:
    file.write("x")

class MyLock(Lease):
    def __init__(self, context): ...
    grant = None
    def try_lock(self): return False
    def lock(self, timeout_s): return False
    def unlock(self): ...
    def holds(self): return False
    def close(self): ...

def decode(key, body): return []
def rule(question): return {}
"""


def folder_with_a_lock(path, *, lease="first"):
    path.mkdir()
    (path / "lease_base.py").write_text(f"class Lease: kind = {lease!r}\n")
    (path / "my_lock.py").write_text(LOCK)
    return path


def executed(folder):
    return len((folder / "executed").read_text())


def test_a_file_is_executed_once_in_a_process(tmp_path, monkeypatch):
    """However often it is asked for: by many clients, from another process' pickle, by another spelling of its path."""
    folder = folder_with_a_lock(tmp_path / "a")
    first = load_provider(f"{folder}/my_lock.py:MyLock")
    again = load_provider(f"{folder}/../a/my_lock.py:MyLock")
    unpickled = pickle.loads(pickle.dumps(first))
    monkeypatch.chdir(folder)
    beside = load_provider("./my_lock.py:MyLock")
    load_decoder("my_lock.py:decode", whose="decoder")
    load_rebalancer(f"{folder}/my_lock.py:rule")
    assert executed(folder) == 1
    assert {spec.factory.made for spec in (first, again, unpickled, beside)} == {first.factory.made}


def test_files_of_one_name_in_two_folders_are_two_modules_with_their_own_neighbours(tmp_path):
    """Each lock inherits from the `lease_base` of its own folder, in whichever order they are loaded."""
    names = ("a", "b", "c")
    folders = [folder_with_a_lock(tmp_path / name, lease=name) for name in names]
    made = [load_provider(f"{folder}/my_lock.py:MyLock").factory.made for folder in folders]
    assert [one.kind for one in made] == ["a", "b", "c"]
    assert len({one.__module__ for one in made}) == 3
    # A neighbour that was set aside comes back with its folder: the same module, not a second one.
    (folders[0] / "other.py").write_text("import lease_base\n")
    other = module_from_file(folders[0] / "other.py")
    assert other.lease_base.Lease is made[0].__mro__[1]
    known = {getattr(module, "__file__", None) for module in sys.modules.values()}
    assert {str(folder / "lease_base.py") for folder in folders} <= known


def test_a_file_that_failed_is_executed_again(tmp_path):
    """An error is not remembered in the place of a module."""
    folder = folder_with_a_lock(tmp_path / "a")
    (folder / "lease_base.py").write_text("raise RuntimeError('not yet')\n")
    with pytest.raises(ConfigError, match="not yet"):
        load_provider(f"{folder}/my_lock.py:MyLock")
    (folder / "lease_base.py").write_text("class Lease: kind = 'mended, and of another length'\n")
    assert load_provider(f"{folder}/my_lock.py:MyLock").factory.made.kind.startswith("mended")


def test_a_module_of_the_library_is_nobody_s_neighbour(tmp_path):
    """A file that is called like an imported module of Python does not move that one."""
    import json

    folder = folder_with_a_lock(tmp_path / "a")
    (folder / "json.py").write_text("loads = None\n")
    load_provider(f"{folder}/my_lock.py:MyLock")
    assert sys.modules["json"] is json


def test_a_file_edited_within_a_second_is_read_again(tmp_path, monkeypatch):
    """Python takes byte code whose file has the same second and length for that of the new text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "edited.py"
    found = []
    for text in ("value = 1", "value = 2"):
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        found.append(module_from_file(path).value)
    assert found == [1, 2]
