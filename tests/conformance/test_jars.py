"""Fetching the originals: by coordinates, once, and only the file that was examined."""

from __future__ import annotations

import hashlib

import pytest

from lockref.errors import CapabilityMissing
from lockref.java import JavaHome
from lockref.originals.jars import Jar, fetch, jar_cache

CONTENT = b"a jar"
JAR = Jar(group="g", artifact="a", version="1", sha256=hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKREF_CACHE", str(tmp_path / "cache"))
    return jar_cache()


def java(tmp_path, script):
    """A Java whose launcher is a shell script; each run of it leaves a line in `runs`."""
    launcher = tmp_path / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
    launcher.chmod(0o755)
    return JavaHome(path=tmp_path, version="17", source="test")


def runs(tmp_path):
    log = tmp_path / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_jar_is_fetched_once(tmp_path, cache):
    """The second call finds the file by its digest and starts nothing."""
    home = java(tmp_path, f"printf 'a jar' > {cache}/a-1.jar")
    assert fetch(JAR, java=home) == fetch(JAR, java=home) == cache / "a-1.jar"
    assert runs(tmp_path) == 1


def test_another_file_than_the_examined_one_is_removed(tmp_path, cache):
    """A wrong digest is an error that names both, and the file is gone."""
    home = java(tmp_path, f"printf 'another jar' > {cache}/a-1.jar")
    with pytest.raises(CapabilityMissing, match=rf"expected {JAR.sha256}"):
        fetch(JAR, java=home)
    assert not (cache / "a-1.jar").exists()


def test_a_damaged_file_in_the_cache_is_replaced(tmp_path, cache):
    """A half-written jar of an interrupted run is fetched again."""
    cache.mkdir(parents=True)
    (cache / "a-1.jar").write_bytes(b"a j")
    home = java(tmp_path, f"printf 'a jar' > {cache}/a-1.jar")
    assert fetch(JAR, java=home).read_bytes() == CONTENT


def test_a_failed_download_tells_its_last_lines(tmp_path, cache):
    """CapabilityMissing carries the coordinates and what the resolver said."""
    home = java(tmp_path, "echo 'g#a;1: not found'\nexit 1")
    with pytest.raises(CapabilityMissing, match=r"(?s)g:a:1 failed:.*not found"):
        fetch(JAR, java=home)


def test_a_cache_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    """The message ends with the setting to change."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOCKREF_CACHE", str(tmp_path / "file"))
    with pytest.raises(CapabilityMissing, match=r"set LOCKREF_CACHE"):
        fetch(JAR, java=java(tmp_path, "exit 0"))
