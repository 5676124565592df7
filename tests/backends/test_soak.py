"""Soaks: one that leaks is told, one that does not is not accused; what cuts a soak short leaves what was measured."""

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

from lockref.cli.main import run
from lockref.lab.spool import SPOOL
from lockref.lab.windows import windows_in
from lockref.samples import LOCK, read_samples
from reports.html.soak import PAGE

LEAKS = """
import itertools, socket
from lockref.storage.lock import StorageLock

KEPT, CYCLES = [], itertools.count(1)

class Leaks(StorageLock):
    def unlock(self):
        if next(CYCLES) % 1000 == 0:
            KEPT.append(socket.socket())
        return super().unlock()

class EachLeaks(StorageLock):
    own = 0

    def unlock(self):
        self.own += 1
        if self.own % 1000 == 0:
            KEPT.append(socket.socket())
        return super().unlock()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaks.py").write_text(LEAKS)
    return tmp_path


def soaked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code = run(["soak", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def slopes_of(document: dict, role: str = LOCK) -> dict[str, dict]:
    return {each["resource"]: each for each in document["slopes"] if each["role"] == role}


def test_a_short_soak_holds_and_says_how_long_it_must_be(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two seconds in memory: the clauses hold, the processes of the lock were sampled, and the rest is inconclusive."""
    code, document = soaked(capsys, "--backend", "memory:", "--for", "2s")
    assert (code, document["verdict"], document["soak"]["verdict"]) == (3, "inconclusive", "inconclusive")
    assert document["soak"]["clauses"] == "held"
    assert slopes_of(document)["sockets"]["needs_s"] > 2
    assert document["soak"]["cycles"] > 0
    folder = Path(document["folder"])
    samples = read_samples(folder / "stretch-1")
    assert {each.role for each in samples} == {"lock", "harness"}
    assert os.getpid() not in {each.pid for each in samples if each.role == LOCK}
    assert (folder / PAGE).exists()
    assert not (folder / "stretch-1" / "recording").exists()
    assert run(["soak", "--resume", str(folder)]) == 2
    assert run(["check", str(folder)]) == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_lock_that_counts_for_itself_and_leaks_is_not_flat(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each instance loses a socket in its own 1,000th cycle; all do so at about the same time."""
    _, document = soaked(capsys, "--backend", "memory:", "--for", "60s", "--provider", "leaks.py:EachLeaks")
    assert document["soak"]["verdict"] != "flat"
    assert {slopes_of(document)[name]["verdict"] for name in ("fds", "sockets")} <= {"leaks", "inconclusive"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_socket_in_a_thousand_cycles_is_told_and_the_lock_without_it_is_not_accused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted leak of one socket in 1,000 cycles leaks sockets and descriptors, at that slope, and nothing else."""
    code, document = soaked(capsys, "--backend", "memory:", "--for", "60s", "--provider", "leaks.py:Leaks")
    slopes = slopes_of(document)
    assert (code, document["verdict"], document["soak"]["clauses"]) == (1, "leaks", "held")
    assert {name for name, each in slopes.items() if each["verdict"] == "leaks"} == {"fds", "sockets"}
    assert slopes["sockets"]["slope_per_1000_cycles"]["slope"] == pytest.approx(1, rel=0.2)
    code, document = soaked(capsys, "--backend", "memory:", "--for", "60s")
    assert (code, document["soak"]["verdict"]) == (0, "flat")


def started(place: Path, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """A soak in a process of its own, and its folder, once its clients work."""
    command = [sys.executable, "-m", "lockref", "soak", *arguments, "--json"]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        for folder in place.glob(".lockref/runs/*-soak"):
            recording = folder / "stretch-1" / SPOOL
            if recording.is_dir() and len(windows_in(recording)) > 2:
                return process, folder
        time.sleep(0.2)
    raise AssertionError(f"the soak recorded nothing: {process.communicate(timeout=10)}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_soak_that_is_killed_goes_on_where_it_was(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kill -9`: nothing runs on, what was measured counts, and the same settings hold for the rest of the time."""
    process, folder = started(place, "--backend", "memory:", "--for", "20s", "--clients", "2")
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=60)
    assert psutil.wait_procs(family, timeout=20)[1] == []
    code, document = soaked(capsys, "--resume", str(folder))
    assert (code, document["soak"]["stretches"]) in ((0, 2), (3, 2))
    assert document["soak"]["lasted_s"] == pytest.approx(20, abs=5)
    assert document["soak"]["clauses"] == "held"
    assert document["soak"]["cycles"] == sum(
        each["count"] for each in json.loads((folder / "stretch-1" / "results.json").read_text())["reach"]
        if each["situation"] == "grant"
    ) + sum(
        each["count"] for each in json.loads((folder / "stretch-2" / "results.json").read_text())["reach"]
        if each["situation"] == "grant"
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.realbackend
@pytest.mark.timeout(600)
def test_a_soak_whose_server_dies_ends_and_keeps_what_was_measured(place: Path) -> None:
    """One clear line, exit code 5, long before the time is over; the clauses and the samples until then are kept."""
    process, folder = started(place, "--backend", "ministack", "--for", "600s")
    [server] = {each.pid for each in read_samples(folder / "stretch-1") if each.role == "server"}
    os.kill(server, signal.SIGKILL)
    out, told = process.communicate(timeout=240)
    assert process.returncode == 5, told
    assert "ended early: ministack went away after" in told
    assert json.loads(out)["soak"]["cycles"] > 0
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"


@pytest.mark.long
@pytest.mark.realbackend
@pytest.mark.timeout(600)
def test_faults_strike_a_soak_again_and_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each client has a process of its own, and the notice tells how often each fault struck."""
    code, document = soaked(
        capsys, "--backend", "ministack", "--faults", "e11-create-reply-lost", "--every", "5s", "--for", "25s"
    )
    assert code in (0, 3)
    assert document["soak"]["clauses"] == "held"
    assert any("faults struck" in notice for notice in document["notices"])
