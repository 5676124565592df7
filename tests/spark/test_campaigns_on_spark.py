"""Campaigns on Spark: the answers of one process, whatever executors do and whoever is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from lockref.errors import BackendUnavailable
from lockref.java import search_java
from reports.spark import fan_out
from reports.spark.fan_out import SparkExecutor
from reports.spark.session import expect_answer
from tests.docs import ROOT
from tests.spark.cluster import Cluster, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 400


def doubled(piece: int) -> int:
    """Work that fails for one piece, as a defect of ours would."""
    if piece < 0:
        raise KeyError(piece)
    return 2 * piece


def test_answers_come_in_the_order_of_the_pieces(spark: SparkSession) -> None:
    """As from any executor; pieces are taken only a little ahead of the answers, so they may be endless."""
    taken = 0

    def pieces() -> Iterator[int]:
        nonlocal taken
        while True:
            yield taken
            taken += 1

    executor = SparkExecutor(spark, tell=pytest.fail)
    answers = executor.map(doubled, pieces())
    assert [next(answers) for _ in range(6)] == [0, 2, 4, 6, 8, 10]
    answers.close()
    assert taken <= 6 + executor.slots * fan_out.AHEAD


def test_an_error_of_the_work_is_a_defect_with_its_text(spark: SparkSession) -> None:
    """Not an environment's failure: nobody would look for it in our code."""
    with pytest.raises(RuntimeError, match="KeyError"):
        list(SparkExecutor(spark, tell=lambda _text: None).map(doubled, [-1]))


def test_what_spark_says_of_a_lost_piece_is_told_with_the_piece() -> None:
    """The reason is in the middle of a page of Java."""
    said = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most "
        "recent failure: Lost task 0.3 in stage 5.0 (TID 9): ExecutorLostFailure (executor 1 exited) Reason: 137\n\tat"
    )
    told = fan_out._told("seeds 1 to 50 of swarm", said)
    assert isinstance(told, BackendUnavailable)
    assert str(told).startswith("seeds 1 to 50 of swarm: every try of it was lost: Lost task 0.3")
    assert str(told).endswith("Reason: 137")
    assert "lacks a package" in str(fan_out._told("x", "Traceback (most recent call last)\nModuleNotFoundError: No m"))
    assert "PYSPARK_PYTHON" in str(fan_out._told("x", "[PYTHON_VERSION_MISMATCH] x"))


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    """Spark itself asks for a minute."""
    with pytest.raises(BackendUnavailable, match=r"no Spark master answers at spark://127.0.0.1:1 "):
        expect_answer("spark://127.0.0.1:1")


def command(folder: Path, *more: str) -> list[str]:
    seeds = ["--seeds", "1..400", "--shrink-for", "0s", "--json"]
    return [sys.executable, "-m", "lockref", *more, "--provider", "./mine/lock.py:Mine", *seeds]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a lock of somebody's own, which imports its neighbour."""
    if (search := search_java()).home is None:
        pytest.skip(search.reason)
    (tmp_path / "mine").mkdir()
    shutil.copy(ROOT / "docs/examples/lease_lock.py", tmp_path / "mine/base.py")
    (tmp_path / "mine/lock.py").write_text("from base import LeaseLock\n\n\nclass Mine(LeaseLock):\n    pass\n")
    return tmp_path


def told(folder: Path, line: list[str]) -> dict[str, object]:
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, env=environment())
    assert done.returncode in (0, 1, 3, 4), done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def chunks(folder: Path) -> list[Path]:
    return list(folder.glob("chunks/chunk-*.json"))


def await_chunk(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for the first committed chunk."""
    ends_at = time.monotonic() + PATIENCE_S
    while not chunks(folder):
        assert process.poll() is None, "the campaign ended before anything could be killed"
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def begun(place: Path, line: list[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        line, cwd=place, env=environment(), stdout=(place / "out.json").open("wb"),
        stderr=(place / "err.txt").open("wb"), start_new_session=True,
    )  # fmt: skip
    await_chunk(place / "on-spark", process)
    return process


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_cluster_whose_executor_and_driver_are_killed(place: Path) -> None:
    """A standalone cluster gets code and lock shipped; kills lose nothing, count nothing twice, and are told."""
    expected = told(place, command(place, "sim", "swarm", "--jobs", "2"))
    (place / "cluster").mkdir()
    with cluster(place / "cluster") as running:
        line = command(place, "campaign", "swarm", "--master", running.address, "--out", "on-spark")
        first = begun(place, line)
        kill_one(running)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        assert 0 < len(chunks(place / "on-spark")) < 8
        second = subprocess.Popen(
            [*line, "--resume"], cwd=place, env=environment(), stdout=(place / "out.json").open("wb"),
            stderr=(place / "err.txt").open("wb"), start_new_session=True,
        )  # fmt: skip
        before = len(chunks(place / "on-spark"))
        ends_at = time.monotonic() + PATIENCE_S
        while len(chunks(place / "on-spark")) == before and second.poll() is None:
            assert time.monotonic() < ends_at
            time.sleep(0.02)
        kill_one(running)
        assert second.wait(PATIENCE_S) in (0, 1, 3, 4), (place / "err.txt").read_text()
    found = json.loads((place / "out.json").read_text())
    for name in ("digest", "runs", "verdict", "clauses", "failures", "endings"):
        assert found[name] == expected[name], name
    assert any("resumed: " in notice for notice in found["notices"])
    shipped = list((place / "cluster").glob("work-*/*/*/lockref-shipped/files/lock.py"))
    assert shipped, "the executors loaded the lock from its first place"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_gate_and_an_envelope_on_a_cluster_say_what_one_process_says(place: Path) -> None:
    """The lock is shipped with what it imports; only the times and the folders of the documents differ."""
    gate = ["gate", "-k", "e08 or e01", "--seeds", "1..120", "--provider", "./mine/lock.py:Mine"]
    mixed = ["gate", "-k", "e08", "--seeds", "1..60", "--provider", "hudi,hardened"]
    envelope = ["envelope", "--provider", "./mine/lock.py:Mine", "--provider", "hudi", "--axis", "pause=3s..12s/9s"]
    commands = [[*gate, "--json"], [*mixed, "--json"], [*envelope, "--seeds", "1..3", "--json", "--shrink-for", "0s"]]
    expected = [told(place, [sys.executable, "-m", "lockref", *command, "--jobs", "1"]) for command in commands]
    (place / "cluster").mkdir()
    with cluster(place / "cluster") as running:
        for command, before in zip(commands, expected, strict=True):
            found = told(place, [sys.executable, "-m", "lockref", *command, "--master", running.address])
            assert timeless(found) == timeless(before)
        (place / "mine/new.py").write_text("from lockref.storage.lock import StorageLock as New\n")
        refused = ["gate", "-k", "e08", "--provider", "hudi,./mine/new.py:New", "--master", running.address]
        done = subprocess.run(
            [sys.executable, "-m", "lockref", *refused], cwd=place, capture_output=True, text=True, env=environment()
        )
    assert done.returncode == 2
    assert "./mine/new.py:New, which it names, is not shipped to a cluster" in " ".join(done.stderr.split())
    shipped = list((place / "cluster").glob("work-*/*/*/lockref-shipped/files/lock.py"))
    assert shipped, "the executors loaded the lock from its first place"


def timeless(document: object) -> object:
    """The document without what differs from run to run."""
    if isinstance(document, dict):
        return {name: timeless(each) for name, each in document.items() if name not in ("seconds", "folder")}
    return [timeless(each) for each in document] if isinstance(document, list) else document


def kill_one(running: Cluster) -> None:
    """SIGKILL for an executor that runs."""
    executors = running.executors()
    assert executors
    executors[0].kill()


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_python_worker_that_is_killed_costs_nothing(place: Path) -> None:
    """With Spark in this machine's processes, too: what was under way runs again, and the digest is that of sim."""
    expected = told(place, command(place, "sim", "swarm", "--jobs", "2"))
    process = begun(place, command(place, "campaign", "swarm", "--master", "local[2]", "--out", "on-spark"))
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "daemon" in " ".join(child.cmdline()) and child.parent().cmdline() == child.cmdline()
    ]
    assert workers
    workers[0].kill()
    assert process.wait(PATIENCE_S) in (0, 1, 3, 4), (place / "err.txt").read_text()
    assert json.loads((place / "out.json").read_text())["digest"] == expected["digest"]
